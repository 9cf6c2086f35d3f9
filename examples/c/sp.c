/*
 * Scalar pentadiagonal solver, after SP of the NAS Parallel Benchmarks 3.4: time steps of a compressible flow in a cube.
 *
 * u holds five quantities per cell. compute_rhs writes most of the program's bytes: the right sides in rhs, passed over
 * once per direction, and six fields of auxiliary figures. Then the factors of the implicit operator are solved along
 * each direction in turn, in place in rhs, and add moves u.
 */
#include <math.h>

#include "common.h"

enum { MAX_EDGE = 162 };

static struct {
    double (*u)[5], (*rhs)[5], (*forcing)[5];
    double *us, *vs, *ws, *qs, *square, *rho_i, *speed;
    int edge, threads;
    double dt;
    pthread_barrier_t barrier;
} sp;

#define AT(k, j, i) (((size_t)(k) * (size_t)sp.edge + (size_t)(j)) * (size_t)sp.edge + (size_t)(i))

/* The right sides of the inner cells of planes [low, high), and the auxiliary figures of all of their cells. */
static void compute_rhs(void *context, long low, long high, int thread)
{
    const double c1 = 1.4, c2 = 0.4, con43 = 4.0 / 3.0, dssp = 0.25 * 0.75, scale = sp.edge - 1;
    const double t2 = 0.5 * scale, d1 = 0.75 * scale * scale;
    const double con2 = 0.1 * scale * scale, con3 = -0.4 * con2, con4 = con2 / 6, con5 = 1.96 * con2;
    const double *velocity[3];
    const size_t stride[3] = {1, (size_t)sp.edge, (size_t)sp.edge * (size_t)sp.edge};
    const int n = sp.edge;
    double(*u)[5] = sp.u, (*rhs)[5] = sp.rhs;
    const long first = low ? low : 1, last = high < n ? high : n - 1;
    long k;
    int j, i, m, d;
    (void)context, (void)thread;
    velocity[0] = sp.us, velocity[1] = sp.vs, velocity[2] = sp.ws;

    for (k = low; k < high; k++)
        for (j = 0; j < n; j++)
            for (i = 0; i < n; i++) {
                const size_t c = AT(k, j, i);
                const double rho_inv = 1.0 / u[c][0];
                sp.rho_i[c] = rho_inv;
                sp.us[c] = u[c][1] * rho_inv;
                sp.vs[c] = u[c][2] * rho_inv;
                sp.ws[c] = u[c][3] * rho_inv;
                sp.square[c] = 0.5 * (u[c][1] * u[c][1] + u[c][2] * u[c][2] + u[c][3] * u[c][3]) * rho_inv;
                sp.qs[c] = sp.square[c] * rho_inv;
                sp.speed[c] = sqrt(c1 * c2 * rho_inv * (u[c][4] - sp.square[c]));
            }
    for (k = low; k < high; k++)
        for (j = 0; j < n; j++)
            for (i = 0; i < n; i++)
                for (m = 0; m < 5; m++)
                    rhs[AT(k, j, i)][m] = sp.forcing[AT(k, j, i)][m];
    pthread_barrier_wait(&sp.barrier); /* Neighbours' figures are there. */

    /* Fluxes and fourth-order dissipation, along xi, eta and zeta. */
    for (d = 0; d < 3; d++) {
        const size_t s = stride[d];
        const double *w = velocity[d];
        for (k = first; k < last; k++)
            for (j = 1; j < n - 1; j++) {
                for (i = 1; i < n - 1; i++) {
                    const size_t c = AT(k, j, i), p = c + s, q = c - s;
                    rhs[c][0] = rhs[c][0] + d1 * (u[p][0] - 2.0 * u[c][0] + u[q][0]) - t2 * (u[p][1 + d] - u[q][1 + d]);
                    for (m = 1; m < 4; m++) {
                        const double *v = velocity[m - 1];
                        const int own = m == 1 + d;
                        rhs[c][m] = rhs[c][m] + d1 * (u[p][m] - 2.0 * u[c][m] + u[q][m]) +
                                    con2 * (own ? con43 : 1.0) * (v[p] - 2.0 * v[c] + v[q]) -
                                    t2 * (u[p][m] * w[p] - u[q][m] * w[q] +
                                          (own ? (u[p][4] - sp.square[p] - u[q][4] + sp.square[q]) * c2 : 0.0));
                    }
                    rhs[c][4] = rhs[c][4] + d1 * (u[p][4] - 2.0 * u[c][4] + u[q][4]) +
                                con3 * (sp.qs[p] - 2.0 * sp.qs[c] + sp.qs[q]) +
                                con4 * (w[p] * w[p] - 2.0 * w[c] * w[c] + w[q] * w[q]) +
                                con5 * (u[p][4] * sp.rho_i[p] - 2.0 * u[c][4] * sp.rho_i[c] + u[q][4] * sp.rho_i[q]) -
                                t2 * ((c1 * u[p][4] - c2 * sp.square[p]) * w[p] - (c1 * u[q][4] - c2 * sp.square[q]) * w[q]);
                }
                for (i = 1; i < n - 1; i++) {
                    const size_t c = AT(k, j, i);
                    const int at = d == 0 ? i : d == 1 ? j : (int)k;
                    for (m = 0; m < 5; m++) {
                        double sum = (at == 1 || at == n - 2 ? 5.0 : 6.0) * u[c][m];
                        if (at > 1)
                            sum -= 4.0 * u[c - s][m];
                        if (at > 2)
                            sum += u[c - 2 * s][m];
                        if (at < n - 2)
                            sum -= 4.0 * u[c + s][m];
                        if (at < n - 3)
                            sum += u[c + 2 * s][m];
                        rhs[c][m] = rhs[c][m] - dssp * sum;
                    }
                }
            }
    }

    for (k = first; k < last; k++)
        for (j = 1; j < n - 1; j++) {
            for (i = 1; i < n - 1; i++)
                for (m = 0; m < 5; m++)
                    rhs[AT(k, j, i)][m] = rhs[AT(k, j, i)][m] * sp.dt;
#if defined(CLEAN)
            sl_prestore(rhs[AT(k, j, 1)], (size_t)(n - 2) * sizeof rhs[0], SL_CLEAN);
#endif
        }
}

