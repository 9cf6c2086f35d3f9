/*
 * cuts DEVICE IMAGE LOGDEVICE LOG TYPE OPTIONS SEED MOUNTS <CORPUS
 *
 * Runs sequences of calls on a real file system over dm-log-writes, a folder for each, cuts the log of the
 * block device at every point at which it could have lost the rest, mounts each cut, and prints what is in
 * the folders. The corpus has a sequence a line, and batches of them between lines `batch`. Lines that are
 * printed:
 *   S SEQUENCE CALLS STATE    the state was there when at least so many calls had returned
 *   T MOUNTS FAILED           at the end: cuts that were mounted, and that could not be
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, FOLDERS = 64, CALLS = 16 };
enum { FLUSH = 1, FUA = 2, DISCARD = 4, MARK = 8 };

static const char *device, *image_path, *log_device, *log_path, *type, *options;
static int image, log_file;
static uint64_t image_size, rng;
static unsigned long mounts, failed;

static void die(const char *what)
{
    printf("GUEST: failed: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t chance(void)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return rng * 0x2545F4914F6CDD1Dull >> 16;
}

/* ---- the device mapper ---- */

static int control = -1;

static void mapper(unsigned long command, const void *data, size_t len, int targets)
{
    static char buffer[8192];
    struct dm_ioctl *io = (void *)buffer;
    memset(buffer, 0, sizeof buffer);
    io->version[0] = DM_VERSION_MAJOR;
    io->data_size = sizeof buffer;
    io->data_start = sizeof *io;
    io->target_count = targets;
    strcpy(io->name, "cut");
    memcpy(buffer + sizeof *io, data, len);
    if (ioctl(control, command, io))
        die("the device mapper");
}

static void mapper_create(void)
{
    struct {
        struct dm_target_spec spec;
        char words[512];
    } table;
    memset(&table, 0, sizeof table);
    mapper(DM_DEV_CREATE, "", 0, 0);
    table.spec.length = image_size / 512;
    strcpy(table.spec.target_type, "log-writes");
    snprintf(table.words, sizeof table.words, "%s %s", device, log_device);
    table.spec.next = sizeof table;
    mapper(DM_TABLE_LOAD, &table, sizeof table, 1);
    mapper(DM_DEV_SUSPEND, "", 0, 0);
}

static void mapper_mark(unsigned sequence, unsigned calls)
{
    struct {
        uint64_t sector;
        char words[64];
    } message = { 0, "" };
    snprintf(message.words, sizeof message.words, "mark %u.%u", sequence, calls);
    mapper(DM_TARGET_MSG, &message, sizeof message, 0);
}

/* ---- mounting ---- */

static int attach(const char *what)
{
    /* Btrfs remembers devices by what is on them. */
    int btrfs = strcmp(type, "btrfs") ? -1 : open("/dev/btrfs-control", O_RDWR | O_CLOEXEC);
    if (btrfs >= 0) {
        static char args[4096];
        ioctl(btrfs, _IOW(0x94, 5, char[4096]), args);
        close(btrfs);
    }
    return mount(what, "/mnt", type, 0, options);
}

static void detach(void)
{
    for (int tries = 0; umount("/mnt"); tries++) {
        if (tries > 100)
            die("umount");
        usleep(10000);
    }
}

/* ---- what the disk held when the sequences began ---- */

static struct page {
    uint64_t at;
    char bytes[PAGE];
} *base;
static size_t base_count;

static void write_all(int fd, const void *bytes, size_t len, uint64_t at)
{
    if (pwrite(fd, bytes, len, at) != (ssize_t)len)
        die("a write");
}

static void restore(void)
{
    if (ftruncate(image, 0) || ftruncate(image, image_size))
        die("the image");
    for (size_t i = 0; i < base_count; i++)
        write_all(image, base[i].bytes, PAGE, base[i].at);
}

static void keep_base(void)
{
    static const char zeros[PAGE];
    char page[PAGE];
    size_t room = 0;
    off_t at = 0;
    while ((at = lseek(image, at, SEEK_DATA)) >= 0) {
        at -= at % PAGE;
        if (pread(image, page, PAGE, at) != PAGE)
            die("the image");
        if (memcmp(page, zeros, PAGE)) {
            if (base_count == room)
                base = realloc(base, (room = room * 2 + 64) * sizeof *base);
            base[base_count].at = at;
            memcpy(base[base_count++].bytes, page, PAGE);
        }
        at += PAGE;
    }
}

