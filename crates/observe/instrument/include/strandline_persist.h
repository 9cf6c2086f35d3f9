/*
 * What programs have that are built by `strandline cc --persist=DESIGN`, beside strandline_pool.h, which includes this.
 */
#ifndef STRANDLINE_PERSIST_H
#define STRANDLINE_PERSIST_H

/* An ordinary pointer to a place in the pool, right as long as the pool is open and again when it is opened the next time; NULL for 0. */
void *sl_at(sl_pool *pool, sl_ref at);

/* The reference of such a pointer; 0 for NULL. */
sl_ref sl_ref_of(sl_pool *pool, const void *pointer);

/* Ends the calling thread's region and waits until it is durable, and with it all that it could have seen. The pool may be left out. */
#ifdef __cplusplus
int sl_psync(sl_pool *pool = 0);
#elif defined __STDC_VERSION__ && __STDC_VERSION__ > 201710L
int sl_psync(...);
#else
int sl_psync();
#endif

#endif
