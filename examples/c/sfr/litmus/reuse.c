/*
 * A program with free blocks of its own. A section takes a published block out and gives it to the free list, whose
 * lock it takes within; another thread takes it from there under that lock, and fills it when it has given the lock
 * up, since nobody else has the block. Then the first dies in its section. Recovery undoes what it did, and the
 * block is published again: it must have what it had. ATLAS logs nothing outside of sections, so the block comes
 * back with what the other thread wrote: what memcached does with the memory of its items.
 */
#include "litmus.h"

struct block {
    struct block *next;
    uint64_t value;
};

struct data {
    struct block *published, *free;
    struct block only;
};

static pthread_mutex_t of_published = PTHREAD_MUTEX_INITIALIZER, of_free = PTHREAD_MUTEX_INITIALIZER;
static atomic_int freed, filled;

static void *other(void *unused)
{
    struct data *data = root;
    while (!atomic_load_explicit(&freed, memory_order_acquire))
        ;
    pthread_mutex_lock(&of_free);
    struct block *block = data->free;
    data->free = block->next;
    pthread_mutex_unlock(&of_free);
    block->value = 2;
    atomic_store_explicit(&filled, 1, memory_order_release);
    return unused;
}

int main(int count, char **arguments)
{
    bool check = litmus(count, arguments, sizeof(struct data));
    struct data *data = root;
    if (!check) {
        pthread_mutex_lock(&of_published);
        data->only.value = 1;
        data->published = &data->only;
        pthread_mutex_unlock(&of_published);
        sl_psync(pool);
        pthread_t at;
        thread(&at, other);
        pthread_mutex_lock(&of_published);
        struct block *block = data->published;
        data->published = NULL;
        pthread_mutex_lock(&of_free);
        block->next = data->free;
        data->free = block;
        pthread_mutex_unlock(&of_free);
        atomic_store_explicit(&freed, 1, memory_order_release);
        while (!atomic_load_explicit(&filled, memory_order_acquire))
            ;
        die();
    }
    uint64_t value = data->published ? data->published->value : 1;
    char text[64];
    snprintf(text, sizeof text, "published=%d value=%u", !!data->published, (unsigned)value);
    return outcome(value == 1, text);
}
