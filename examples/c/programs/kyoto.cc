/*
 * Kyoto Cabinet's hash database, mapped into memory as it always is, and recompiled with --persist=msync: what happened since
 * the last `synchronize` is there as a whole or not at all, although its own transactions are not used.
 *
 *     kyoto FILE run [N]       sets 20 records to one number and synchronises, again and again; prints each number
 *     kyoto FILE check LEAST   all records have one number, not less than LEAST, and the database is whole
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <kchashdb.h>

namespace {

constexpr int RECORDS = 20;
kyotocabinet::HashDB db;

void must(bool ok, const char *what)
{
    if (ok)
        return;
    std::fprintf(stderr, "%s: %s\n", what, db.error().message());
    std::_Exit(1);
}

/* Long ones and short ones, so that records move and free blocks are used again. */
std::string value(int record, long number)
{
    return std::to_string(number) + ":" + std::string(static_cast<size_t>((record * 37 + number * 11) % 200), 'x');
}

long number(int record)
{
    std::string found;
    if (!db.get("record " + std::to_string(record), &found))
        return 0;
    long got = std::atol(found.c_str());
    if (found != value(record, got)) {
        std::fprintf(stderr, "record %d is %s\n", record, found.c_str());
        std::_Exit(1);
    }
    return got;
}

int run(long times)
{
    for (long turn = number(0) + 1, end = turn + times; turn < end; turn++) {
        for (int record = 0; record < RECORDS; record++)
            must(db.set("record " + std::to_string(record), value(record, turn)), "set");
        must(db.synchronize(true), "synchronize");
        std::printf("%ld\n", turn);
        std::fflush(stdout);
    }
    return 0;
}

int check(long least)
{
    long first = number(0), count = 0;
    for (int record = 0; record < RECORDS; record++) {
        if (number(record) != first) {
            std::fprintf(stderr, "record %d has %ld, the first %ld\n", record, number(record), first);
            return 1;
        }
    }
    if (first < least) {
        std::fprintf(stderr, "%ld, and has been %ld\n", first, least);
        return 1;
    }
    kyotocabinet::DB::Cursor *cursor = db.cursor();
    std::string key, found;
    for (cursor->jump(); cursor->get(&key, &found, true); count++) {
    }
    delete cursor;
    if (count != db.count() || count != (first ? RECORDS : 0)) {
        std::fprintf(stderr, "%ld records, and it counts %ld\n", count, static_cast<long>(db.count()));
        return 1;
    }
    return 0;
}

}  // namespace

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    /* No repair of its own: it would have to be right already. The mapping has room for all of the file: what lies
       behind it is written by pwrite, which no msync orders. */
    must(db.tune_options(db.TSMALL) && db.tune_buckets(64) && db.tune_map(256 << 20) && db.tune_alignment(4), "options");
    must(db.open(arguments[1], db.OWRITER | db.OCREATE | db.ONOREPAIR), "open");
    int status = std::strcmp(arguments[2], "run") ? check(std::atol(arguments[3]))
                                                  : run(count > 3 ? std::atol(arguments[3]) : 1L << 40);
    if (status)
        std::_Exit(status);
    must(db.close(), "close");
    return 0;
}
