/* LevelDB. The mode is a list of words: "sync" for WriteOptions::sync, "folder" for an Env that syncs the
 * folder after each new name, "big" for values with which tables are written and compacted. */
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/write_batch.h"

#include "engine.h"

namespace {

std::unique_ptr<leveldb::DB> db;

void check(const leveldb::Status &status, const char *what) {
    if (!status.ok())
        fail("%s: %s", what, status.ToString().c_str());
}

struct FolderEnv : leveldb::EnvWrapper {
    FolderEnv() : EnvWrapper(leveldb::Env::Default()) {}
    leveldb::Status synced(const leveldb::Status &status, const std::string &file) {
        if (!status.ok())
            return status;
        int folder = open(file.substr(0, file.rfind('/')).c_str(), O_RDONLY);
        bool done = folder >= 0 && fsync(folder) == 0;
        close(folder);
        return done ? status : leveldb::Status::IOError(file, "its folder can't be synced");
    }
    leveldb::Status NewWritableFile(const std::string &name, leveldb::WritableFile **file) override {
        return synced(target()->NewWritableFile(name, file), name);
    }
    leveldb::Status RenameFile(const std::string &from, const std::string &to) override {
        return synced(target()->RenameFile(from, to), to);
    }
} folder_env;

void open_store(const char *mode, const char *path) {
    leveldb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 64 << 10; /* the least that it takes */
    if (strstr(mode, "folder"))
        options.env = &folder_env;
    leveldb::DB *opened;
    check(leveldb::DB::Open(options, path, &opened), "open");
    db.reset(opened);
}

void commit(const char *mode, const char *path, int count) {
    open_store(mode, path);
    leveldb::WriteOptions options;
    options.sync = strstr(mode, "sync") != nullptr;
    for (int i = 1; i <= count; i++) {
        char data[VALUE];
        leveldb::WriteBatch batch;
        sl_region_begin(static_cast<unsigned>(i));
        leveldb::Slice value(data, value_of(i, data));
        batch.Put("last", value);
        batch.Put(key_of(i), value);
        if (i > KEPT)
            batch.Delete(key_of(i - KEPT));
        if (strstr(mode, "big")) { /* is gone with the same transaction */
            batch.Put("ballast", std::string(12 << 10, static_cast<char>(i)));
            batch.Delete("ballast");
        }
        check(db->Write(options, &batch), "write");
        sl_region_end(static_cast<unsigned>(i));
    }
    db.reset();
}

size_t get(const char *key, char *value) {
    std::string found;
    leveldb::Status status = db->Get(leveldb::ReadOptions(), key, &found);
    if (status.IsNotFound())
        return 0;
    check(status, "get");
    memcpy(value, found.data(), found.size() < VALUE ? found.size() : VALUE);
    return found.size();
}

int verify(int lost, const char *mode, const char *path) {
    open_store(mode, path);
    size_t keys = 0;
    std::unique_ptr<leveldb::Iterator> all(db->NewIterator(leveldb::ReadOptions()));
    for (all->SeekToFirst(); all->Valid(); all->Next())
        keys++;
    check(all->status(), "iterate");
    int answer = verified(lost, KEPT, get, keys);
    all.reset();
    db.reset();
    return answer;
}

}  // namespace

int main(int argc, char **argv) { return engine(argc, argv, commit, verify); }