static void fill(const char *path, char letter, size_t len, off_t at)
{
    static char bytes[8192];
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    memset(bytes, letter, len);
    if (fd < 0 || (at < 0 ? lseek(fd, 0, SEEK_END) : lseek(fd, at, SEEK_SET)) < 0 || write(fd, bytes, len) != (ssize_t)len)
        die(path);
    close(fd);
}

static void make_base(void)
{
    char path[64];
    if (attach(device))
        die("mount");
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(path, sizeof path, "/mnt/s%d", i);
        if (mkdir(path, 0755) || chdir(path))
            die(path);
        fill("a", 'a', 1000, 0);
        fill("b", 'b', 600, 0);
        mkdir("d", 0755);
    }
    if (chdir("/"))
        die("chdir");
    sync();
    detach();
    keep_base();
}

/* ---- the calls; kernels/corpus.rs has the same ---- */

static void synced(const char *path, int data)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0 || (data ? fdatasync(fd) : fsync(fd)))
        die("a sync");
    close(fd);
}

static void call(char letter)
{
    int wrong = 0;
    switch (letter) {
    case 'w': fill("a", 'w', 512, 0); break;
    case 'v': fill("a", 'v', 900, 300); break;
    case 'A': fill("a", 'A', 5000, -1); break;
    case 'B': fill("b", 'B', 600, -1); break;
    case 'C': fill("c", 'C', 700, 0); break;
    case 't': wrong = truncate("a", 100); break;
    case 'T': wrong = truncate("a", 6000); break;
    case 'r': wrong = rename("a", "b"); break;
    case 's': wrong = rename("b", "a"); break;
    case 'q': wrong = rename("a", "c"); break;
    case 'R': wrong = rename("c", "a"); break;
    case 'm': wrong = rename("a", "d/a"); break;
    case 'l': wrong = link("a", "c"); break;
    case 'u': wrong = unlink("a"); break;
    case 'U': wrong = unlink("b"); break;
    case 'k': wrong = mkdir("e", 0755); break;
    case 'x': fill("d/x", 'x', 1, 0); break;
    case 'f': synced("a", 0); break;
    case 'g': synced("a", 1); break;
    case 'h': synced("b", 0); break;
    case 'F': synced("c", 0); break;
    case 'D': synced(".", 0); break;
    case 'E': synced("d", 0); break;
    default: die("no such call");
    }
    if (wrong)
        die("a call");
}

/* Starts to write back some file's pages, as the kernel may at any time. */
static void nudge(int folders)
{
    static const char *const names[] = { "a", "b", "c", "d/a" };
    char path[64];
    snprintf(path, sizeof path, "/mnt/s%d/%s", (int)(chance() % folders), names[chance() % 4]);
    int fd = open(path, O_RDONLY);
    if (fd >= 0) {
        sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
        close(fd);
    }
}

/* ---- the log ---- */

static struct piece {
    enum { WRITE, BARRIER, RETURNED } what;
    int fua;
    uint64_t at;
    const char *bytes;
    unsigned len;
    unsigned sequence, calls;
} *pieces;
static size_t count, room;

static void add(struct piece piece)
{
    if (count == room)
        pieces = realloc(pieces, (room = room * 2 + 1024) * sizeof *pieces);
    pieces[count++] = piece;
}

static char *log_bytes;

