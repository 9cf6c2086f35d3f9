/* Preloaded: the second fsync of the process fails, as on a disk with a bad sector. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>

int fsync(int fd) {
    static int count;
    if (++count == 2)
        return errno = EIO, -1;
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
