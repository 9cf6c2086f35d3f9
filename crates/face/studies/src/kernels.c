/* Kernels of the kinds that PARSEC and SPLASH-2X have, single-threaded, each with data and work of its own: what poe-E6
 * and poe-MFOE are measured on. `kernels NAME` runs one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long state = 1;
static unsigned next(void) { state = state * 6364136223846793005ul + 1442695040888963407ul; return state >> 33; }
static double uniform(void) { return next() / 2147483648.0; }

/* Option prices: arrays filled once, priced again and again. */
static double blackscholes(void) {
    enum { N = 1 << 20 };
    double *spot = malloc(N * 8), *strike = malloc(N * 8), *years = malloc(N * 8), *price = malloc(N * 8), sum = 0;
    for (int i = 0; i < N; i++) spot[i] = 50 + uniform() * 100, strike[i] = 50 + uniform() * 100, years[i] = 0.1 + uniform();
    for (int run = 0; run < 10; run++)
        for (int i = 0; i < N; i++) {
            double root = 0.3 * sqrt(years[i]), one = (log(spot[i] / strike[i]) + 0.045 * years[i]) / root;
            price[i] = spot[i] * erfc(-one / 1.4142135) / 2 - strike[i] * exp(-0.02 * years[i]) * erfc((root - one) / 1.4142135) / 2;
        }
    for (int i = 0; i < N; i += 97) sum += price[i];
    return sum;
}

/* Radix-2 transform of complex numbers, in place, after a permuted copy. */
static double fft(void) {
    enum { BITS = 21, N = 1 << BITS };
    double *in = malloc(N * 16), *a = malloc(N * 16);
    for (int i = 0; i < 2 * N; i++) in[i] = uniform();
    for (unsigned i = 0; i < N; i++) {
        unsigned j = 0;
        for (int b = 0; b < BITS; b++) j |= (i >> b & 1) << (BITS - 1 - b);
        a[2 * j] = in[2 * i], a[2 * j + 1] = in[2 * i + 1];
    }
    for (int len = 2; len <= N; len *= 2) {
        double wr = cos(2 * M_PI / len), wi = sin(2 * M_PI / len);
        for (int i = 0; i < N; i += len) {
            double cr = 1, ci = 0;
            for (int j = i; j < i + len / 2; j++) {
                double *u = a + 2 * j, *v = a + 2 * (j + len / 2), xr = v[0] * cr - v[1] * ci, xi = v[0] * ci + v[1] * cr, t;
                v[0] = u[0] - xr, v[1] = u[1] - xi, u[0] += xr, u[1] += xi;
                t = cr * wr - ci * wi, ci = cr * wi + ci * wr, cr = t;
            }
        }
    }
    return a[12345];
}

static double lu(void) {
    enum { N = 1024 };
    double *a = malloc(N * N * 8);
    for (int i = 0; i < N * N; i++) a[i] = uniform();
    for (int i = 0; i < N; i++) a[i * N + i] += N;
    for (int k = 0; k < N; k++)
        for (int i = k + 1; i < N; i++) {
            double factor = a[i * N + k] /= a[k * N + k];
            for (int j = k + 1; j < N; j++) a[i * N + j] -= factor * a[k * N + j];
        }
    return a[N * N - 1];
}

static double radix(void) {
    enum { N = 12 << 20 };
    unsigned *a = malloc(N * 4ul), *b = malloc(N * 4ul);
    for (int i = 0; i < N; i++) a[i] = next();
    for (int shift = 0; shift < 32; shift += 8) {
        unsigned count[257] = { 0 }, *t;
        for (int i = 0; i < N; i++) count[(a[i] >> shift & 255) + 1]++;
        for (int i = 0; i < 256; i++) count[i + 1] += count[i];
        for (int i = 0; i < N; i++) b[count[a[i] >> shift & 255]++] = a[i];
        t = a, a = b, b = t;
    }
    return a[N / 2];
}

static double ocean(void) {
    enum { N = 1538 };
    double *grid[5];
    for (int g = 0; g < 5; g++) {
        grid[g] = calloc(N * N, 8);
        for (int i = 0; i < N; i++) grid[g][i] = i;
    }
    for (int step = 0; step < 24; step++)
        for (int g = 0; g < 5; g++) {
            double *from = grid[g], *to = grid[(g + 1) % 5];
            for (int i = 1; i < N - 1; i++)
                for (int j = 1; j < N - 1; j++)
                    to[i * N + j] = 0.2 * (from[i * N + j] + from[i * N + j - 1] + from[i * N + j + 1] + from[(i - 1) * N + j] + from[(i + 1) * N + j]);
        }
    return grid[2][N * N / 2];
}

