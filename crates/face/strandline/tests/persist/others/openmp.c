/* OpenMP; without it, nothing. */
#include "others.h"

#ifdef _OPENMP
#include <omp.h>

/* Each round adds in a loop, in critical sections, and by tasks; the next loop sees all of it. */
static void loops(void)
{
    for (unsigned long round = 1; round <= rounds; round++) {
        long sum = 0;
#pragma omp parallel for num_threads(THREADS) schedule(dynamic, 2) reduction(+ : sum)
        for (int i = 0; i < 16; i++) {
            root->pairs[i].one++;
            root->pairs[i].two--;
            sum += root->pairs[i].one;
#pragma omp critical
            {
                root->counts[0]++;
                root->counts[1]--;
            }
        }
        root->counts[2] = sum;
    }
}
static void loops_mend(void)
{
    memset(root->pairs, 0, sizeof root->pairs);
    memset(root->counts, 0, sizeof root->counts);
}
static bool loops_hold(void)
{
    long sum = 0;
    for (int i = 0; i < 16; i++) {
        if (root->pairs[i].one != -root->pairs[i].two)
            return wrong("pair %d: %ld and %ld", i, root->pairs[i].one, root->pairs[i].two);
        sum += root->pairs[i].one;
    }
    long *counts = root->counts;
    return (counts[0] == -counts[1] && counts[0] <= sum && counts[2] <= counts[0]) ||
           wrong("%ld, %ld counted, sum %ld, noted %ld", counts[0], counts[1], sum, counts[2]);
}

/* Tasks of a tree: a parent adds its children's counts up when both are done. */
static long grow(unsigned node, long round)
{
    long left = 0, right = 0;
    if (node >= 16)
        return root->ring[node] = round;
#pragma omp task shared(left)
    left = grow(node * 2, round);
#pragma omp task shared(right)
    right = grow(node * 2 + 1, round);
#pragma omp taskwait
    root->ring[node] = left < right ? left : right;
    root->counts[node] = left + right;
    return root->ring[node];
}
static void tasks(void)
{
    for (unsigned long round = 1; round <= rounds; round++) {
#pragma omp parallel num_threads(THREADS)
#pragma omp single
        grow(1, (long)round);
    }
}
static void tasks_mend(void)
{
    memset(root->ring, 0, sizeof root->ring);
    memset(root->counts, 0, sizeof root->counts);
}
static bool tasks_hold(void)
{
    for (int i = 1; i < 16; i++) {
        long one = root->ring[2 * i], other = root->ring[2 * i + 1], own = root->ring[i];
        if (own > one || own > other || root->counts[i] != 2 * own)
            return wrong("node %d is %ld, %ld of %ld and %ld", i, own, root->counts[i], one, other);
    }
    return true;
}

/* Tasks in an order that their data gives, and a loop that is cut into tasks. */
static void chains(void)
{
    for (unsigned long round = 1; round <= rounds; round++) {
        char links[4] __attribute__((unused)) = {0};
#pragma omp parallel num_threads(THREADS)
#pragma omp single
        {
            for (int i = 0; i < 4; i++) {
#pragma omp task depend(in : links[i ? i - 1 : 0]) depend(out : links[i]) firstprivate(i, round) shared(links)
                root->pairs[i].one = i ? root->pairs[i - 1].one : (long)round;
            }
#pragma omp taskwait
#pragma omp taskloop grainsize(1) firstprivate(round)
            for (int i = 8; i < 16; i++)
                root->pairs[i].one = (long)round;
        }
        long least = (long)round;
        for (int i = 8; i < 16; i++)
            least = root->pairs[i].one < least ? root->pairs[i].one : least;
        root->pairs[20].one = least;
    }
}
static void chains_mend(void)
{
    memset(root->pairs, 0, sizeof root->pairs);
}
static bool chains_hold(void)
{
    for (int i = 1; i < 4; i++)
        if (root->pairs[i].one > root->pairs[i - 1].one)
            return wrong("link %d has %ld, the one before %ld", i, root->pairs[i].one, root->pairs[i - 1].one);
    for (int i = 8; i < 16; i++)
        if (root->pairs[i].one > root->pairs[3].one || root->pairs[20].one > root->pairs[i].one)
            return wrong("%d has %ld, before %ld, behind %ld", i, root->pairs[i].one, root->pairs[3].one,
                         root->pairs[20].one);
    return true;
}
#endif

const struct kind by_openmp[] = {
#ifdef _OPENMP
    {"loops", false, loops, loops_hold, loops_mend},
    {"tasks", false, tasks, tasks_hold, tasks_mend},
    {"chains", false, chains, chains_hold, chains_mend},
#endif
    {NULL, false, NULL, NULL, NULL},
};
