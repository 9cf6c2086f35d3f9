/*
 * Two stores outside of any critical section, in one SFR: both survive or none. ATLAS protects critical
 * sections alone and keeps one of them.
 */
#include "litmus.h"

struct pair {
    uint64_t x, y;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int main(int count, char **arguments)
{
    bool check = litmus(count, arguments, sizeof(struct pair));
    volatile struct pair *pair = root;
    if (!check) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
        pair->x = 1;
        die();
        pair->y = 1;
    }
    char text[64];
    snprintf(text, sizeof text, "x=%u y=%u", (unsigned)pair->x, (unsigned)pair->y);
    return outcome(pair->x == pair->y, text);
}