/* Multiplies the right sides by the inverse of the eigenvectors. */
static void txinvr(void *context, long low, long high, int thread)
{
    const double bt = sqrt(0.5);
    long k;
    int j, i;
    (void)context, (void)thread;
    for (k = low; k < high; k++)
        for (j = 1; j < sp.edge - 1; j++)
            for (i = 1; i < sp.edge - 1; i++) {
                const size_t c = AT(k, j, i);
                double *r = sp.rhs[c];
                const double a = sp.speed[c], t1 = 0.4 / (a * a) * (sp.qs[c] * r[0] - sp.us[c] * r[1] - sp.vs[c] * r[2] -
                                                                    sp.ws[c] * r[3] + r[4]);
                const double t2 = bt * sp.rho_i[c] * (sp.us[c] * r[0] - r[1]), t3 = bt * sp.rho_i[c] * a * t1;
                const double r3 = r[2], r4 = r[3];
                r[0] = r[0] - t1;
                r[1] = -sp.rho_i[c] * (sp.ws[c] * r[0] - r4);
                r[2] = sp.rho_i[c] * (sp.vs[c] * r[0] - r3);
                r[3] = -t2 + t3;
                r[4] = t2 + t3;
            }
}

/* Solves the lines from `start` on, `step` cells apart, in place: forward elimination and back substitution. */
static void solve_line(size_t start, size_t step, const double *w)
{
    double lhs[MAX_EDGE][3];
    const int n = sp.edge;
    const double t = sp.dt * 0.5 * (n - 1), spread = sp.dt * 0.75 * (n - 1) * (n - 1);
    int i, m;
    for (i = 1; i < n - 1; i++) {
        const size_t c = start + (size_t)i * step;
        lhs[i][0] = -t * w[c - step] - spread;
        lhs[i][1] = 1.0 + 2.0 * spread;
        lhs[i][2] = t * w[c + step] - spread;
    }
    for (i = 1; i < n - 1; i++) {
        double *here = sp.rhs[start + (size_t)i * step];
        const double inverse = 1.0 / lhs[i][1];
        lhs[i][2] *= inverse;
        for (m = 0; m < 5; m++)
            here[m] *= inverse;
        if (i < n - 2) {
            lhs[i + 1][1] -= lhs[i + 1][0] * lhs[i][2];
            for (m = 0; m < 5; m++)
                here[step * 5 + (size_t)m] -= lhs[i + 1][0] * here[m];
        }
    }
    for (i = n - 3; i >= 1; i--) {
        double *here = sp.rhs[start + (size_t)i * step];
        for (m = 0; m < 5; m++)
            here[m] -= lhs[i][2] * here[step * 5 + (size_t)m];
    }
}

