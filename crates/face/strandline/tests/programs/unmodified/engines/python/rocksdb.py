"""RocksDB by the package rocksdict. Settings: `sync` or `nosync`."""
from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from engine import KEPT, acknowledge, key_of, main, value_of, verified


def opened(folder):
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(65536)
    return Rdict(f"{folder}/db", options)


def commit(settings, folder, count):
    db = opened(folder)
    how = WriteOptions()
    how.sync = settings == "sync"
    for i in range(1, count + 1):
        batch = WriteBatch(raw_mode=True)
        batch.put(b"last", b"%d" % i)
        batch.put(key_of(i).encode(), value_of(i))
        batch.delete(key_of(i - KEPT).encode())
        db.write(batch, how)
        acknowledge(i)
        if i == count // 2:
            db.flush()
    db.close()


def verify(lost, settings, folder):
    db = opened(folder)
    verified(lost, lambda key: db.get(key.encode()))


main(commit, verify)
