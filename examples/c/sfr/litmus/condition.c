/*
 * A thread writes x in a critical section and waits there for a condition, which gives the lock up.
 * Another one takes the lock, sees x, writes y, and waits until that is durable. Then the process dies
 * while the first still waits: y=1 without x=1 is forbidden. An ATLAS that knows locks and unlocks only
 * takes the section that waits for one that was cut short; ours ends it where it waits.
 */
#include "litmus.h"

struct pair {
    uint64_t x, y;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void *waiter(void *unused)
{
    struct pair *pair = root;
    pthread_mutex_lock(&lock);
    pair->x = 1;
    while (pair->x)
        pthread_cond_wait(&condition, &lock);
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(int count, char **arguments)
{
    bool check = litmus(count, arguments, sizeof(struct pair));
    struct pair *pair = root;
    if (!check) {
        pthread_t at;
        thread(&at, waiter);
        for (bool seen = false; !seen;) {
            pthread_mutex_lock(&lock);
            seen = pair->x;
            if (seen)
                pair->y = 1;
            pthread_mutex_unlock(&lock);
        }
        sl_psync(pool);
        die();
    }
    char text[64];
    snprintf(text, sizeof text, "x=%u y=%u", (unsigned)pair->x, (unsigned)pair->y);
    return outcome(pair->y <= pair->x, text);
}
