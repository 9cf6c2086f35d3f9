// Fault: false-sharing. A thread counts on its own stack, and two others do it for it; mended, apart.
#include <pthread.h>
#include <stdio.h>
enum { ROUNDS = 40000 };
struct pair {
    volatile long left;
#ifdef MENDED
    char apart[56];
#endif
    volatile long right;
};

static void *count(void *where) {
    volatile long *own = where;
    for (int i = 0; i < ROUNDS; i++)
        (*own)++;
    return 0;
}

static void *manage(void *result) {
    struct pair sums = {0};
    pthread_t left, right;
    pthread_create(&left, 0, count, (void *)&sums.left);
    pthread_create(&right, 0, count, (void *)&sums.right);
    pthread_join(left, 0);
    pthread_join(right, 0);
    *(long *)result = sums.left + sums.right;
    return 0;
}

int main(void) {
    pthread_t manager;
    long result = 0;
    pthread_create(&manager, 0, manage, &result);
    pthread_join(manager, 0);
    printf("%ld\n", result);
}
