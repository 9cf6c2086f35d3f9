// Copies words with code in line, then ends as asked: exit, _exit, kill, fault, fork, exec. Arguments: how, words.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void copy_observed(const long *from, long *to, long count);

static long from[1 << 16], to[1 << 16];

__attribute__((no_sanitize("thread"))) static void copy(long words) {
    for (; words > 1 << 16; words -= 1 << 16)
        copy_observed(from, to, 1 << 16);
    copy_observed(from, to, words);
}

__attribute__((no_sanitize("thread"))) int main(int argc, char **argv) {
    long words = atol(argv[2]);
    copy(words);
    switch (argv[1][0]) {
    case '_':
        _exit(0);
    case 'k':
        raise(SIGKILL);
    case 's':
        *(volatile char *)8 = 1;
    case 'f': {
        pid_t child = fork();
        copy(words / 2);
        if (child == 0)
            return 0;
        int status;
        return waitpid(child, &status, 0) != child || status != 0;
    }
    case 'e':
        execl(argv[0], argv[0], "normal", "123", (char *)0);
        return 1;
    }
    return 0;
}
