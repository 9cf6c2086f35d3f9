/* Kyoto Cabinet's hash database. The mode is a list of words: "tran" or "hard" for explicit transactions,
 * without and with physical synchronisation; "OAUTOTRAN", "OAUTOSYNC" for the modes of opening. PATH is a
 * folder. */
#include <string>

#include <kchashdb.h>

#include "engine.h"

namespace {

kyotocabinet::HashDB db;

void check(bool ok, const char *what) {
    if (!ok)
        fail("%s: %s", what, db.error().message());
}

/* An automatic transaction is one operation. */
int kept_in(const char *mode) { return strstr(mode, "OAUTO") ? 0 : KEPT; }

void open_store(const char *mode, const char *path) {
    uint32_t flags = db.OWRITER | db.OCREATE;
    flags |= strstr(mode, "OAUTOTRAN") ? db.OAUTOTRAN : 0;
    flags |= strstr(mode, "OAUTOSYNC") ? db.OAUTOSYNC : 0;
    check(db.tune_buckets(16), "buckets");
    check(db.tune_map(64 << 10), "map");
    check(db.open(std::string(path) + "/store.kch", flags), "open");
}

void commit(const char *mode, const char *path, int count) {
    open_store(mode, path);
    bool hard = strstr(mode, "hard") != nullptr;
    bool transactions = hard || strstr(mode, "tran") != nullptr;
    for (int i = 1; i <= count; i++) {
        char data[VALUE];
        size_t length = value_of(i, data);
        sl_region_begin(static_cast<unsigned>(i));
        if (transactions)
            check(db.begin_transaction(hard), "begin");
        check(db.set("last", 4, data, length), "set");
        if (kept_in(mode))
            check(db.set(key_of(i), strlen(key_of(i)), data, length), "set");
        if (kept_in(mode) && i > KEPT)
            check(db.remove(key_of(i - KEPT), strlen(key_of(i - KEPT))), "remove");
        if (transactions)
            check(db.end_transaction(true), "commit");
        sl_region_end(static_cast<unsigned>(i));
    }
    check(db.close(), "close");
}

size_t get(const char *key, char *value) {
    int32_t length = db.get(key, strlen(key), value, VALUE);
    if (length < 0 && db.error() != kyotocabinet::BasicDB::Error::NOREC)
        check(false, "get");
    return length < 0 ? 0 : static_cast<size_t>(length);
}

int verify(int lost, const char *mode, const char *path) {
    open_store(mode, path);
    int answer = verified(lost, kept_in(mode), get, static_cast<size_t>(db.count()));
    check(db.close(), "close");
    return answer;
}

}  // namespace

int main(int argc, char **argv) { return engine(argc, argv, commit, verify); }