static void read_log(void)
{
    struct {
        uint64_t magic, version, entries;
        uint32_t sector;
    } super;
    struct {
        uint64_t sector, sectors, flags, len;
    } entry;
    if (pread(log_file, &super, sizeof super, 0) != sizeof super || super.magic != 0x6a736677736872ull)
        die("the log");
    uint64_t at = super.sector, held = 0, size = 0;
    struct stat about;
    fstat(log_file, &about);
    free(log_bytes);
    log_bytes = malloc(about.st_blocks * 512 + 65536);
    count = 0;
    for (uint64_t i = 0; i < super.entries; i++, at += size) {
        if (pread(log_file, &entry, sizeof entry, at) != sizeof entry)
            die("the log");
        size = super.sector;
        if (entry.flags & MARK) {
            char text[64] = "";
            struct piece mark = { .what = RETURNED };
            if (pread(log_file, text, sizeof text - 1, at + sizeof entry) > 0 && sscanf(text, "%u.%u", &mark.sequence, &mark.calls) == 2)
                add(mark);
            continue;
        }
        if (entry.flags & FLUSH)
            add((struct piece){ .what = BARRIER });
        if (entry.flags & DISCARD)
            continue;
        uint64_t len = entry.sectors * super.sector, to = entry.sector * super.sector;
        if (len && pread(log_file, log_bytes + held, len, at + size) != (ssize_t)len)
            die("the log");
        /* A device with sectors of a page may tear between pages. */
        for (uint64_t done = 0, next; done < len; done = next) {
            next = (done + to) / PAGE * PAGE + PAGE - to;
            next = next < len ? next : len;
            add((struct piece){ .fua = !!(entry.flags & FUA), .at = to + done, .bytes = log_bytes + held + done, .len = next - done });
        }
        held += len;
        size += len;
    }
}

/* ---- what is found ---- */

static struct found {
    unsigned calls;
    char *state;
    struct found *next;
} *found[FOLDERS];

/* What was found in each folder at the last mount, and a number for the writes that it had. */
static struct found *last_found[FOLDERS];
static unsigned long last_writes;

