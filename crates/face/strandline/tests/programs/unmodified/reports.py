"""The shapes of reports.c, which judges them: reports.py SHAPE wrong|fixed, in the folder d."""
import os
import shutil
import sys
import threading

SHAPE, FIXED = sys.argv[1], sys.argv[2] == "fixed"


def synced(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def written(path, letter, count, durable):
    with open(path, "w") as file:
        file.write(letter * count)
        file.flush()
        if durable:
            os.fsync(file.fileno())


def said(number):
    print("saved", number, flush=True)


def logs():
    for log in (1, 2):
        with open(f"d/log.{log}", "r+b", buffering=0) as file:
            for number in range(12):
                file.write(bytes([ord("a") + number + 12 * (log - 1)]) * 1024)
            if FIXED and log == 1:
                os.fsync(file.fileno())
    written("d/table", "t", 100, True)


def version():
    with open("d/log", "r+b", buffering=0) as log, open("d/page", "r+b", buffering=0) as page:
        log.write(b"2")
        os.fsync(log.fileno())
        page.write(b"2" * 8192)
        os.fsync(page.fileno())


def slots():
    def slot(number):
        with open("d/slots", "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), b"r" * 512, number * 512)
            os.fdatasync(file.fileno())
        said(number)

    for number in (0, 1) if FIXED else (1, 0):
        thread = threading.Thread(target=slot, args=(number,))
        thread.start()
        thread.join()


def unflushed():
    with open("d/stream", "w") as file:
        file.write("saved")
        if FIXED:
            file.flush()
        os.fsync(file.fileno())
        synced("d")
        said(1)


def moved():
    shutil.copyfile("d/in/file", "d/out/file")
    if FIXED:
        synced("d/out/file")
        synced("d/out")
    os.remove("d/in/file")
    synced("d/in")


def twice():
    with open("d/copy", "r+b", buffering=0) as copy, open("d/home", "r+b", buffering=0) as home:
        for number in range(2):
            page = b"%d" % number * 2048
            os.pwrite(copy.fileno(), page, 0)
            os.fsync(copy.fileno())
            os.pwrite(home.fileno(), page, number * 4096)
            if FIXED:
                os.fsync(home.fileno())
        os.fsync(home.fileno())


def link():
    os.mkdir("d/v2")
    written("d/v2/data", "d", 2000, FIXED)
    if FIXED:
        synced("d/v2")
    os.symlink("v2", "d/next")
    if FIXED:
        synced("d")
    os.replace("d/next", "d/current")
    synced("d")


def numbers():
    with open("d/mark", "r+b", buffering=0) as file:
        for number in range(1, 4):
            os.pwrite(file.fileno(), b"%d" % number, 0)
            if FIXED:
                os.fsync(file.fileno())
            said(number)
        os.fsync(file.fileno())


globals()[SHAPE]()
