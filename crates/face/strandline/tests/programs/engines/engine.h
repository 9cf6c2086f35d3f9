/* What the engines' programs share. PROGRAM MODE PATH N commits N transactions; transaction i gives "last"
 * the value of i, adds key i, and removes the key that is KEPT older. PROGRAM --verify LOST MODE PATH looks
 * whether a store is what some first of them made, of the acknowledged ones all but the last LOST. */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strandline.h"

enum { KEPT = 5, VALUE = 700 };

static inline void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

/* The value of key i; its length differs from one to the next. */
static inline size_t value_of(int i, char *value) {
    size_t length = (size_t)(VALUE - i % 7 * 90);
    memset(value, 'a' + i % 26, length);
    memcpy(value, &i, sizeof i);
    return length;
}

static inline const char *key_of(int i) {
    static char names[2][16]; /* two may be in use */
    char *name = names[i & 1];
    snprintf(name, sizeof names[0], "key %d", i);
    return name;
}

/* Reads the value of a key into `value` (of VALUE bytes) and returns its length, 0 without that key. */
typedef size_t get_function(const char *key, char *value);

/* Compares the store, in which `get` reads and which has so many keys, with what its transactions promise:
 * "last" and the last `kept` keys. */
static inline int verified(int lost, int kept, get_function *get, size_t keys) {
    const char *done_text = getenv("STRANDLINE_DONE"), *begun_text = getenv("STRANDLINE_BEGUN");
    int done = done_text ? atoi(done_text) : 0, begun = begun_text ? atoi(begun_text) : done, last = 0;
    char value[VALUE], expected[VALUE];
    size_t length = get("last", value);
    if (length)
        memcpy(&last, value, sizeof last);
    if (last < done - lost)
        fail("of the acknowledged transactions, too many are lost");
    if (last > begun)
        fail("a transaction is there that never began");
    if (length && (length != value_of(last, expected) || memcmp(value, expected, length)))
        fail("a transaction is there in part: a wrong value");
    int first = last < kept ? 1 : last - kept + 1;
    for (int i = first; i <= last; i++) {
        length = get(key_of(i), value);
        if (length != value_of(i, expected) || memcmp(value, expected, length))
            fail("a transaction is there in part: %s", length ? "a wrong value" : "a missing key");
    }
    if (keys != (size_t)(last - first + 1 + (last > 0)))
        fail("a transaction is there in part: the number of keys");
    return 0;
}

/* The program: what commits transactions 1 to `count`, and what verifies. */
typedef void commit_function(const char *mode, const char *path, int count);
typedef int verify_function(int lost, const char *mode, const char *path);

static inline int engine(int argc, char **argv, commit_function *commit, verify_function *verify) {
    if (argc == 5 && !strcmp(argv[1], "--verify"))
        return verify(atoi(argv[2]), argv[3], argv[4]);
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODE PATH TRANSACTIONS | --verify LOST MODE PATH\n", argv[0]);
        return 2;
    }
    commit(argv[1], argv[2], atoi(argv[3]));
    return 0;
}

#endif
