/*
 * The command line of a wheel: opens the module beside it, which has the verbs, and runs it without an interpreter.
 *
 * It is an executable of its own, since a compiler calls it as its assembler, and crash checks start it again. What the
 * module expects of an interpreter is defined in a list that the build makes (with_command.py): names only, since no verb
 * calls any.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    /* As of every program whose main is Rust's: no file that is opened gets the number of a standard stream. */
    for (int stream = 0; stream < 3; stream++)
        if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return 2;
    char path[PATH_MAX + sizeof MODULE];
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
    if (length < 0) {
        perror("strandline: /proc/self/exe");
        return 2;
    }
    path[length] = 0;
    strcpy(strrchr(path, '/') + 1, MODULE);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*run)(void) = module ? (int (*)(void))dlsym(module, "strandline_main") : NULL;
    if (!run) {
        fprintf(stderr, "strandline: %s; install the package again\n", dlerror());
        return 2;
    }
    /* The same: a reader that went away is an error of a write. */
    signal(SIGPIPE, SIG_IGN);
    return run();
}
