/*
 * A queue of jobs that survives, in C++: each job is done once, whatever happens.
 *
 *   queue POOL [MISTAKE]         makes a pool, puts jobs into the queue and does them: a job's number is added to a sum
 *   queue --recover POOL         recovers it and looks whether each job is waiting or done: status 0, or 1 and a line that says why
 *
 * MISTAKE is two-regions: a job is taken out in one region and done in another. Or not-freed: a job that is done stays allocated.
 */
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "strandline.hpp"

using strandline::ref;

namespace {

constexpr char LAYOUT[] = "queue of jobs, 1";
constexpr std::uint64_t JOBS = 4;

struct Job {
    std::uint64_t number;
    ref<Job> next;
};

struct Queue {
    ref<Job> first, last;
    std::uint64_t put, done, sum;
};

void put(strandline::pool &pool, std::uint64_t number)
{
    pool.region([&] {
        const auto root = pool.root<Queue>();
        auto queue = pool.get(root);
        const auto job = pool.alloc(Job{number, {}});
        if (queue.last)
            pool.set(queue.last, &Job::next, job);
        else
            queue.first = job;
        queue.last = job;
        queue.put += number;
        pool.set(root, queue);
    });
}

/* Takes the first job out of the queue. */
Job take(strandline::pool &pool, bool freed)
{
    const auto root = pool.root<Queue>();
    const auto first = pool.get(root, &Queue::first);
    const auto job = pool.get(first);
    pool.set(root, &Queue::first, job.next);
    if (!job.next)
        pool.set(root, &Queue::last, job.next);
    if (freed)
        pool.free(first);
    return job;
}

void finish(strandline::pool &pool, const Job &job)
{
    const auto root = pool.root<Queue>();
    pool.set(root, &Queue::sum, pool.get(root, &Queue::sum) + job.number);
    pool.set(root, &Queue::done, pool.get(root, &Queue::done) + 1);
}

void work(strandline::pool &pool, const std::string &mistake)
{
    if (mistake == "two-regions") {
        Job job{};
        pool.region([&] { job = take(pool, true); });
        pool.region([&] { finish(pool, job); });
        return;
    }
    pool.region([&] {
        /* A region within a region is part of it. */
        Job job{};
        pool.region([&] { job = take(pool, mistake != "not-freed"); });
        finish(pool, job);
    });
}

int wrong(const char *what)
{
    std::puts(what);
    return 1;
}

int recover(const char *path)
{
    const char *const done = std::getenv("STRANDLINE_DONE");
    const auto pool = [&] {
        try {
            return strandline::pool::open(path, LAYOUT);
        } catch (const strandline::error &error) {
            const bool none = error.status() == SL_E_NO_POOL || (error.status() == SL_E_FILE && errno == ENOENT);
            if (none && (!done || !std::strcmp(done, "0")))
                std::exit(0);
            throw;
        }
    }();
    const auto queue = pool.get(pool.root<Queue>());
    std::uint64_t sum = queue.sum, waiting = 0;
    for (auto at = queue.first; at; at = pool.get(at, &Job::next)) {
        sum += pool.get(at, &Job::number);
        if (++waiting > JOBS)
            return wrong("the queue leads in circles");
    }
    if (sum != queue.put)
        return wrong("a job is lost, or done twice");
    if (pool.blocks().size() != waiting + 1)
        return wrong("a job that is done is still allocated");
    return 0;
}

} /* namespace */

int main(int argc, char **argv)
try {
    if (argc == 3 && !std::strcmp(argv[1], "--recover"))
        return recover(argv[2]);
    if (argc < 2 || argc > 3)
        throw std::runtime_error("usage: queue [--recover] POOL [MISTAKE]");
    auto pool = strandline::pool::create<Queue>(argv[1], LAYOUT, 256 << 10);
    for (std::uint64_t number = 1; number <= JOBS; number++)
        put(pool, number * number);
    for (std::uint64_t number = 1; number <= JOBS; number++)
        work(pool, argc == 3 ? argv[2] : "");
    std::cout << pool.get(pool.root<Queue>(), &Queue::sum) << '\n';
    return 0;
} catch (const std::exception &error) {
    std::cerr << "queue: " << error.what() << '\n';
    return 2;
}
