"""The shapes of blind.c, which judges them: blind.py SHAPE wrong|fixed, in the folder d."""
import os
import sys

SHAPE, FIXED = sys.argv[1], sys.argv[2] == "fixed"


def synced(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def written(path, mode, letter, count):
    with open(path, mode) as file:
        file.write(letter * count)
        file.flush()
        os.fsync(file.fileno())


def renamed(source, to):
    os.replace(source, to)
    synced("d")


def log():
    with open("d/log", "ab", buffering=0) as file:
        for _ in range(2):
            record = b"%c%06d\n" % (b"F" if FIXED else b"W", 1500) + b"r" * 1500
            file.write(record + (b"C%06d\n" % (1500 * ord("r")) if FIXED else b""))
            os.fdatasync(file.fileno())


def index():
    with open("d/data", "a") as file:
        file.write("d" * 700)
        file.flush()
        if FIXED:
            os.fsync(file.fileno())
    with open("d/index.tmp", "w") as file:
        file.write("1300\n")
        file.flush()
        os.fsync(file.fileno())
    renamed("d/index.tmp", "d/index")


def header():
    with open("d/db", "r+b", buffering=0) as file:
        os.pwrite(file.fileno(), b"p" * 4096, 3 * 4096)
        if FIXED:
            os.fsync(file.fileno())
        os.pwrite(file.fileno(), b"2 3\n", 4096)
        os.fsync(file.fileno())


def wal():
    written("d/wal.2", "w", "w", 700)
    if FIXED:
        synced("d")
    os.remove("d/wal.1")
    synced("d")


def temp(count=3000):
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if FIXED else 0)
    with open(os.open("d/config.tmp", flags, 0o644), "w") as file:
        file.write("n" * count)
        file.flush()
        os.fsync(file.fileno())
    renamed("d/config.tmp", "d/config")


def config():
    if FIXED:
        temp(700)
    else:
        written("d/config", "w", "n", 700)


def unsynced():
    with open("d/config.tmp", "wb", buffering=0) as file:
        file.write(b"n" * 700)
        if FIXED:
            os.fsync(file.fileno())
    renamed("d/config.tmp", "d/config")


def super():
    fd = os.open("d/super", os.O_WRONLY)
    os.pwrite(fd, b"n" * 2048, 0)
    if FIXED:
        os.fdatasync(fd)
    os.pwrite(fd, b"n" * 2048, 4096)
    os.fdatasync(fd)


def reused():
    fd = os.open("d/reused", os.O_WRONLY | os.O_DSYNC)
    for at in range(4):
        os.pwrite(fd, (b"%06d\n" % (5 + at)).ljust(512, b"r"), at * 512)


globals()[SHAPE]()
