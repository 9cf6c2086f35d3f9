/*
 * What a C or C++ program can say to Strandline, and to the memory hierarchy.
 *
 * Marks (sl_phase, sl_region_begin, sl_region_end, and those of strands) name parts of a recording. The runtime's functions behind them are
 * weak: a program built without Strandline links and runs all the same, and the marks do nothing.
 *
 * Pre-stores (sl_prestore, sl_copy_skip) move written data towards memory before anybody waits for it. They need no
 * library: this header is all of it, with gcc and clang, as C99 and C++11. docs/man/prestore.md says when they help
 * and when they harm.
 *
 * `strandline cc` and `strandline c++` find this header by themselves; for other builds, copy it. Pools and failure-atomic regions are in
 * strandline_pool.h, which needs a library.
 */
#ifndef STRANDLINE_H
#define STRANDLINE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__LP64__)
#define SL_X86_64 1
#include <emmintrin.h>
#elif defined(__aarch64__)
#define SL_AARCH64 1
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The runtime's functions, under names of their own so that the ones below can ask whether they are there. */
extern void sl_runtime_phase(const char *name) __asm__("sl_phase") __attribute__((weak));
extern void sl_runtime_region_begin(uint64_t region) __asm__("sl_region_begin") __attribute__((weak));
extern void sl_runtime_region_end(uint64_t region) __asm__("sl_region_end") __attribute__((weak));
extern void sl_runtime_persist_barrier(void) __asm__("sl_persist_barrier") __attribute__((weak));
extern void sl_runtime_new_strand(void) __asm__("sl_new_strand") __attribute__((weak));
extern void sl_runtime_join_strand(void) __asm__("sl_join_strand") __attribute__((weak));

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

/* Strands: what a program that logs with little ordering says of its stores to persistent memory. A thread's stores lie on
 * strands, and only stores of one strand with a barrier between them must persist in order. These are marks: no
 * processor of today has the instructions, so a program still has to flush and fence. */

/* On this strand, what was stored before the barrier must not persist later than what is stored after. */
static inline void sl_persist_barrier(void) __asm__("sl_header_persist_barrier");
static inline void sl_persist_barrier(void)
{
    if (sl_runtime_persist_barrier)
        sl_runtime_persist_barrier();
}

/* What follows is on a new strand: nothing before orders it. */
static inline void sl_new_strand(void) __asm__("sl_header_new_strand");
static inline void sl_new_strand(void)
{
    if (sl_runtime_new_strand)
        sl_runtime_new_strand();
}

/* All of this thread's strands end: what was stored on any of them must not persist later than what is stored after. */
static inline void sl_join_strand(void) __asm__("sl_header_join_strand");
static inline void sl_join_strand(void)
{
    if (sl_runtime_join_strand)
        sl_runtime_join_strand();
}

/* Pre-stores: operations, as bits. */

/* Move the lines one step outwards, to where other cores find them sooner: from the private caches to the shared one
 * (x86-64: cldemote), or to the point of unification (aarch64: dc cvau). */
#define SL_DEMOTE 1
/* Start to write the lines back to memory and keep them in the cache (x86-64: clwb, aarch64: dc cvac). */
#define SL_CLEAN 2

#if SL_X86_64
/* The runtime's hooks, there if the program was linked with `strandline cc`. They change no register. */
extern void strandline_hook_clwb(const void *line) __attribute__((weak));
extern void strandline_hook_cldemote(const void *line) __attribute__((weak));
#endif

/* The operations that this processor has instructions for; on aarch64 also the line size, from bit 8. Asked once per
 * translation unit. Not instrumented: the answer is none of the program's memory traffic. */
__attribute__((no_sanitize("thread"), unused)) static inline unsigned sl_processor(void)
{
#if SL_X86_64
    static unsigned known;
    unsigned found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!found) {
        unsigned a = 0, b, c = 0, d;
        __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        if (a >= 7) {
            a = 7, c = 0;
            __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
            found = (b >> 24 & 1 ? SL_CLEAN : 0) | (c >> 25 & 1 ? SL_DEMOTE : 0);
        }
        found |= 1u << 31; /* So that "neither" is an answer, too. */
        __atomic_store_n(&known, found, __ATOMIC_RELAXED);
    }
    return found;
#elif SL_AARCH64
    static unsigned known;
    unsigned found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!found) {
        uint64_t types;
        __asm__("mrs %0, ctr_el0" : "=r"(types));
        found = SL_CLEAN | SL_DEMOTE | 4u << (types >> 16 & 15) << 8;
        __atomic_store_n(&known, found, __ATOMIC_RELAXED);
    }
    return found;
#else
    return 0;
#endif
}

/* Whether this processor has instructions for `op` (for both, if both bits are set). Where it has not, sl_prestore does
 * nothing. */
