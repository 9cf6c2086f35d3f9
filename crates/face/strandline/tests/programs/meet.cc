/* Ways in which threads and processes meet. One makes data durable and lets the other know, which then sets a flag. In the
 * wrong variants the fence comes after they have met.
 *
 *   meet POOL WAY [wrong]      meet --recover POOL      meet POOL make|use [wrong]: one of the two, as a program of its own */
#include <fcntl.h>
#include <immintrin.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static const size_t BYTES = 8192;
static const int FLAG = 0, DATA = 8, READY = 16;

static uint64_t *pool;
static bool wrong;
static std::string way;

static uint64_t *map(const char *path, int flags) {
    int file = open(path, flags, 0600);
    if (file < 0 || (flags & O_CREAT && ftruncate(file, BYTES) != 0)) exit(3);
    void *at = mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, flags & O_CREAT ? MAP_SHARED : MAP_PRIVATE, file, 0);
    close(file);
    if (at == MAP_FAILED) exit(3);
    return static_cast<uint64_t *>(at);
}

__attribute__((target("clwb"))) static void flush(void *line) { _mm_clwb(line); }

static void persist(void *line) {
    flush(line);
    _mm_sfence();
}

static void make() {
    pool[DATA] = 7; /* lost */
    flush(pool + DATA);
    if (!wrong) _mm_sfence();
}

static void use() {
    pool[FLAG] = 1; /* survives */
    persist(pool + FLAG);
}

/* ---- the ways: `give` after the data were made, `take` before they are used */

static std::atomic<int> flag;
static volatile int plain;
static int word, given;
static std::atomic<uint64_t> *ready;
static sem_t semaphore;
static pthread_barrier_t barrier;
static std::mutex mutex;
static std::condition_variable condition;
static int ends[2], counter;
static mqd_t queue;
static pthread_t sleeper;
static const char *file;

static void take_lock() {
    int seen = 1;
    while (seen) {
        __asm__ volatile("xchgl %0, %1" : "+r"(seen), "+m"(word)::"memory");
        if (seen) sched_yield();
    }
}

static void release_lock() {
    __asm__ volatile("" ::: "memory");
    *(volatile int *)&word = 0;
}

/* Each has opened the file itself. */
static int lock(int file, bool wanted) {
    if (way == "flock") return flock(file, wanted ? LOCK_EX : LOCK_UN);
    struct flock range = {};
    range.l_type = wanted ? F_WRLCK : F_UNLCK;
    return fcntl(file, F_OFD_SETLKW, &range);
}

static void give() {
    char byte = 1;
    if (way == "relaxed") {
        flag.store(1, std::memory_order_relaxed);
    } else if (way == "fences") {
        std::atomic_thread_fence(std::memory_order_release);
        flag.store(1, std::memory_order_relaxed);
    } else if (way == "volatile") {
        plain = 1;
    } else if (way == "in-pool") {
        ready->store(1, std::memory_order_relaxed);
    } else if (way == "assembly") {
        given = 1;
        release_lock();
    } else if (way == "semaphore") {
        sem_post(&semaphore);
    } else if (way == "barrier") {
        pthread_barrier_wait(&barrier);
    } else if (way == "condition") {
        std::lock_guard<std::mutex> held(mutex);
        word = 1;
        condition.notify_one();
    } else if (way == "pipe" || way == "socket" || way == "poll" || way == "select") {
        if (write(ends[1], &byte, 1) != 1) exit(4);
    } else if (way == "counter" || way == "epoll") {
        eventfd_write(counter, 1);
    } else if (way == "signal") {
        kill(getpid(), SIGUSR1);
    } else if (way == "signalfd") {
        sigqueue(getpid(), SIGUSR1, {});
    } else if (way == "messages") {
        mq_send(queue, &byte, 1, 0);
    } else if (way == "cancel") {
        pthread_cancel(sleeper);
    }
}

