"""SQLite by Python's module. Settings: the journal's mode and the level of `synchronous`, as `WAL FULL`."""
import sqlite3

from engine import KEPT, acknowledge, fail, key_of, main, value_of, verified


def opened(settings, folder):
    db = sqlite3.connect(f"{folder}/db", isolation_level=None)
    mode, level = settings.split()
    db.execute(f"pragma journal_mode={mode}")
    db.execute(f"pragma synchronous={level}")
    db.execute("pragma wal_autocheckpoint=8")
    return db


def commit(settings, folder, count):
    db = opened(settings, folder)
    if count == 0:
        db.execute("create table t(k text primary key, v blob)")
    for i in range(1, count + 1):
        db.execute("begin")
        db.execute("replace into t values('last', ?)", (str(i),))
        db.execute("replace into t values(?, ?)", (key_of(i), value_of(i)))
        db.execute("delete from t where k = ?", (key_of(i - KEPT),))
        db.execute("commit")
        acknowledge(i)


def verify(lost, settings, folder):
    db = opened(settings, folder)
    whole = db.execute("pragma integrity_check").fetchone()[0]
    if whole != "ok":
        fail(whole)
    rows = dict(db.execute("select k, v from t"))
    verified(lost, rows.get)


main(commit, verify)
