"""LMDB by the package lmdb. Settings: default, NOMETASYNC, WRITEMAP."""
import lmdb

from engine import KEPT, acknowledge, key_of, main, value_of, verified


def opened(settings, folder):
    return lmdb.open(
        folder, map_size=1 << 20, writemap="WRITEMAP" in settings, metasync="NOMETASYNC" not in settings
    )


def commit(settings, folder, count):
    env = opened(settings, folder)
    for i in range(1, count + 1):
        with env.begin(write=True) as txn:
            txn.put(b"last", b"%d" % i)
            txn.put(key_of(i).encode(), value_of(i))
            txn.delete(key_of(i - KEPT).encode())
        acknowledge(i)
    env.close()


def verify(lost, settings, folder):
    with opened(settings, folder).begin() as txn:
        verified(lost, lambda key: txn.get(key.encode()))


main(commit, verify)