static void take() {
    char byte;
    eventfd_t count;
    if (way == "relaxed") {
        while (!flag.load(std::memory_order_relaxed)) sched_yield();
    } else if (way == "fences") {
        while (!flag.load(std::memory_order_relaxed)) sched_yield();
        std::atomic_thread_fence(std::memory_order_acquire);
    } else if (way == "volatile") {
        while (!plain) sched_yield();
    } else if (way == "in-pool") {
        while (!ready->load(std::memory_order_relaxed)) sched_yield();
    } else if (way == "assembly") {
        for (int seen = 0; !seen;) {
            take_lock();
            seen = given;
            release_lock();
        }
    } else if (way == "semaphore") {
        sem_wait(&semaphore);
    } else if (way == "barrier") {
        pthread_barrier_wait(&barrier);
    } else if (way == "condition") {
        std::unique_lock<std::mutex> held(mutex);
        condition.wait(held, [] { return word == 1; });
    } else if (way == "pipe" || way == "socket") {
        if (read(ends[0], &byte, 1) != 1) exit(4);
    } else if (way == "poll") {
        pollfd end = {ends[0], POLLIN, 0};
        if (poll(&end, 1, -1) != 1) exit(4);
    } else if (way == "select") {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        if (select(ends[0] + 1, &set, nullptr, nullptr, nullptr) != 1) exit(4);
    } else if (way == "counter") {
        eventfd_read(counter, &count);
    } else if (way == "epoll") {
        epoll_event event = {};
        event.events = EPOLLIN;
        int set = epoll_create1(0);
        if (epoll_ctl(set, EPOLL_CTL_ADD, counter, &event) != 0 || epoll_wait(set, &event, 1, -1) != 1) exit(4);
    } else if (way == "signalfd") {
        signalfd_siginfo info;
        if (read(counter, &info, sizeof info) != sizeof info) exit(4);
    } else if (way == "messages") {
        timespec until = {};
        until.tv_sec = time(nullptr) + 60;
        if (mq_timedreceive(queue, &byte, 1, nullptr, &until) != 1) exit(4);
    } else if (way == "cancel") {
        if (pthread_join(sleeper, nullptr) != 0) exit(4);
    } else if (way == "signal") {
        sigset_t set;
        int number;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        if (sigwait(&set, &number) != 0 || number != SIGUSR1) exit(4);
    } else if (way == "flock" || way == "range") {
        int own = open(file, O_RDWR);
        for (int seen = 0; !seen;) {
            if (lock(own, true) != 0) exit(4);
            seen = given;
            if (lock(own, false) != 0) exit(4);
        }
    }
}

static void two_threads() {
    if (way.find("signal") == 0) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &set, nullptr);
        if (way == "signalfd") counter = signalfd(-1, &set, 0);
    } else if (way == "messages") {
        mq_attr attributes = {};
        attributes.mq_maxmsg = attributes.mq_msgsize = 1;
        std::string name = "/meet-" + std::to_string(getpid());
        queue = mq_open(name.c_str(), O_CREAT | O_RDWR, 0600, &attributes);
        if (mq_unlink(name.c_str()) != 0) exit(4);
    } else if (way == "cancel") {
        pthread_create(&sleeper, nullptr, [](void *) -> void * { for (;;) pause(); }, nullptr);
    }
    std::thread maker([] {
        // The lock is a fence itself, so it is taken before.
        if (way == "assembly") take_lock();
        int own = open(file, O_RDWR);
        if ((way == "flock" || way == "range") && lock(own, true) != 0) exit(4);
        make();
        give();
        if (way == "flock" || way == "range") {
            given = 1;
            // To close the file is to give its lock up.
            if (way == "flock" ? close(own) != 0 : lock(own, false) != 0) exit(4);
        }
        _mm_sfence();
    });
    std::thread user([] {
        take();
        use();
    });
    maker.join();
    user.join();
}

/* They do not meet at all. */
static void apart() {
    std::thread maker([] {
        for (int round = 0; round < 100; round++) {
            pool[READY + 8 * (round % 40)] = round;
            persist(pool + READY + 8 * (round % 40));
        }
        make();
        persist(pool + DATA);
    });
    std::thread user([] {
        for (int round = 0; round < 100; round++) {
            pool[READY + 320 + 8 * (round % 20)] = round;
            persist(pool + READY + 320 + 8 * (round % 20));
        }
        use();
    });
    maker.join();
    user.join();
}

/* ---- done once: both threads ask for it, and one of them goes on */

static pthread_once_t posix_once = PTHREAD_ONCE_INIT;
static once_flag c_once = ONCE_FLAG_INIT;
static std::once_flag cxx_once;

static int made() {
    make();
    return 1;
}

static void once() {
    if (way == "pthread-once") {
        pthread_once(&posix_once, make);
    } else if (way == "c-once") {
        call_once(&c_once, make);
    } else if (way == "std-once") {
        std::call_once(cxx_once, make);
    } else {
        static int variable = made();
        (void)variable;
    }
}

static void done_once() {
    std::atomic<int> begun{0};
    std::thread maker([&] {
        begun = 1;
        once();
        _mm_sfence();
    });
    std::thread user([&] {
        while (!begun) sched_yield();
        once();
        use();
    });
    maker.join();
    user.join();
}

/* ---- others */

static void promised() {
    std::promise<int> promise;
    auto future = promise.get_future();
    std::thread maker([&] {
        make();
        promise.set_value(1);
        _mm_sfence();
    });
    future.get();
    use();
    maker.join();
}

