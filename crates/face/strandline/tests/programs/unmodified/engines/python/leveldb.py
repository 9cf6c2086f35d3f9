"""LevelDB by the package plyvel. Settings: `sync` or `nosync`."""
import plyvel

from engine import KEPT, acknowledge, key_of, main, value_of, verified


def opened(folder):
    return plyvel.DB(f"{folder}/db", create_if_missing=True, write_buffer_size=65536)


def commit(settings, folder, count):
    db = opened(folder)
    for i in range(1, count + 1):
        with db.write_batch(transaction=True, sync=settings == "sync") as batch:
            batch.put(b"last", b"%d" % i)
            batch.put(key_of(i).encode(), value_of(i))
            batch.delete(key_of(i - KEPT).encode())
        acknowledge(i)
        # A store that is opened again writes its log to a table.
        if i == count // 2:
            db.close()
            db = opened(folder)
    db.close()


def verify(lost, settings, folder):
    db = opened(folder)
    verified(lost, lambda key: db.get(key.encode()))


main(commit, verify)
