/*
 * Which memory an allocation lies on, for C and C++: link with -lstrandline (cargo build --release -p capi makes it).
 *
 *     double *cold = aligned_alloc(4096, bytes);
 *     sl_tier(cold, bytes, SL_TIER_SLOW);
 *
 * Call it before the memory is first written: pages that are there already stay where they are. Only whole pages inside the range move, so
 * small allocations do not. `strandline plan` says which allocations should go where.
 */
#ifndef STRANDLINE_TIER_H
#define STRANDLINE_TIER_H

#include <stddef.h>

#include "strandline_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where memory is to come from. The fast node is the first with memory and processors, the slow one the first with memory and none, or else
 * the second with memory. */
enum sl_tier_hint {
    SL_TIER_FAST = 0,
    SL_TIER_SLOW = 1,
    SL_TIER_INTERLEAVE = 2 /* both, by the kernel's weights if it has any */
};

/* There is one memory node, so that nothing was done. */
#define SL_TIER_ONE 1

/* The pages of `bytes` bytes at `memory` come from the memory that the hint names, while it has room. 0, SL_TIER_ONE, or a number of
 * enum sl_status: what went wrong says sl_error(). */
int sl_tier(void *memory, size_t bytes, int hint);

/* What was allocated in the `bytes` bytes at `memory` belongs to the structure with this name, whichever line allocated it: call it behind the
 * allocation. `strandline plan --group tag` then plans by name. Nothing else changes; without `strandline plan` it does nothing. 0, or
 * SL_E_ARGUMENT if the memory or the name is null. Link with the shared library: a program in which this function is linked statically is
 * planned by call stack. */
int sl_tag(void *memory, size_t bytes, const char *name);

#ifdef __cplusplus
}
#endif
#endif
