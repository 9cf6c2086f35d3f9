/* Code that a careless hook breaks. Prints sums, which are the same however it is built. */
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define ALONE __attribute__((noinline))

static uint64_t table[256];
static double numbers[64];
static float singles[128];
static unsigned char bytes[512];

/* Flags live over a store: a number of 512 bits, added with carry. */
ALONE static void add(uint64_t *to, const uint64_t *from)
{
    unsigned __int128 sum = 0;
    for (int i = 0; i < 8; i++) {
        sum = (sum >> 64) + to[i] + from[i];
        to[i] = (uint64_t)sum;
    }
}

/* A leaf with a red zone, and more live values than registers. */
ALONE static long leaf(long a, long b, long c, long d, long *out)
{
    volatile long own[14];
    for (int i = 0; i < 14; i++)
        own[i] = a * i + b;
    out[0] = own[3] ^ c;
    out[1] = own[13] - d;
    return own[0] + own[7] * own[9];
}

ALONE static double vectors(int n)
{
    double sum = 0;
    for (int i = 0; i < 64; i++)
        numbers[i] = (i + n) * 0.5;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 63; i++)
            numbers[i] = numbers[i] + numbers[i + 1] * 0.25;
    for (int i = 0; i < 64; i++)
        sum += (double)(long)numbers[i];
    for (int i = 0; i < 128; i++)
        singles[i] = (float)(i & 7) * (float)n;
    for (int i = 0; i < 128; i++)
        sum += singles[i];
    return sum;
}

ALONE static long double extended(const long double *v, long double *out, int n)
{
    long double sum = 1;
    for (int i = 0; i < n; i++) {
        out[i] = v[i] * 3 + sum;
        sum += out[i];
    }
    return sum;
}

ALONE static uint64_t mixed(unsigned char *to, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        to[i] = (unsigned char)(i * 7);
        to[i] += 3;
        to[i] ^= (unsigned char)(to[i] >> 3);
        if (to[i] & 1)
            sum += to[i];
        else
            sum = (sum << 3 | sum >> 61) - to[i];
    }
    return sum;
}

struct Shape {
    virtual ~Shape() {}
    virtual long area(long) const = 0;
};
struct Square : Shape {
    long side;
    explicit Square(long s) : side(s) {}
    long area(long k) const override { return side * side * k; }
};
struct Line : Shape {
    std::string name;
    explicit Line(const char *n) : name(n) {}
    long area(long k) const override { if (k == 3) throw std::runtime_error(name); return (long)name.size(); }
};

static jmp_buf back;
static volatile sig_atomic_t signals;
static void handler(int) { signals = signals + 1; numbers[0] += 1; }

ALONE static long choose(unsigned way, long *at)
{
    switch (way % 8) {
    case 0: at[0]++; return 1;
    case 1: at[1] -= 5; return at[0];
    case 2: at[2] <<= 1; at[2] |= 1; return at[2] & 0xff;
    case 3: at[3] = -at[3]; return at[3];
    case 4: return at[4] > at[5] ? at[4]-- : at[5]--;
    case 5: std::swap(at[0], at[5]); return 2;
    case 6: at[6] = at[6] * 3 + (at[1] < 0); return at[6] % 1000;
    default: return __builtin_popcountl(at[7] ^= at[6]);
    }
}

static thread_local long own_counter;

int main()
{
    uint64_t a[8], b[8], check = 0;
    for (int i = 0; i < 8; i++) { a[i] = ~0ull - (i == 3); b[i] = i * 0x9e3779b97f4a7c15ull + 1; }
    add(a, b);
    for (int i = 0; i < 8; i++) check = check * 31 + a[i];
    printf("carry %016lx\n", (unsigned long)check);

    long out[2], sum = 0;
    for (long i = 0; i < 20; i++) sum += leaf(i, i * 3, i ^ 5, 9, out) + out[0] * out[1];
    printf("leaf %ld\n", sum);
    printf("vectors %.1f\n", vectors(3));
    static long double v[9], w[9];
    for (int i = 0; i < 9; i++) v[i] = i;
    printf("extended %ld\n", (long)extended(v, w, 9));
    printf("mixed %016lx\n", (unsigned long)mixed(bytes, sizeof bytes));

    std::vector<Shape *> shapes{new Square(4), new Line("line"), new Square(7)};
    long areas = 0;
    int caught = 0;
    for (long k = 1; k < 5; k++)
        for (auto *shape : shapes)
            try { areas += shape->area(k); } catch (const std::exception &e) { caught++; areas -= e.what()[1]; }
    for (auto *shape : shapes) delete shape;
    printf("shapes %ld %d\n", areas, caught);

    signal(SIGUSR1, handler);
    volatile int jumps = 0;
    if (setjmp(back) < 5) { jumps = jumps + 1; raise(SIGUSR1); longjmp(back, jumps); }
    printf("jumps %d %d\n", jumps, (int)signals);

    long at[8] = {1, 2, 3, 4, 5, 6, 7, 8}, chosen = 0;
    for (unsigned i = 0; i < 1000; i++) chosen = chosen * 5 + choose(i * 2654435761u >> 7, at);
    printf("choose %ld\n", chosen);

    long counts[4] = {};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&counts, t] { for (int i = 0; i < 1000; i++) own_counter += i ^ t; counts[t] = own_counter; });
    for (auto &thread : threads) thread.join();
    printf("threads %ld\n", counts[0] + counts[1] * 3 + counts[2] * 5 + counts[3] * 7);

    for (int i = 0; i < 256; i++) table[i] = (uint64_t)i << (i & 31);
    memmove(table + 1, table, 255 * sizeof *table);
    uint64_t found = 0;
    for (int i = 0; i < 256; i++) found ^= table[i] + (uint64_t)i;
    struct Big { char text[200]; } big, other;
    memset(&big, 'x', sizeof big);
    other = big;
    printf("moved %016lx %d\n", (unsigned long)found, memcmp(&big, &other, sizeof big));
    return 0;
}
