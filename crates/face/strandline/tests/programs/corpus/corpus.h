/* What the programs of the corpus share. Each has three functions: what is there before the run, the run
 * (`wrong`: its twin with one mistake), and what recovery accepts, given how many were acknowledged. */
#ifndef CORPUS_H
#define CORPUS_H
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

struct program {
    const char *name;
    void (*prepare)(void), (*run)(void);
    int (*accepts)(int acknowledged);
    struct program *next;
};

extern struct program *programs;
extern int wrong;

/* Adds the program of this file to those of main.c. */
#define PROGRAM(text)                                                                                    \
    static struct program this_program = {text, prepare, run, accepts, 0};                               \
    __attribute__((constructor)) static void add(void)                                                   \
    {                                                                                                    \
        this_program.next = programs, programs = &this_program;                                          \
    }

/* Ends the process unless a call did what it should. */
#define must(condition)                                                                                  \
    do {                                                                                                 \
        if (!(condition)) {                                                                              \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                              \
            exit(3);                                                                                     \
        }                                                                                                \
    } while (0)

const char *in(const char *name);                         /* the path of a name in the folder */
void put(const char *name, const char *text, int synced); /* makes a file */
int get(const char *name, void *bytes, int size);         /* reads a file: its length, -1 without it */
int holds(const char *name, const char *text);            /* whether a file holds just this */
void sync_folder(const char *name);
void acknowledge(void);                                   /* from here on the operation is done */
uint32_t sum(const void *bytes, int size);

#endif
