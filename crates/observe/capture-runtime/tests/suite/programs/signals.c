// A storm of signals over code in line. Argument: words to copy.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void copy_observed(const long *from, long *to, long count);

#define WORDS 4096
static long from[WORDS], to[WORDS], handler_from[3] = {1, 2, 3}, handler_to[3];
static volatile int over;
static volatile long handled, nested;
static pthread_t main_thread;
static sigjmp_buf back;

static void on_usr1(int signal, siginfo_t *info, void *context) {
    if (signal == SIGUSR1 && info->si_signo == SIGUSR1 && context)
        handled++;
    copy_observed(handler_from, handler_to, 3);
}

static void on_usr2(int signal) {
    nested++;
    copy_observed(handler_from, handler_to, 3);
}

static void on_alarm(int signal) {
    // A jump within the handler, then one out of it.
    jmp_buf inside;
    if (!setjmp(inside))
        longjmp(inside, 1);
    copy_observed(handler_from, handler_to, 3);
    siglongjmp(back, 1);
}

static void *storm(void *argument) {
    while (!over) {
        pthread_kill(main_thread, SIGUSR1);
        pthread_kill(main_thread, SIGUSR2);
    }
    return NULL;
}

int main(int argc, char **argv) {
    long words = atol(argv[1]);
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_usr1;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    if (sigaction(SIGUSR1, &action, NULL) || sigaction(SIGUSR1, NULL, &old) || old.sa_sigaction != on_usr1)
        return 1;
    if (signal(SIGUSR2, on_usr2) != SIG_DFL || signal(SIGUSR2, on_usr2) != on_usr2)
        return 2;
    if (signal(SIGURG, SIG_IGN) != SIG_DFL || signal(SIGURG, SIG_DFL) != SIG_IGN)
        return 3;
    main_thread = pthread_self();
    pthread_t thread;
    pthread_create(&thread, NULL, storm, NULL);
    for (long at = 0; at < WORDS; at++)
        from[at] = at;
    printf("%p %p %p\n", (void *)from, (void *)to, (void *)handler_from);
    for (long done = 0; done < words || handled < 100 || nested < 100; done += WORDS) {
        memset(to, 0, sizeof to);
        copy_observed(from, to, WORDS);
        if (memcmp(from, to, sizeof to))
            return 4;
    }
    over = 1;
    pthread_join(thread, NULL);
    signal(SIGALRM, on_alarm);
    for (volatile int jump = 0; jump < 3; jump++) {
        if (!sigsetjmp(back, 1))
            raise(SIGALRM);
        copy_observed(from, to, 7);
    }
    puts("done");
    return 0;
}
