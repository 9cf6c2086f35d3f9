/*
 * The few functions of libpmem that `hashmap_atomic` calls, so that it needs no library. With LIBPMEM defined it is the
 * system's.
 */
#ifndef PMEM_H
#define PMEM_H

#ifdef LIBPMEM
#include <libpmem.h>
#else
#include "bugs.h"

#define pmem_flush(start, bytes) flush(start, bytes)
#define pmem_drain() fence()
#define pmem_persist(start, bytes) persist(start, bytes)
#endif

#endif