static void x_solve(void *context, long low, long high, int thread)
{
    long k;
    int j;
    (void)context, (void)thread;
    for (k = low; k < high; k++)
        for (j = 1; j < sp.edge - 1; j++)
            solve_line(AT(k, j, 0), 1, sp.us);
}

static void y_solve(void *context, long low, long high, int thread)
{
    long k;
    int i;
    (void)context, (void)thread;
    for (k = low; k < high; k++)
        for (i = 1; i < sp.edge - 1; i++)
            solve_line(AT(k, 0, i), (size_t)sp.edge, sp.vs);
}

/* [low, high) are numbers of the second dimension. */
static void z_solve(void *context, long low, long high, int thread)
{
    long j;
    int i;
    (void)context, (void)thread;
    for (j = low; j < high; j++)
        for (i = 1; i < sp.edge - 1; i++)
            solve_line(AT(0, j, i), (size_t)sp.edge * (size_t)sp.edge, sp.ws);
}

static void add(void *context, long low, long high, int thread)
{
    long k;
    int j, i, m;
    (void)context, (void)thread;
    for (k = low; k < high; k++)
        for (j = 1; j < sp.edge - 1; j++)
            for (i = 1; i < sp.edge - 1; i++)
                for (m = 0; m < 5; m++)
                    sp.u[AT(k, j, i)][m] += sp.rhs[AT(k, j, i)][m];
}

static void adi(void)
{
    const long inner = sp.edge - 1;
    parallel(sp.threads, 0, sp.edge, compute_rhs, NULL);
    parallel(sp.threads, 1, inner, txinvr, NULL);
    parallel(sp.threads, 1, inner, x_solve, NULL);
    parallel(sp.threads, 1, inner, y_solve, NULL);
    parallel(sp.threads, 1, inner, z_solve, NULL);
    parallel(sp.threads, 1, inner, add, NULL);
}

/* A gas at rest with a random ripple. */
static void initialize(size_t cells, uint64_t seed)
{
    size_t c;
    int m;
    for (c = 0; c < cells; c++) {
        sp.u[c][0] = 1.0 + 0.01 * next_fraction(&seed);
        for (m = 1; m < 4; m++)
            sp.u[c][m] = 0.01 * (next_fraction(&seed) - 0.5);
        sp.u[c][4] = 2.0 + 0.01 * next_fraction(&seed);
        for (m = 0; m < 5; m++)
            sp.forcing[c][m] = 0.001 * (next_fraction(&seed) - 0.5);
    }
}

int main(int argc, char **argv)
{
    struct options options = {1, 80, 1, 1, 0, 0};
    double **fields[] = {&sp.us, &sp.vs, &sp.ws, &sp.qs, &sp.square, &sp.rho_i, &sp.speed};
    size_t i;
    parse_options(argc, argv, &options, "time steps", "cells per edge, from 6 to 162");
    require(options.size >= 6 && options.size <= MAX_EDGE, "-s must be from 6 to 162");
    const size_t cells = options.size * options.size * options.size;
    sp.edge = (int)options.size;
    sp.threads = (int)(options.threads < options.size ? options.threads : options.size);
    sp.dt = 1e-5;

    sl_phase("load");
    sp.u = (double(*)[5])allocate(cells * sizeof sp.u[0]);
    sp.rhs = (double(*)[5])allocate(cells * sizeof sp.rhs[0]);
    sp.forcing = (double(*)[5])allocate(cells * sizeof sp.forcing[0]);
    for (i = 0; i < sizeof fields / sizeof fields[0]; i++)
        *fields[i] = (double *)allocate(cells * sizeof(double));
    initialize(cells, options.seed);
    pthread_barrier_init(&sp.barrier, NULL, (unsigned)sp.threads);

    sl_phase("run");
    const double start = seconds();
    for (uint64_t n = 0; n < options.n; n++)
        adi();
    const double elapsed = seconds() - start;

    sl_phase("check");
    for (i = 0; i < cells; i++)
        if (!(sp.u[i][0] > 0.5 && sp.u[i][0] < 1.5 && sp.u[i][4] > 1.0 && sp.u[i][4] < 3.0)) {
            fprintf(stderr, "sp: the flow blew up at cell %zu\n", i);
            return 1;
        }
    report("sp", checksum(sp.u[0], 5 * cells) + 3 * checksum(sp.rhs[0], 5 * cells), elapsed);
    free(sp.u), free(sp.rhs), free(sp.forcing);
    for (i = 0; i < sizeof fields / sizeof fields[0]; i++)
        free(*fields[i]);
    return 0;
}
