/* The command line of the benchmarks, and how they run. */
#ifndef SFR_MAIN_H
#define SFR_MAIN_H

static const struct benchmark *benchmark;
static int acks = -1;

static void usage(FILE *out, const char *program)
{
    fprintf(out,
            "usage: %s [OPTION]... POOL\n"
            "\n"
            "Runs operations on the pool, which is made if there is none and checked if there is one.\n"
            "\n"
            "  --threads N         threads [1]\n"
            "  --ops N             operations of all threads together [100000]\n"
            "  --stores-per-sfr N  8-byte stores of data in one synchronisation-free region, 1 to %d [2]\n"
            "  --size N            %s [%" PRIu64 "]\n"
            "  --reads N           percent of operations that only read, where there are such [0]\n"
            "  --seed N            seed of all choices [1]\n"
            "  --acks FILE         count operations; note in FILE, every %d, how many are durable\n"
            "  --setup             only make the pool, big enough for --ops\n"
            "  --check             only open the pool and verify it: exit status 0, or 1 with the reason\n"
            "\n"
            "Example: %s --threads 2 --stores-per-sfr 8 /dev/shm/pool && %s --check /dev/shm/pool\n",
            program, STORES_MAX, benchmark->size_means, benchmark->size, ACKNOWLEDGED, program, program);
}

static uint64_t number(const char *text, const char *name, uint64_t least, uint64_t most)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most)
        errx(2, "--%s: %s is not a number from %" PRIu64 " to %" PRIu64, name, text, least, most);
    return value;
}

