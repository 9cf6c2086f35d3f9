/*
 * Transactions with an undo log, as small as they can be, in the manner of PMDK's: what is to change is added first, which
 * keeps its old bytes; the end flushes what was added and empties the log; recovery puts the old bytes back.
 *
 * Memory that the transaction has allocated needs no old bytes: tx_fresh only has it flushed.
 */
#ifndef UNDO_H
#define UNDO_H

#include "bugs.h"

enum { TX_RANGES = 16, TX_BYTES = 192 };

struct tx_entry {
    uint64_t offset, length;
    char rest[LINE - 16];
    unsigned char old[TX_BYTES];
};

struct tx_log {
    uint64_t entries; /* that count */
    char rest[LINE - 8];
    struct tx_entry entry[TX_RANGES];
};

/* The log's place in the pool, and what the end of the transaction has to flush. */
static struct tx_log *tx_log;
static struct {
    const void *start;
    size_t bytes;
} tx_flush[2 * TX_RANGES];
static int tx_flushes;

static void tx_set_entries(uint64_t entries)
{
    SET(tx_log->entries, entries);
    persist(&tx_log->entries, sizeof tx_log->entries);
}

static void tx_fresh(const void *start, size_t bytes)
{
    if (tx_flushes == 2 * TX_RANGES)
        fatal("too much in one transaction");
    tx_flush[tx_flushes].start = start;
    tx_flush[tx_flushes++].bytes = bytes;
}

/* Keeps the old bytes; from here on they may change. */
static void tx_add(const void *start, size_t bytes)
{
    struct tx_entry *entry = &tx_log->entry[tx_log->entries];
    int i;
    for (i = 0; i < tx_flushes; i++)
        if (tx_flush[i].start == start && tx_flush[i].bytes >= bytes)
            return;
    if (tx_log->entries == TX_RANGES || bytes > TX_BYTES)
        fatal("too much in one transaction");
    entry->offset = offset_of(start);
    entry->length = bytes;
    memcpy(entry->old, start, bytes);
    flush(&entry->offset, 16);
    persist(entry->old, bytes);
    tx_set_entries(tx_log->entries + 1);
    tx_fresh(start, bytes);
}

static void tx_commit(void)
{
    while (tx_flushes) {
        tx_flushes--;
        flush(tx_flush[tx_flushes].start, tx_flush[tx_flushes].bytes);
    }
    fence();
    tx_set_entries(0);
}

static void tx_recover(void)
{
    uint64_t i;
    if (tx_log->entries > TX_RANGES)
        wrong("the undo log has %llu entries", (unsigned long long)tx_log->entries);
    if (!tx_log->entries)
        return;
    for (i = tx_log->entries; i--;) {
        const struct tx_entry *entry = &tx_log->entry[i];
        if (entry->length > TX_BYTES)
            wrong("an entry of %llu bytes in the undo log", (unsigned long long)entry->length);
        memcpy(at(entry->offset, entry->length), entry->old, entry->length);
        flush(pool + entry->offset, entry->length);
    }
    fence();
    tx_set_entries(0);
}

#endif
