/*
 * What the module in strandline.f90 calls: the functions of strandline.h, which exist only inside those who include it.
 */
#include "strandline.h"

void sl_fortran_prestore(const void *location, size_t size, int op);
void sl_fortran_copy_skip(void *dst, const void *src, size_t size);
void sl_fortran_fence(void);
int sl_fortran_supported(int op);

void sl_fortran_prestore(const void *location, size_t size, int op)
{
    sl_prestore(location, size, op);
}

void sl_fortran_copy_skip(void *dst, const void *src, size_t size)
{
    sl_copy_skip(dst, src, size);
}

void sl_fortran_fence(void)
{
    sl_fence();
}

int sl_fortran_supported(int op)
{
    return sl_prestore_supported(op);
}
