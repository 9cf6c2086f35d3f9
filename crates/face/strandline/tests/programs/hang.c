/* A lock in persistent memory that a crash leaves taken: recovery waits for ever on most images.
 * hang POOL | hang --recover POOL */
#include <fcntl.h>
#include <immintrin.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct pool { volatile long lock; long pad[7]; volatile long value[8]; };
int main(int c, char **v)
{
    int recover = c > 2, f = open(v[1 + recover], O_RDWR | O_CREAT, 0600);
    if (ftruncate(f, 4096)) return 2;
    struct pool *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    if (recover) { while (p->lock) _mm_pause(); return 0; }
    for (int i = 0; i < 8; i++) {
        p->lock = 1; _mm_clwb((void *)p); _mm_sfence();
        p->value[i] = i; _mm_clwb((void *)p->value); _mm_sfence();
        p->lock = 0; _mm_clwb((void *)p); _mm_sfence();
    }
    return 0;
}