static void forked() {
    pid_t child = fork();
    if (child == 0) {
        make();
        munmap(pool, BYTES);
        if (way == "fork-exit") exit(0);
        if (way == "fork-kill") raise(SIGKILL);
        _exit(0);
    }
    int status;
    char byte;
    close(ends[1]);
    if (way == "fork-pipe" ? read(ends[0], &byte, 1) != 0
        : way == "fork-wait" ? wait(&status) != child
                             : waitpid(child, nullptr, 0) != child)
        exit(4);
    use();
}

/* Both in programs of their own, one behind the other. */
static void run(const char *what) {
    char program[] = "/proc/self/exe";
    std::vector<const char *> words = {"meet", file, what};
    if (wrong) words.push_back("wrong");
    words.push_back(nullptr);
    char **given = const_cast<char **>(words.data());
    std::string command = std::string("./meet ") + file + " " + what + (wrong ? " wrong" : "");
    pid_t child = 0;
    if (way == "exec") {
        child = fork();
        if (child == 0) execv(program, given);
    } else if (way == "vfork") {
        child = vfork();
        if (child == 0) {
            execve(program, given, environ);
            _exit(1);
        }
    } else if (way == "spawn") {
        if (posix_spawn(&child, program, nullptr, nullptr, given, environ) != 0) exit(4);
    } else if (way == "popen") {
        FILE *stream = popen(command.c_str(), "r");
        if (!stream || pclose(stream) != 0) exit(4);
        return;
    } else {
        // A shell that has more to do is there until the program ends.
        if (system((command + "; exit $?").c_str()) != 0) exit(4);
        return;
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) exit(4);
}

/* A shell of which nobody hears runs one behind the other; or it becomes the other. */
static void run_script() {
    auto words = [](const char *what) {
        return std::string("./meet ") + file + " " + what + (wrong ? " wrong" : "");
    };
    std::string command = words("make") + " && " + (way == "last" ? "exec " : "") + words("use");
    if (system(command.c_str()) != 0) exit(4);
}

/* One thread and its own signal handler. */
static void handled() {
    struct sigaction action = {};
    bool used = way == "handler";
    action.sa_handler = used ? [](int) { use(); } : [](int) { make(); };
    sigaction(SIGUSR1, &action, nullptr);
    if (used) make();
    if (used ? raise(SIGUSR1) != 0 : kill(getpid(), SIGUSR1) != 0) exit(4);
    if (!used) use();
}

#ifdef _OPENMP
static void parallel() {
    if (way == "omp-loop") {
#pragma omp parallel for num_threads(2)
        for (int i = 0; i < 2; i++)
            if (i == 1) make();
        use();
    } else if (way == "omp-barrier") {
#pragma omp parallel num_threads(2)
        {
#pragma omp for schedule(static, 1)
            for (int i = 0; i < 2; i++)
                if (i == 1) make();
#pragma omp master
            use();
        }
    } else {
        std::atomic<int> done{0};
#pragma omp parallel num_threads(2)
        {
#pragma omp master
            {
#pragma omp task
                {
                    make();
                    done.store(1, std::memory_order_relaxed);
                }
                while (!done.load(std::memory_order_relaxed)) sched_yield();
#pragma omp taskwait
                use();
            }
        }
    }
}
#endif

int main(int count, char **words) {
    if (count > 2 && std::string(words[1]) == "--recover") {
        pool = map(words[2], O_RDWR);
        if (pool[FLAG] && pool[DATA] != 7) {
            puts("the flag is set and there are no data");
            return 1;
        }
        return 0;
    }
    if (count < 3) return 2;
    way = words[2];
    wrong = count > 3;
    file = words[1];
    pool = map(file, O_RDWR | O_CREAT);
    ready = reinterpret_cast<std::atomic<uint64_t> *>(pool + READY);
    sem_init(&semaphore, 0, 0);
    pthread_barrier_init(&barrier, nullptr, 2);
    counter = eventfd(0, 0);
    if (way == "socket" ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 : pipe(ends) != 0) return 3;
    if (way.find("once") != std::string::npos || way == "static") {
        done_once();
    } else if (way == "promise") {
        promised();
    } else if (way == "apart") {
        apart();
    } else if (way.find("fork") == 0) {
        forked();
    } else if (way == "exec" || way == "vfork" || way == "spawn" || way == "popen" || way == "system") {
        run("make");
        run("use");
    } else if (way == "script" || way == "last") {
        run_script();
    } else if (way == "handler" || way == "handled") {
        handled();
    } else if (way == "make") {
        make();
    } else if (way == "use") {
        use();
#ifdef _OPENMP
    } else if (way.find("omp") == 0) {
        parallel();
#endif
    } else {
        two_threads();
    }
    return 0;
}
