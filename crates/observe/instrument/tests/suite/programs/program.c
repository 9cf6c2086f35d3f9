/* Accesses that driver.c knows by heart. Not a word of this may access anything else. */
struct pair { int first; long second; };

__attribute__((noinline)) long mixed(int *a, struct pair *p, char *c, int take)
{
    a[1] = a[0] + 1;        /* R4 W4 */
    if (take)
        p->second += *c;    /* R1 R8 W8, or R8 R1 W8 */
    *c = 7;                 /* W1 */
    return p->first;        /* R4 */
}

__attribute__((noinline)) void loop(short *s, int n)
{
    for (int i = 0; i < n; i++)
        s[i] = (short)(s[i] + i); /* R2 W2 each */
}

__attribute__((noinline)) double floats(double *d, float *f)
{
    *f = 2;                 /* W4 */
    return d[0] * d[1];     /* R8 R8 */
}

__attribute__((noinline)) void marks(void *line)
{
    __asm__ volatile("clwb (%0)\n\tsfence" : : "r"(line) : "memory");
    __asm__ volatile("lock; incl (%0)" : : "r"(line) : "memory", "cc");
    __asm__ volatile("movnti %1, 8(%0)" : : "r"(line), "r"(5L) : "memory");
}