static inline int sl_prestore_supported(int op)
{
    return op != 0 && (sl_processor() & (SL_DEMOTE | SL_CLEAN) & (unsigned)op) == (unsigned)op;
}

/* Applies `op`, SL_DEMOTE or SL_CLEAN or both, to every cache line that holds a byte of the `size` bytes at `location`.
 *
 * A hint: it waits for nothing, orders nothing, invalidates nothing, and what was stored survives a crash no sooner
 * because of it; a fence, where one is needed, stays the caller's. The memory must be mapped. */
__attribute__((always_inline)) static inline void sl_prestore(const void *location, size_t size, int op)
{
#if SL_X86_64
    const unsigned has = sl_processor();
    const char *line = (const char *)((uintptr_t)location & ~(uintptr_t)63);
    const char *end = (const char *)location + size;
    if (size == 0)
        return;
    if (op & SL_CLEAN) {
        const char *at;
        if (has & SL_CLEAN)
            for (at = line; at < end; at += 64)
                __asm__ volatile("clwb %0" : : "m"(*at) : "memory");
        else if (strandline_hook_clwb) /* A recording shows what another processor would do. */
            for (at = line; at < end; at += 64)
                strandline_hook_clwb(at);
    }
    /* Processors without cldemote execute it as a no-op, so that it is there for a recording whenever there is one. */
    if (op & SL_DEMOTE && (has & SL_DEMOTE || strandline_hook_cldemote)) {
        for (; line < end; line += 64)
            __asm__ volatile("cldemote %0" : : "m"(*line) : "memory");
    }
#elif SL_AARCH64
    const uintptr_t bytes = sl_processor() >> 8;
    uintptr_t line = (uintptr_t)location & ~(bytes - 1);
    const uintptr_t end = (uintptr_t)location + size;
    if (size == 0)
        return;
    for (; line < end; line += bytes) {
        if (op & SL_CLEAN)
            __asm__ volatile("dc cvac, %0" : : "r"(line) : "memory");
        if (op & SL_DEMOTE)
            __asm__ volatile("dc cvau, %0" : : "r"(line) : "memory");
    }
#else
    (void)location;
    (void)size;
    (void)op;
#endif
}

/* Copies `size` bytes from `src` to `dst`, which must not overlap, whole words with non-temporal stores
 * (bytes before the first and behind the last aligned word of 8 take the usual way).
 *
 * Orders nothing: call sl_fence, or use a locked instruction, before another thread learns of the data. On aarch64 and
 * elsewhere, where no such store can be relied upon, it copies and cleans. */
__attribute__((always_inline)) static inline void sl_copy_skip(void *dst, const void *src, size_t size)
{
    char *to = (char *)dst;
    const char *from = (const char *)src;
#if SL_X86_64
    size_t head = (size_t)(-(uintptr_t)to & 7);
    head = head < size ? head : size;
    if (head) {
        memcpy(to, from, head);
        to += head, from += head, size -= head;
    }
    if ((uintptr_t)to & 8 && size >= 8) {
        _mm_stream_si64((long long *)(void *)to, _mm_cvtsi128_si64(_mm_loadl_epi64((const __m128i *)(const void *)from)));
        to += 8, from += 8, size -= 8;
    }
    for (; size >= 16; to += 16, from += 16, size -= 16)
        _mm_stream_si128((__m128i *)(void *)to, _mm_loadu_si128((const __m128i *)(const void *)from));
    if (size >= 8) {
        _mm_stream_si64((long long *)(void *)to, _mm_cvtsi128_si64(_mm_loadl_epi64((const __m128i *)(const void *)from)));
        to += 8, from += 8, size -= 8;
    }
    if (size)
        memcpy(to, from, size);
#else
    if (size)
        memcpy(to, from, size);
    sl_prestore(to, size, SL_CLEAN);
#endif
}

/* Orders this thread's stores, skipping ones among them, before its later stores. */
static inline void sl_fence(void)
{
#if SL_X86_64
    _mm_sfence();
#elif SL_AARCH64
    __asm__ volatile("dmb ishst" : : : "memory");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#ifdef __cplusplus
}

namespace strandline {

/* As SL_DEMOTE and SL_CLEAN. */
enum class Prestore { demote = SL_DEMOTE, clean = SL_CLEAN };

/* Whether this processor has an instruction for `op`. */
inline bool prestore_supported(Prestore op)
{
    return sl_prestore_supported(static_cast<int>(op)) != 0;
}

/* sl_prestore for the `count` objects at `first`: strandline::prestore(v.data(), v.size(), Prestore::clean). What the
 * objects own elsewhere is not reached. */
template <typename T> inline void prestore(const T *first, size_t count, Prestore op)
{
    sl_prestore(first, count * sizeof(T), static_cast<int>(op));
}

} /* namespace strandline */
#endif

#endif
