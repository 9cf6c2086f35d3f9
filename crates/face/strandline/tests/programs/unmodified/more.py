"""More ways to lose data, each with its fixed twin: more.py SHAPE wrong|fixed, in the folder d.

`more.py SHAPE recover POOL` judges an image: what was printed must be there.
"""
import ctypes
import mmap
import os
import shutil
import subprocess
import sys

TEXT = "x" * 1500
FIXED = sys.argv[2] == "fixed"


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def create(path, text, durable):
    with open(path, "w") as file:
        file.write(text)
    if durable:
        sync(path)


def folder():
    """A folder is renamed into place before the names in it are durable."""
    os.mkdir("d/new.tmp")
    create("d/new.tmp/file", TEXT, True)
    if FIXED:
        sync("d/new.tmp")
    os.rename("d/new.tmp", "d/new")
    sync("d")
    return "d/new/file"


def mapped():
    """Stores to a mapping that nothing writes back."""
    create("d/file", "." * 1500, True)
    sync("d")
    with open("d/file", "r+b") as file, mmap.mmap(file.fileno(), 1500) as memory:
        memory[:] = TEXT.encode()
        if FIXED:
            memory.flush()
        print("d/file", flush=True)


def by_flag():
    """O_DSYNC was forgotten."""
    create("d/file", "", True)
    sync("d")
    fd = os.open("d/file", os.O_WRONLY | (os.O_DSYNC if FIXED else 0))
    os.write(fd, TEXT.encode())
    return "d/file"


def by_range():
    """sync_file_range makes nothing durable."""
    create("d/file", "", True)
    sync("d")
    fd = os.open("d/file", os.O_WRONLY)
    os.write(fd, TEXT.encode())
    ctypes.CDLL(None).sync_file_range(fd, ctypes.c_long(0), ctypes.c_long(0), 7)
    if FIXED:
        os.fdatasync(fd)
    return "d/file"


def copied():
    """A copy is renamed into place and not synced."""
    create("d/old", TEXT, True)
    shutil.copyfile("d/old", "d/file.tmp")
    if FIXED:
        sync("d/file.tmp")
    os.rename("d/file.tmp", "d/file")
    sync("d")
    return "d/file"


def linked():
    """A second name is not durable when the first one is removed."""
    create("d/file.tmp", TEXT, True)
    os.link("d/file.tmp", "d/file")
    if FIXED:
        sync("d")
    os.unlink("d/file.tmp")
    return "d/file"


def allocated():
    """Space that is allocated before is no contents."""
    fd = os.open("d/file", os.O_CREAT | os.O_WRONLY)
    os.posix_fallocate(fd, 0, 1500)
    os.fsync(fd)
    sync("d")
    os.pwrite(fd, TEXT.encode(), 0)
    if FIXED:
        os.fdatasync(fd)
    return "d/file"


def buffered():
    """The sync comes before the buffer is written."""
    with open("d/file", "w") as file:
        file.write(TEXT)
        if FIXED:
            file.flush()
        os.fsync(file.fileno())
        sync("d")
    return "d/file"


def unnamed():
    """A file without a name gets one before it is durable."""
    fd = os.open("d", os.O_TMPFILE | os.O_WRONLY, 0o644)
    os.write(fd, TEXT.encode())
    if FIXED:
        os.fsync(fd)
    # AT_FDCWD twice, AT_SYMLINK_FOLLOW, which os.link does not pass on.
    if ctypes.CDLL(None).linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, b"d/file", 0x400):
        sys.exit("linkat failed")
    sync("d")
    return "d/file"


def by_child():
    """What another program copied."""
    create("d/old", TEXT, True)
    subprocess.run(["cp", "d/old", "d/file"], check=True)
    if FIXED:
        subprocess.run(["sync", "d/file", "d"], check=True)
    return "d/file"


def wrong_file():
    """A sync of the file that had the name before."""
    fd = os.open("d/file", os.O_CREAT | os.O_WRONLY)
    create("d/file.tmp", TEXT, FIXED)
    os.rename("d/file.tmp", "d/file")
    os.fsync(fd)
    sync("d")
    return "d/file"


def recover(pool):
    for path in open(os.environ["STRANDLINE_STDOUT"]).read().split():
        path = pool + path[1:]
        if not os.path.exists(path) or open(path).read() != TEXT:
            sys.exit(f"what was acknowledged is not in {os.path.basename(path)}")


SHAPES = [folder, mapped, by_flag, by_range, copied, linked, allocated, buffered, unnamed]
SHAPES += [by_child, wrong_file]
if sys.argv[2] == "recover":
    recover(sys.argv[3])
else:
    path = {shape.__name__: shape for shape in SHAPES}[sys.argv[1]]()
    if path:
        print(path, flush=True)
