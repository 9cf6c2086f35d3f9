// Saves a file by the streams of C and C++: a new one is written, synced and renamed to the old one.
//
//   streams WAY FOLDER            five versions; a WAY that begins with '-' does not sync the file
//   streams --verify FOLDER       whether the file is whole
//   streams every FOLDER          writes by every function there is
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

static const std::string text(600, '.');

static void sync_folder() {
    int folder = open(".", O_RDONLY);
    fsync(folder);
    close(folder);
}

static void save(const std::string &way, int version, bool synced) {
    if (way == "stream") {
        FILE *file = fopen("new", "w");
        fprintf(file, "%d %s %d\n", version, text.c_str(), version);
        fflush(file); /* lost: stream */
        if (synced) fsync(fileno(file));
        fclose(file);
    } else if (way == "closed") {
        FILE *file = fdopen(open("new", O_CREAT | O_WRONLY | O_TRUNC, 0644), "w");
        fprintf(file, "%d %s %d\n", version, text.c_str(), version);
        fclose(file); /* lost: closed */
    } else if (way == "print") {
        int file = open("new", O_CREAT | O_WRONLY | O_TRUNC, 0644);
        dprintf(file, "%d %s %d\n", version, text.c_str(), version); /* lost: print */
        close(file);
    } else {
        std::ofstream file("new");
        file << version << " " << text << " " << version << "\n";
        file.flush(); /* lost: class */
    }
    if (synced && way != "stream") {
        int file = open("new", O_RDWR);
        fdatasync(file);
        close(file);
    }
    if (way == "class") {
        std::filesystem::rename("new", "file"); /* survives */
    } else {
        rename("new", "file"); /* survives */
    }
    sync_folder();
}

static int verify() {
    std::ifstream file("file");
    std::string first, middle, last;
    if (!file || (file >> first >> middle >> last && middle == text && first == last)) return 0;
    fprintf(stderr, "the file is torn\n");
    return 1;
}

#define MUST(what) do { if (!(what)) return __LINE__ % 250 + 1; } while (0)

static int every() {
    std::string big(10000, 'x');
    char word[9] = "";
    FILE *file = fopen("a", "w+");
    MUST(fwrite(big.data(), 1, big.size(), file) == big.size());
    fseek(file, 5000, SEEK_SET);
    fputs("hello", file), fputc('!', file), putc('?', file), putc_unlocked(';', file);
    fseek(file, 4998, SEEK_SET);
    MUST(fread(word, 1, 8, file) == 8 && !strcmp(word, "xxhello!"));
    MUST(!fclose(file) && (file = fopen("a", "r+")));
    fseek(file, 0, SEEK_END), fprintf(file, "%d %s %.2f\n", 7, "seven", 7.75), fclose(file);
    file = fopen("a", "a"), fprintf(file, "at the end\n");
    MUST(ftell(file) > 10000 && !fclose(file));
    int fd = open("b", O_CREAT | O_RDWR | O_APPEND, 0644);
    MUST(dprintf(fd, "%d %d %d %d %d %d %g %g %s\n", 1, 2, 3, 4, 5, 6, 1.5, 2.5, "seven") == 26);
    file = fdopen(fd, "a");
    MUST(fileno(file) == fd && fprintf(file, "%s\n", "more") == 5 && !fclose(file));
    MUST(!fopen("missing/c", "w") && errno == ENOENT);
    MUST((file = fopen("c", "wx")) && !fopen("c", "wx") && errno == EEXIST);
    setvbuf(file, nullptr, _IONBF, 0), fputs("not buffered", file), fputc('.', file);
    FILE *files[30];
    for (int at = 0; at < 30; at++) {
        MUST(files[at] = fopen(("d" + std::to_string(at % 3)).c_str(), "a"));
        fprintf(files[at], "%d\n", at);
        if (at % 4 == 3) fclose(files[at - 2]);
    }
    std::fstream both("e", std::ios::in | std::ios::out | std::ios::trunc);
    both << big << std::endl;
    both.seekp(20) << "in between";
    std::filesystem::copy_file("a", "g");
    int from = open("a", O_RDONLY), to = open("h", O_CREAT | O_WRONLY | O_APPEND, 0644);
    off_t at = 4990;
    bool copies = copy_file_range(from, &at, to, nullptr, 5000, 0) == 5000;  // Not every file system can.
    MUST(!copies || at == 9990);
    MUST(!copies || copy_file_range(from, nullptr, to, nullptr, 10, 0) == 10);
    fputs("written out at the end", fopen("f", "w"));
    return 0;
}

int main(int argc, char **argv) {
    std::string way = argv[1];
    if (argc < 3 || chdir(argv[2])) return 251;
    if (way == "--verify") return verify();
    if (way == "every") return every();
    bool synced = way[0] != '-';
    for (int version = 0; version < 5; version++) save(synced ? way : way.substr(1), version, synced);
    return 0;
}
