/* Ways to save to files, right and wrong: saves MODE FOLDER, and saves --verify MODE FOLDER for what a crash left there.
 * Without a mode's sync, "-" before it: saves -log FOLDER. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "strandline.h"

enum { VERSIONS = 4, RECORD = 700, SLOT = 4096 };

static void must(int done, const char *what)
{
    if (!done) {
        perror(what);
        exit(2);
    }
}

static int wrong(const char *what, int version)
{
    fprintf(stderr, "%s %d\n", what, version);
    return 1;
}

static void fill(char *record, int version)
{
    memset(record, 'a' + version, RECORD);
    memcpy(record, &version, sizeof version);
}

/* The version of a record that is whole; else -1. */
static int whole(const char *record)
{
    char should[RECORD];
    int version;
    memcpy(&version, record, sizeof version);
    fill(should, version);
    return memcmp(record, should, RECORD) ? -1 : version;
}

/* A new file takes the old one's place. */
static void replace(int version, int sync)
{
    char record[RECORD];
    fill(record, version);
    int fd = open("config.new", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(write(fd, record, RECORD) == RECORD, "write");
    must(!sync || fsync(fd) == 0, "fsync");
    close(fd);
    must(rename("config.new", "config") == 0, "rename");
    if (sync) {
        int folder = open(".", O_RDONLY | O_DIRECTORY);
        must(fsync(folder) == 0, "fsync");
        close(folder);
    }
}

/* Records one behind the other; each says itself whether it is whole. */
static void append(int version, int sync)
{
    char record[RECORD];
    fill(record, version);
    int fd = open("log", O_WRONLY | O_APPEND);
    must(write(fd, record, RECORD) == RECORD, "append");
    must(!sync || fdatasync(fd) == 0, "fdatasync");
    close(fd);
}

/* A header says how many slots behind it are full. */
static void slots(int version, int sync)
{
    char record[RECORD];
    fill(record, version);
    int fd = open("slots", O_WRONLY);
    must(pwrite(fd, record, RECORD, (off_t)version * SLOT) == RECORD, "pwrite");
    must(!sync || fdatasync(fd) == 0, "fdatasync");
    must(pwrite(fd, &version, sizeof version, 0) == sizeof version, "pwrite");
    must(fdatasync(fd) == 0, "fdatasync");
    close(fd);
}

/* The same by stores. */
static void mapped(int version, int sync)
{
    int fd = open("slots", O_RDWR);
    char *map = mmap(NULL, (VERSIONS + 1) * SLOT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(map != MAP_FAILED, "mmap");
    fill(map + version * SLOT, version);
    must(!sync || msync(map + version * SLOT, SLOT, MS_SYNC) == 0, "msync");
    memcpy(map, &version, sizeof version);
    must(msync(map, SLOT, MS_SYNC) == 0, "msync");
    munmap(map, (VERSIONS + 1) * SLOT);
    close(fd);
}

static int verify(const char *mode)
{
    static char bytes[(VERSIONS + 1) * SLOT];
    const char *text = getenv("STRANDLINE_DONE");
    int done = text ? atoi(text) : 0, version = -1;
    const char *name = !strcmp(mode, "replace") ? "config" : !strcmp(mode, "log") ? "log" : "slots";
    int fd = open(name, O_RDONLY);
    if (fd < 0)
        return wrong("the file is gone, done", done);
    long len = read(fd, bytes, sizeof bytes);
    if (!strcmp(mode, "replace")) {
        version = len == RECORD ? whole(bytes) : -1;
        if (version < 0)
            return wrong("the file is torn, bytes", (int)len);
    } else if (!strcmp(mode, "log")) {
        for (version = 0; (version + 1) * RECORD <= len && whole(bytes + version * RECORD) == version + 1;)
            version++;
    } else {
        memcpy(&version, bytes, sizeof version);
        for (int i = 1; i <= version; i++)
            if (whole(bytes + i * SLOT) != i)
                return wrong("a slot is torn, slot", i);
    }
    return version < done ? wrong("what was done is lost, version", version) : 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "--verify")) {
        must(chdir(argv[3]) == 0, "chdir");
        return verify(argv[2] + (argv[2][0] == '-'));
    }
    must(argc == 3 && chdir(argv[2]) == 0, "usage: saves [-]replace|log|slots|map FOLDER");
    int sync = argv[1][0] != '-';
    const char *mode = argv[1] + !sync;
    for (int version = 1; version <= VERSIONS; version++) {
        sl_region_begin(version);
        if (!strcmp(mode, "replace"))
            replace(version, sync);
        else if (!strcmp(mode, "log"))
            append(version, sync);
        else if (!strcmp(mode, "slots"))
            slots(version, sync);
        else
            mapped(version, sync);
        sl_region_end(version);
    }
    return 0;
}