/* Bodies in a quadtree of small allocations. */
struct node { struct node *child[4]; double x, y, mass; };
static void insert(struct node *at, double x, double y, double cx, double cy, double half) {
    for (;;) {
        at->x += x, at->y += y, at->mass++;
        if (half < 1e-4) return;
        int q = (x > cx) + 2 * (y > cy);
        half /= 2, cx += x > cx ? half : -half, cy += y > cy ? half : -half;
        if (!at->child[q]) { at->child[q] = calloc(1, sizeof *at); at->child[q]->x = x, at->child[q]->y = y, at->child[q]->mass = 1; return; }
        at = at->child[q];
    }
}
static double force(struct node *at, double x, double y, double half) {
    double dx = at->x / at->mass - x, dy = at->y / at->mass - y, d = dx * dx + dy * dy + 1e-6, sum = 0;
    if (half * half < 0.4 * d) return at->mass / d;
    int leaf = 1;
    for (int q = 0; q < 4; q++) if (at->child[q]) leaf = 0, sum += force(at->child[q], x, y, half / 2);
    return leaf ? at->mass / d : sum;
}
static double barnes(void) {
    enum { N = 60000 };
    struct node *root = calloc(1, sizeof *root);
    double *at = malloc(N * 16), sum = 0;
    for (int i = 0; i < N; i++) at[2 * i] = uniform(), at[2 * i + 1] = uniform(), insert(root, at[2 * i], at[2 * i + 1], 0.5, 0.5, 0.5);
    for (int i = 0; i < N; i += 2) sum += force(root, at[2 * i], at[2 * i + 1], 0.5);
    return sum;
}

/* Random swaps of elements that point to each other. */
static double canneal(void) {
    enum { N = 400000 };
    struct element { int x, y, net[14]; } *e = malloc(N * sizeof *e);
    double cost = 0;
    for (int i = 0; i < N; i++) { e[i].x = next() % 1000, e[i].y = next() % 1000; for (int k = 0; k < 14; k++) e[i].net[k] = next() % N; }
    for (int step = 0; step < 1200000; step++) {
        struct element *a = e + next() % N, *b = e + next() % N;
        long before = 0, after = 0;
        for (int k = 0; k < 14; k++) {
            struct element *n = e + a->net[k];
            before += abs(a->x - n->x) + abs(a->y - n->y), after += abs(b->x - n->x) + abs(b->y - n->y);
        }
        if (after < before) { int x = a->x, y = a->y; a->x = b->x, a->y = b->y, b->x = x, b->y = y; cost += before - after; }
    }
    return cost;
}

static double streamcluster(void) {
    enum { N = 100000, D = 64, K = 20 };
    float *p = malloc(N * D * 4);
    double sum = 0;
    for (int i = 0; i < N * D; i++) p[i] = uniform();
    for (int pass = 0; pass < 4; pass++)
        for (int i = 0; i < N; i++) {
            float best = 1e30;
            for (int k = 0; k < K; k++) {
                float d = 0, *c = p + (long)(k * 4999 + pass) * D, *x = p + (long)i * D;
                for (int j = 0; j < D; j++) d += (x[j] - c[j]) * (x[j] - c[j]);
                if (d < best) best = d;
            }
            sum += best;
        }
    return sum;
}

/* A stream in chunks: each in a buffer of its own, hashed, kept if new. */
static double dedup(void) {
    enum { CHUNKS = 2000, BYTES = 64 << 10, SLOTS = 1 << 16 };
    unsigned char **slot = calloc(SLOTS, sizeof *slot);
    long kept = 0;
    for (int c = 0; c < CHUNKS; c++) {
        unsigned char *b = malloc(BYTES);
        unsigned seed = next() % 1500, hash = 5381;
        for (int i = 0; i < BYTES; i++) b[i] = seed = seed * 1103515245 + 12345;
        for (int i = 0; i < BYTES; i++) hash = hash * 33 + b[i];
        if (slot[hash % SLOTS]) free(b);
        else slot[hash % SLOTS] = b, kept++;
    }
    return kept;
}

/* Paths of interest rates, in matrices that are allocated and freed for each. */
static double swaptions(void) {
    double sum = 0;
    for (int trial = 0; trial < 20000; trial++) {
        double *m = malloc(11 * 55 * 8);
        for (int i = 0; i < 11 * 55; i++) m[i] = i < 11 ? 0.05 : m[i - 11] * (1 + 0.01 * (uniform() - 0.5));
        sum += exp(-m[11 * 55 - 1]);
        free(m);
    }
    return sum;
}

/* A tree of prefixes, a node for each. */
static double freqmine(void) {
    struct trie { struct trie *child[16]; long count; } *root = calloc(1, sizeof *root);
    for (int i = 0; i < 120000; i++) {
        struct trie *at = root;
        unsigned word = next() & next();
        for (int depth = 0; depth < 8; depth++, word >>= 4) {
            struct trie **to = at->child + (word & 15);
            if (!*to) *to = calloc(1, sizeof **to);
            at = *to, at->count++;
        }
    }
    return root->child[0] ? root->child[0]->count : 0;
}

int main(int count, char **words) {
    struct { const char *name; double (*run)(void); } all[] = {
        { "blackscholes", blackscholes }, { "fft", fft }, { "lu", lu }, { "radix", radix }, { "ocean", ocean }, { "barnes", barnes },
        { "canneal", canneal }, { "streamcluster", streamcluster }, { "dedup", dedup }, { "swaptions", swaptions }, { "freqmine", freqmine },
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        if (count > 1 && !strcmp(all[i].name, words[1])) return printf("%g\n", all[i].run()) < 0;
    return 2;
}
