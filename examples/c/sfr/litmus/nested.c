/*
 * A critical section within another one: x is written under the outer lock, y under both. The inner lock
 * ends the SFR of x, so after a crash under both locks x may be there without y: a section of several
 * SFRs is not atomic as a whole. ATLAS makes it so, and undoes x, too. Both are permitted; y without x is
 * not.
 */
#include "litmus.h"

struct pair {
    uint64_t x, y;
};

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;

int main(int count, char **arguments)
{
    bool check = litmus(count, arguments, sizeof(struct pair));
    volatile struct pair *pair = root;
    if (!check) {
        pthread_mutex_lock(&outer);
        pair->x = 1;
        pthread_mutex_lock(&inner);
        pair->y = 1;
        die();
    }
    char text[64];
    snprintf(text, sizeof text, "x=%u y=%u", (unsigned)pair->x, (unsigned)pair->y);
    return outcome(!pair->y, text);
}