static void parse(int count, char **arguments)
{
    static const struct option known[] = {
        {"threads", required_argument, NULL, 't'}, {"ops", required_argument, NULL, 'o'},
        {"stores-per-sfr", required_argument, NULL, 'n'}, {"size", required_argument, NULL, 's'},
        {"reads", required_argument, NULL, 'r'}, {"seed", required_argument, NULL, 'e'},
        {"acks", required_argument, NULL, 'a'}, {"check", no_argument, NULL, 'c'},
        {"setup", no_argument, NULL, 'u'},
        {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    int option;
    options = (struct options){.ops = 100000, .size = benchmark->size, .seed = 1, .threads = 1, .stores = 2};
    while ((option = getopt_long(count, arguments, "", known, NULL)) != -1) {
        switch (option) {
        case 't': options.threads = (unsigned)number(optarg, "threads", 1, THREADS_MAX); break;
        case 'o': options.ops = number(optarg, "ops", 0, 1u << 30); break;
        case 'n': options.stores = (unsigned)number(optarg, "stores-per-sfr", 1, STORES_MAX); break;
        case 's': options.size = number(optarg, "size", 1, 1u << 24); break;
        case 'r': options.reads = (unsigned)number(optarg, "reads", 0, 100); break;
        case 'e': options.seed = number(optarg, "seed", 0, UINT64_MAX); break;
        case 'a': options.acks = optarg; break;
        case 'c': options.check = true; break;
        case 'u': options.setup = true; break;
        case 'h': usage(stdout, arguments[0]); exit(0);
        default: usage(stderr, arguments[0]); exit(2);
        }
    }
    if (optind + 1 != count) {
        usage(stderr, arguments[0]);
        exit(2);
    }
    options.path = arguments[optind];
}

/* Operations that were acknowledged as durable are in the pool. */
static const char *verify_acks(void)
{
    int file = open(options.acks, O_RDONLY);
    uint64_t durable;
    if (file < 0)
        return NULL;
    for (unsigned i = 0; i < THREADS_MAX; i++)
        if (pread(file, &durable, sizeof durable, i * 8) == sizeof durable && durable > root->done[i][0]) {
            close(file);
            return wrong("thread %u: %" PRIu64 " operations are acknowledged, %" PRIu64 " are there", i,
                         durable,
                         root->done[i][0]);
        }
    close(file);
    return NULL;
}

/* Opens the pool that is there, and verifies it; false if there is none yet. */
static bool open_pool(void)
{
    const char *bad;
    struct benchmark const *b = benchmark;
    struct stat status;
    if (stat(options.path, &status)) {
        if (options.check)
            err(1, "%s", options.path);
        return false;
    }
    pool = sl_pool_open(options.path, b->name, NULL);
    if (!pool && options.check && (sl_error_code() == SL_E_NO_POOL || status.st_size == 0)) {
        printf("%s: the crash came before there was a pool\n", options.path);
        exit(0);
    }
    if (!pool)
        errx(1, "%s", sl_error());
    /* A crash before the end of sl_pool_create leaves a pool without a root object, or none. */
    root = sl_at(pool, sl_root(pool));
    if (!root || !root->ready) {
        if (!options.check)
            errx(1, "%s: a pool whose setup was cut short; remove it", options.path);
        printf("%s: the crash came before the end of the setup\n", options.path);
        exit(0);
    }
    options.size = root->size;
    options.stores = (unsigned)root->stores;
    pool_bytes = root->bytes;
    bad = b->verify();
    if (!bad && options.acks)
        bad = verify_acks();
    if (bad) {
        fprintf(stderr, "%s: %s: %s\n", b->name, options.path, bad);
        exit(1);
    }
    return true;
}

static void create_pool(void)
{
    pool_bytes = benchmark->bytes();
    pool = sl_pool_create(options.path, benchmark->name, pool_bytes, sizeof *root, NULL);
    if (!pool)
        errx(1, "%s", sl_error());
    root = sl_at(pool, sl_root(pool));
    root->bytes = pool_bytes;
    root->size = options.size;
    root->stores = options.stores;
    root->counted = options.acks != NULL;
    step();
    benchmark->setup();
    step();
    root->ready = 1;
    step();
    sl_psync(pool);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    uint64_t share = options.ops / options.threads + (worker->index < options.ops % options.threads);
    for (uint64_t i = 1; i <= share; i++) {
        benchmark->operate(worker);
        worker->done++;
        if (acks >= 0 && i % ACKNOWLEDGED == 0) {
            sl_psync(pool);
            if (pwrite(acks, &worker->done, sizeof worker->done, worker->index * 8) != sizeof worker->done)
                err(1, "%s", options.acks);
        }
    }
    return NULL;
}

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void run(void)
{
    static struct worker workers[THREADS_MAX];
    uint64_t wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned i = 0; i < options.threads; i++) {
        workers[i] = (struct worker){.index = i, .random = mix(options.seed * THREADS_MAX + i),
                                     .done = root->done[i][0]};
        errno = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
        if (errno)
            err(1, "a thread");
    }
    for (unsigned i = 0; i < options.threads; i++)
        pthread_join(workers[i].thread, NULL);
    /* What is not durable yet is part of the work. */
    sl_psync(pool);
    wall = now(CLOCK_MONOTONIC) - wall;
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"benchmark\":\"%s\",\"threads\":%u,\"ops\":%" PRIu64 ",\"stores_per_sfr\":%u,\"size\":%" PRIu64
           ",\"seed\":%" PRIu64 ",\"wall_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64 ",\"ops_per_second\":%.0f}\n",
           benchmark->name, options.threads, options.ops, options.stores, options.size, options.seed, wall,
                   cpu,
           (double)options.ops * 1e9 / (double)(wall ? wall : 1));
}

static int sfr_main(const struct benchmark *of, int count, char **arguments)
{
    benchmark = of;
    parse(count, arguments);
    bool there = open_pool();
    if (options.check) {
        printf("%s: %s: good, %" PRIu64 " operations counted\n", of->name, options.path, counted_in_all());
        sl_pool_close(pool);
        return 0;
    }
    if (!there)
        create_pool();
    if (options.setup)
        return sl_pool_close(pool) ? 1 : 0;
    if (options.acks && (acks = open(options.acks, O_WRONLY | O_CREAT, 0666)) < 0)
        err(1, "%s", options.acks);
    of->start();
    run();
    if (sl_pool_close(pool))
        errx(1, "%s: %s", options.path, sl_error());
    return 0;
}

#endif