static void show_bytes(FILE *out, const char *path)
{
    static unsigned char bytes[65536];
    int fd = open(path, O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    if (fd >= 0)
        close(fd);
    if (len < 0)
        fputs("unreadable", out);
    for (ssize_t i = 0, to; i < len; i = to) {
        for (to = i + 1; to < len && bytes[to] == bytes[i];)
            to++;
        int letter = bytes[i] == 0 ? '0' : bytes[i] >= 'A' && bytes[i] <= 'z' ? bytes[i] : '?';
        fprintf(out, "%s%c*%d", i ? "+" : "", letter, (int)(to - i));
    }
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void show(FILE *out, const char *folder, const char *shown)
{
    struct dirent **names;
    int n = scandir(folder, &names, NULL, by_name);
    if (n < 0)
        fprintf(out, "%s=unreadable ", shown);
    for (int i = 0; i < n; free(names[i++])) {
        char path[512], name[512];
        struct stat about;
        if (names[i]->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        snprintf(name, sizeof name, "%s/%s", shown, names[i]->d_name);
        if (lstat(path, &about)) {
            fprintf(out, "%s=unreadable ", name);
        } else if (S_ISDIR(about.st_mode)) {
            fprintf(out, "%s/ ", name);
            show(out, path, name);
        } else {
            fprintf(out, "%s=", name);
            show_bytes(out, path);
            fputc(' ', out);
        }
    }
    if (n >= 0)
        free(names);
}

static void note(unsigned folder, unsigned calls)
{
    char path[64], *state = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&state, &len);
    snprintf(path, sizeof path, "/mnt/s%u", folder);
    show(out, path, "");
    fclose(out);
    for (struct found *known = found[folder]; known; known = known->next)
        if (!strcmp(known->state, state)) {
            known->calls = known->calls > calls ? known->calls : calls;
            last_found[folder] = known;
            free(state);
            return;
        }
    struct found *new = malloc(sizeof *new);
    *new = (struct found){ calls, state, found[folder] };
    found[folder] = last_found[folder] = new;
}

/* ---- cuts ---- */

static unsigned long tried[65536];
static size_t tried_count;

/* Of the pieces before `cut`, those behind the last barrier may be lost unless they were forced: a random choice, or none. */
static void cut(size_t cut, int lose, unsigned folders)
{
    size_t barrier = 0;
    unsigned long sum = 14695981039346656037ul, writes = sum;
    unsigned calls[FOLDERS] = { 0 };
    for (size_t i = 0; i < cut; i++) {
        if (pieces[i].what == BARRIER)
            barrier = i;
        if (pieces[i].what == RETURNED)
            calls[pieces[i].sequence] = pieces[i].calls;
    }
    char *kept = malloc(cut + 1);
    unsigned density = chance() % 7 + 1;
    for (size_t i = 0; i < cut; i++) {
        kept[i] = pieces[i].what == WRITE && (!lose || i < barrier || pieces[i].fua || chance() % 8 < density);
        if (kept[i])
            writes = (writes ^ i) * 1099511628211ul;
        if (kept[i] || pieces[i].what == RETURNED)
            sum = (sum ^ i) * 1099511628211ul;
    }
    int again = 0;
    for (size_t i = 0; i < tried_count && !again; i++)
        again = tried[i] == sum;
    if (!again && writes == last_writes) {
        for (unsigned i = 0; i < folders; i++)
            if (last_found[i] && last_found[i]->calls < calls[i])
                last_found[i]->calls = calls[i];
    } else if (!again && tried_count < sizeof tried / sizeof *tried) {
        tried[tried_count++] = sum;
        restore();
        for (size_t i = 0; i < cut; i++)
            if (kept[i])
                write_all(image, pieces[i].bytes, pieces[i].len, pieces[i].at);
        mounts++;
        if (attach(device)) {
            printf("GUEST: a cut at %zu of %zu can't be mounted: %s\n", cut, count, strerror(errno));
            failed++;
        } else {
            for (unsigned i = 0; i < folders; i++)
                note(i, calls[i]);
            last_writes = writes;
            detach();
        }
    }
    free(kept);
}

static void batch(unsigned folders, char sequences[][CALLS + 1], unsigned first, unsigned long most)
{
    restore();
    if (ftruncate(log_file, 0) || ftruncate(log_file, 1ull << 30))
        die("the log");
    mapper_create();
    if (attach("/dev/dm-0"))
        die("mount over the mapper");
    for (unsigned i = 0; i < folders; i++) {
        char path[64];
        snprintf(path, sizeof path, "/mnt/s%u", i);
        if (chdir(path))
            die(path);
        for (unsigned k = 0; sequences[i][k]; k++) {
            call(sequences[i][k]);
            mapper_mark(i, k + 1);
        }
        if (chance() % 3 == 0)
            nudge(folders);
    }
    if (chdir("/"))
        die("chdir");
    for (unsigned i = chance() % (folders + 1); i > 0; i--)
        nudge(folders);
    if (chance() % 2)
        sync();
    detach();
    mapper(DM_DEV_REMOVE, "", 0, 0);
    read_log();
    tried_count = 0;
    unsigned long until = mounts + most;
    for (size_t i = 0; i <= count && mounts < until; i++) {
        /* Where the device may have stopped: behind what it was forced to write, and before the next barrier. */
        int worth = i == count || pieces[i].what == BARRIER || pieces[i].what == RETURNED || (i && pieces[i - 1].fua);
        if (worth)
            cut(i, 0, folders);
    }
    for (unsigned tries = 0; tries < 4 * most && mounts < until + most; tries++)
        cut(chance() % (count + 1), 1, folders);
    for (unsigned i = 0; i < folders; i++) {
        for (struct found *next, *known = found[i]; known; known = next) {
            printf("S %u %u %s\n", first + i, known->calls, known->state);
            next = known->next;
            free(known->state);
            free(known);
        }
        found[i] = last_found[i] = NULL;
    }
    last_writes = 0;
}

int main(int words, char **word)
{
    static char sequences[FOLDERS][CALLS + 1];
    char line[64];
    unsigned folders = 0, first = 0;
    struct stat about;
    if (words != 9)
        return 2;
    setvbuf(stdout, NULL, _IOFBF, 65536);
    device = word[1], image_path = word[2], log_device = word[3], log_path = word[4], type = word[5], options = word[6];
    rng = strtoull(word[7], NULL, 10) * 2 + 1;
    for (int i = 0; i < 16; i++)
        chance();
    unsigned long most = strtoul(word[8], NULL, 10);
    control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
    image = open(image_path, O_RDWR | O_CLOEXEC);
    log_file = open(log_path, O_RDWR | O_CLOEXEC);
    if (control < 0 || image < 0 || log_file < 0 || fstat(image, &about))
        die("what was prepared");
    image_size = about.st_size;
    make_base();
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (strcmp(line, "batch")) {
            if (folders == FOLDERS || strlen(line) > CALLS)
                die("the corpus");
            strcpy(sequences[folders++], line);
            continue;
        }
        batch(folders, sequences, first, most);
        first += folders;
        folders = 0;
    }
    printf("T %lu %lu\n", mounts, failed);
    return 0;
}
