/*
 * Marks that a C or C++ program sets for Strandline.
 *
 * Compile with `strandline cc` or `strandline c++`, which find this header by themselves. The functions are weak: a
 * program built without Strandline links and runs all the same, and the marks do nothing.
 */
#ifndef STRANDLINE_H
#define STRANDLINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The runtime's functions, under names of their own so that the ones below can ask whether they are there. */
extern void sl_runtime_phase(const char *name) __asm__("sl_phase") __attribute__((weak));
extern void sl_runtime_region_begin(uint64_t region) __asm__("sl_region_begin") __attribute__((weak));
extern void sl_runtime_region_end(uint64_t region) __asm__("sl_region_end") __attribute__((weak));

/* From here on the program is in the phase `name`, for instance "load" or "run". */
static inline void sl_phase(const char *name) __asm__("sl_header_phase");
static inline void sl_phase(const char *name)
{
    if (sl_runtime_phase)
        sl_runtime_phase(name);
}

/* A region that has to survive a crash whole or not at all begins. `region` is any number of the caller's. */
static inline void sl_region_begin(uint64_t region) __asm__("sl_header_region_begin");
static inline void sl_region_begin(uint64_t region)
{
    if (sl_runtime_region_begin)
        sl_runtime_region_begin(region);
}

/* The region ends: from here on its effects are expected to be durable. */
static inline void sl_region_end(uint64_t region) __asm__("sl_header_region_end");
static inline void sl_region_end(uint64_t region)
{
    if (sl_runtime_region_end)
        sl_runtime_region_end(region);
}

#ifdef __cplusplus
}
#endif

#endif
