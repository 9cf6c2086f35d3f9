/* Shapes of public reports, each with its fixed twin: shapes SHAPE wrong|fixed, in the folder d.
   shapes lock wrong|fixed FOLDER is the recovery of `lock`. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fixed;

static void must(int good) {
    if (!good)
        perror("shapes"), exit(9);
}

static void put(int fd, const char *text, off_t at) {
    must(at < 0 ? write(fd, text, strlen(text)) > 0 : pwrite(fd, text, strlen(text), at) > 0);
}

static void sync_folder(void) {
    int fd = open("d", O_RDONLY | O_DIRECTORY);
    must(fd >= 0 && !fsync(fd) && !close(fd));
}

static void create(const char *name, const char *text, int durable) {
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    must(fd >= 0);
    put(fd, text, -1);
    must((!durable || !fsync(fd)) && !close(fd));
}

static void said(const char *word, int number) {
    printf("%s %d\n", word, number);
    fflush(stdout);
}

/* CURRENT names the version; the old one is removed when the new one is in place. */
static void manifest(void) {
    create("d/data-2", "version 2\n", 1);
    create("d/CURRENT.tmp", "2\n", 1);
    if (fixed)
        sync_folder();
    must(!rename("d/CURRENT.tmp", "d/CURRENT"));
    if (fixed)
        sync_folder();
    must(!unlink("d/data-1"));
    said("saved", 2);
}

/* The log is emptied when a checkpoint has its records. */
static void checkpoint(void) {
    char line[16];
    int log = open("d/log", O_WRONLY | O_APPEND);
    must(log >= 0);
    for (int i = 1; i <= 4; i++) {
        snprintf(line, sizeof line, "%d\n", i);
        put(log, line, -1);
        must(!fsync(log));
        said("saved", i);
    }
    create("d/checkpoint.tmp", "4\n", fixed);
    must(!rename("d/checkpoint.tmp", "d/checkpoint"));
    if (fixed)
        sync_folder();
    must(!ftruncate(log, 0) && !fsync(log));
}

/* The length at 0 says how many bytes from 4096 on are data. */
static void length(void) {
    char data[1501] = "", count[16];
    memset(data, 'x', 500);
    int fd = open("d/data", O_WRONLY);
    must(fd >= 0);
    for (int i = 1; i <= 3; i++) {
        snprintf(count, sizeof count, "%08d", 500 * i);
        if (!fixed)
            put(fd, count, 0);
        put(fd, data, 4096 + 500 * (i - 1));
        must(!fsync(fd));
        if (fixed) {
            put(fd, count, 0);
            must(!fsync(fd));
        }
    }
}

/* The second sync fails. Its pages may be gone then: what is certain is a new file. */
static void swallowed(void) {
    char line[16], all[64] = "";
    int log = open("d/log", O_WRONLY | O_APPEND);
    must(log >= 0);
    for (int i = 1; i <= 3; i++) {
        snprintf(line, sizeof line, "%d\n", i);
        strcat(all, line);
        put(log, line, -1);
        if (fsync(log) && fixed) {
            create("d/log.new", all, 1);
            must(!rename("d/log.new", "d/log"));
            sync_folder();
            must(!close(log) && (log = open("d/log", O_WRONLY | O_APPEND)) >= 0);
        }
        said("saved", i);
    }
}

/* Each file of the folder is a segment, but for the lock; one that begins with a dot is not finished. */
static void lock(void) {
    create("d/LOCK", "pid\n", 0);
    create("d/.2", "segment\n", 1);
    must(!rename("d/.2", "d/2"));
    sync_folder();
    said("saved", 2);
    must(!unlink("d/LOCK"));
}

static int recover_lock(const char *folder) {
    char path[4096], text[16];
    DIR *names = opendir(folder);
    for (struct dirent *name; (name = readdir(names));) {
        if (name->d_name[0] == '.' || (fixed && !strcmp(name->d_name, "LOCK")))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, name->d_name);
        int fd = open(path, O_RDONLY);
        if (read(fd, text, sizeof text) != 8 || memcmp(text, "segment\n", 8))
            return printf("%s is no segment\n", name->d_name), 1;
    }
    return 0;
}

int main(int count, char **words) {
    fixed = !strcmp(words[2], "fixed");
    switch (words[1][0]) {
    case 'm': manifest(); break;
    case 'c': checkpoint(); break;
    case 's': swallowed(); break;
    case 'l':
        if (words[1][1] == 'e')
            length();
        else if (count > 3)
            return recover_lock(words[3]);
        else
            lock();
    }
    return 0;
}
