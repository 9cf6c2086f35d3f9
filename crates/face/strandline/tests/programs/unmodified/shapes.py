"""Shapes of public reports, each with its fixed twin: shapes.py SHAPE wrong|fixed, in the folder d.

`shapes.py lock wrong|fixed FOLDER` is the recovery of `lock`.
"""
import os
import sys

FIXED = sys.argv[2] == "fixed"


def sync_folder():
    fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


def create(name, text, durable):
    with open(name, "w") as file:
        file.write(text)
        file.flush()
        if durable:
            os.fsync(file.fileno())


def saved(number):
    print("saved", number, flush=True)


def manifest():
    """CURRENT names the version; the old one is removed when the new one is in place."""
    create("d/data-2", "version 2\n", True)
    create("d/CURRENT.tmp", "2\n", True)
    if FIXED:
        sync_folder()
    os.replace("d/CURRENT.tmp", "d/CURRENT")
    if FIXED:
        sync_folder()
    os.remove("d/data-1")
    saved(2)


def checkpoint():
    """The log is emptied when a checkpoint has its records."""
    with open("d/log", "ab", buffering=0) as log:
        for i in range(1, 5):
            log.write(b"%d\n" % i)
            os.fsync(log.fileno())
            saved(i)
        create("d/checkpoint.tmp", "4\n", FIXED)
        os.replace("d/checkpoint.tmp", "d/checkpoint")
        if FIXED:
            sync_folder()
        log.truncate(0)
        os.fsync(log.fileno())


def length():
    """The length at 0 says how many bytes from 4096 on are data."""
    fd = os.open("d/data", os.O_WRONLY)
    for i in range(1, 4):
        count = b"%08d" % (500 * i)
        if not FIXED:
            os.pwrite(fd, count, 0)
        os.pwrite(fd, b"x" * 500, 4096 + 500 * (i - 1))
        os.fsync(fd)
        if FIXED:
            os.pwrite(fd, count, 0)
            os.fsync(fd)


def swallowed():
    """The second sync fails. Its pages may be gone then: what is certain is a new file."""
    log = open("d/log", "ab", buffering=0)
    for i in range(1, 4):
        log.write(b"%d\n" % i)
        try:
            os.fsync(log.fileno())
        except OSError:
            if FIXED:
                create("d/log.new", "".join(f"{n}\n" for n in range(1, i + 1)), True)
                os.replace("d/log.new", "d/log")
                sync_folder()
                log = open("d/log", "ab", buffering=0)
        saved(i)


def lock():
    """Each file of the folder is a segment, but for the lock; one that begins with a dot is not finished."""
    create("d/LOCK", "pid\n", False)
    create("d/.2", "segment\n", True)
    os.replace("d/.2", "d/2")
    sync_folder()
    saved(2)
    os.remove("d/LOCK")


def recover_lock(folder):
    for name in os.listdir(folder):
        if name[0] == "." or (FIXED and name == "LOCK"):
            continue
        if open(f"{folder}/{name}").read() != "segment\n":
            sys.exit(f"{name} is no segment")


if len(sys.argv) > 3:
    recover_lock(sys.argv[3])
else:
    {f.__name__: f for f in (manifest, checkpoint, length, swallowed, lock)}[sys.argv[1]]()
