/*
 * A message queue like X9: a producer fills messages from a small set that it uses over and over, and copies each into a
 * slot of the consumer's inbox. The slot is taken by a compare-and-swap, which is also a fence: it waits until the
 * message that was just filled is visible.
 */
#include "common.h"

enum { SLOTS = 64, MESSAGES = 16 };

typedef struct {
    uint8_t slot_has_data;
    uint8_t msg_written;
    uint8_t shared;
    uint8_t pad[61];
} x9_msg_header;

typedef struct {
    uint64_t read_idx __attribute__((aligned(64)));
    uint64_t write_idx __attribute__((aligned(64)));
    uint64_t sz __attribute__((aligned(64)));
    uint64_t slot_bytes;
    char *msgs;
} x9_inbox;

typedef struct {
    uint64_t number, sender;
    uint64_t body[]; /* -s bytes in all, the last word a check */
} msg;

static struct options options = {100000, 128, 1, 1, 0, 0};
static x9_inbox inboxes[32];
static uint64_t sums[32];

static void x9_create_inbox(x9_inbox *inbox, uint64_t slots, uint64_t msg_bytes)
{
    inbox->sz = slots;
    inbox->slot_bytes = sizeof(x9_msg_header) + ((msg_bytes + 63) & ~(uint64_t)63);
    inbox->msgs = (char *)allocate_zeros(slots * inbox->slot_bytes);
}

static x9_msg_header *x9_header(const x9_inbox *inbox, const uint64_t *idx)
{
    return (x9_msg_header *)(void *)(inbox->msgs + __atomic_load_n(idx, __ATOMIC_RELAXED) % inbox->sz * inbox->slot_bytes);
}

/* Whether there was room. */
static int x9_write_to_inbox(x9_inbox *inbox, uint64_t msg_bytes, const void *message)
{
    x9_msg_header *header = x9_header(inbox, &inbox->write_idx);
    uint8_t free_slot = 0;
    if (!__atomic_compare_exchange_n(&header->slot_has_data, &free_slot, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return 0;
    memcpy(header + 1, message, msg_bytes);
    __atomic_fetch_add(&inbox->write_idx, 1, __ATOMIC_RELEASE);
    __atomic_exchange_n(&header->msg_written, 1, __ATOMIC_RELEASE);
    return 1;
}

/* Whether there was a message. */
static int x9_read_from_inbox(x9_inbox *inbox, uint64_t msg_bytes, void *out)
{
    x9_msg_header *header = x9_header(inbox, &inbox->read_idx);
    if (!__atomic_load_n(&header->slot_has_data, __ATOMIC_RELAXED) || !__atomic_load_n(&header->msg_written, __ATOMIC_ACQUIRE))
        return 0;
    memcpy(out, header + 1, msg_bytes);
    __atomic_fetch_add(&inbox->read_idx, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&header->msg_written, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&header->slot_has_data, 0, __ATOMIC_RELEASE);
    return 1;
}

static __attribute__((noinline)) void fill_msg(msg *message, uint64_t number, uint64_t sender)
{
    const uint64_t words = options.size / 8 - 2;
    uint64_t i, check = number ^ sender;
    message->number = number;
    message->sender = sender;
    for (i = 0; i + 1 < words; i++) {
        message->body[i] = number * 0x9e3779b97f4a7c15u + i;
        check += message->body[i];
    }
    message->body[words - 1] = check;
}

static void producer_fn(uint64_t pair)
{
    const size_t bytes = (options.size + 63) & ~(size_t)63;
    char *m = (char *)allocate_zeros(MESSAGES * bytes);
    uint64_t number;
    for (number = 0; number < options.n; number++) {
        msg *message = (msg *)(void *)(m + number % MESSAGES * bytes);
        fill_msg(message, number, pair ^ options.seed);
#if defined(DEMOTE)
        sl_prestore(message, options.size, SL_DEMOTE);
#elif defined(CLEAN)
        sl_prestore(message, options.size, SL_CLEAN);
#endif
        while (!x9_write_to_inbox(&inboxes[pair], options.size, message))
            sched_yield();
    }
    free(m);
}

static void consumer_fn(uint64_t pair)
{
    const uint64_t words = options.size / 8 - 2;
    msg *message = (msg *)allocate_zeros(options.size);
    uint64_t number, i;
    for (number = 0; number < options.n; number++) {
        uint64_t check;
        while (!x9_read_from_inbox(&inboxes[pair], options.size, message))
            sched_yield();
        check = message->number ^ message->sender;
        for (i = 0; i + 1 < words; i++)
            check += message->body[i];
        if (message->number != number || message->body[words - 1] != check) {
            fprintf(stderr, "x9: message %llu came torn or out of order\n", (unsigned long long)number);
            exit(1);
        }
        sums[pair] += mix(check ^ number << 40);
    }
    free(message);
}

/* Threads come in pairs: even numbers produce, odd ones consume. */
static void run_pair(void *context, long low, long high, int thread)
{
    (void)context, (void)low, (void)high;
    if (thread % 2)
        consumer_fn((uint64_t)thread / 2);
    else
        producer_fn((uint64_t)thread / 2);
}

int main(int argc, char **argv)
{
    uint64_t sum = 0, i;
    parse_options(argc, argv, &options, "messages per pair", "bytes of a message, a multiple of 8 from 24");
    require(options.size % 8 == 0 && options.size >= 24, "-s must be a multiple of 8 from 24");
    require(options.threads <= 32, "-t counts pairs, at most 32");
    for (i = 0; i < options.threads; i++)
        x9_create_inbox(&inboxes[i], SLOTS, options.size);

    sl_phase("run");
    const double start = seconds();
    parallel(2 * (int)options.threads, 0, 2 * (long)options.threads, run_pair, NULL);
    const double elapsed = seconds() - start;

    sl_phase("check");
    for (i = 0; i < options.threads; i++) {
        sum += sums[i];
        free(inboxes[i].msgs);
    }
    report("x9", sum, elapsed);
    return 0;
}
