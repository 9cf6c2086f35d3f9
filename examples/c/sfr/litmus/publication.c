/*
 * A thread publishes x by an atomic flag, without leaving its critical section; another one sees the
 * flag, writes y in a section of its own, and time passes in which that can become durable. Then the
 * first dies in its section. What y was computed from must be there: y=1 without x=1 is forbidden. An
 * ATLAS that takes its order from locks alone undoes x with the section that was cut short, and keeps y.
 * Ours orders atomics, too, and keeps neither: y is durable only once the section of x has ended, however
 * long that lasts.
 */
#include "litmus.h"

struct pair {
    uint64_t x, y;
};

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static atomic_int published, late;

static void *reader(void *unused)
{
    struct pair *pair = root;
    while (!atomic_load_explicit(&published, memory_order_acquire))
        ;
    pthread_mutex_lock(&other);
    pair->y = pair->x;
    pthread_mutex_unlock(&other);
    usleep(200000);
    atomic_store_explicit(&late, 1, memory_order_release);
    return unused;
}

int main(int count, char **arguments)
{
    bool check = litmus(count, arguments, sizeof(struct pair));
    struct pair *pair = root;
    if (!check) {
        pthread_t at;
        thread(&at, reader);
        pthread_mutex_lock(&one);
        pair->x = 1;
        atomic_store_explicit(&published, 1, memory_order_release);
        while (!atomic_load_explicit(&late, memory_order_acquire))
            ;
        die();
    }
    char text[64];
    snprintf(text, sizeof text, "x=%u y=%u", (unsigned)pair->x, (unsigned)pair->y);
    return outcome(pair->y <= pair->x, text);
}
