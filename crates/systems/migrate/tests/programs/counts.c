// Counts for ever, in one word of each of its pages after the other.
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    close_range(3, ~0U, 0);
    unsigned long words = 64 * 512, *memory = calloc(words, 8);
    for (unsigned long at = 0;; at = (at + 513) % words) {
        memory[at]++;
        usleep(500);
    }
}
