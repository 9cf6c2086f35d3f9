/*
 * strandline_pool.h for C++17: pools and regions that end with their scope, and references with types. Errors are exceptions. Header only.
 *
 *     struct Node { std::uint64_t value; strandline::ref<Node> next; };
 *     struct Root { strandline::ref<Node> first; };
 *
 *     auto pool = strandline::pool::create<Root>("/mnt/pmem/list", "list, 1", 64 << 20);
 *     pool.region([&] {
 *         auto root = pool.root<Root>();
 *         auto node = pool.alloc(Node{7, pool.get(root, &Root::first)});
 *         pool.set(root, &Root::first, node);
 *     });
 *
 * An exception that leaves a region aborts it.
 */
#ifndef STRANDLINE_HPP
#define STRANDLINE_HPP

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "strandline_pool.h"

/* A finding names the code that called, not this file. */
#define SL_INLINE __attribute__((always_inline)) inline

namespace strandline {

/* What a call of strandline_pool.h says, and its number of enum sl_status. */
class error : public std::runtime_error {
  public:
    explicit error(int status) : std::runtime_error(sl_error()), status_(status) {}
    error() : error(sl_error_code()) {}
    int status() const { return status_; }

  private:
    int status_;
};

/* Where a T lies in a pool. */
template <typename T> struct ref {
    sl_ref at = 0;
    explicit operator bool() const { return at != 0; }
    bool operator==(ref other) const { return at == other.at; }
    bool operator!=(ref other) const { return at != other.at; }
};

/* An open pool; closed with its scope. Regions, threads and errors are as strandline_pool.h says. */
class pool {
  public:
    template <typename Root>
    static pool create(const std::string &path, const std::string &layout, std::uint64_t bytes,
                       const sl_pool_options *options = nullptr)
    {
        return pool(sl_pool_create(path.c_str(), layout.c_str(), bytes, sizeof(Root), options));
    }

    static pool open(const std::string &path, const std::string &layout, const sl_pool_options *options = nullptr)
    {
        return pool(sl_pool_open(path.c_str(), layout.c_str(), options));
    }

    pool(pool &&other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}
    pool &operator=(pool &&other) noexcept
    {
        std::swap(pool_, other.pool_);
        return *this;
    }
    ~pool()
    {
        if (pool_)
            sl_pool_close(pool_);
    }

    /* For what is not here. */
    sl_pool *c() const { return pool_; }

    template <typename Root> ref<Root> root() const { return {sl_root(pool_)}; }

    /* Runs `work` as a region, or as a part of one. What it throws aborts the region. */
    template <typename Work> SL_INLINE void region(Work &&work)
    {
        check(sl_begin(pool_));
        try {
            std::forward<Work>(work)();
        } catch (...) {
            sl_abort(pool_);
            throw;
        }
        check(sl_commit(pool_));
    }

    /* As `region`, but returns once the region is committed: the ticket to wait for until it is durable. */
    template <typename Work> SL_INLINE std::uint64_t region_async(Work &&work)
    {
        check(sl_begin(pool_));
        try {
            std::forward<Work>(work)();
        } catch (...) {
            sl_abort(pool_);
            throw;
        }
        std::uint64_t ticket;
        check(sl_commit_async(pool_, &ticket));
        return ticket;
    }

    /* Waits until the region of that ticket is durable, or all that are committed are. */
    void wait(std::uint64_t ticket) { check(sl_wait(pool_, ticket)); }
    void sync() { check(sl_sync(pool_)); }

    template <typename T> SL_INLINE T get(ref<T> from) const
    {
        static_assert(std::is_trivially_copyable<T>::value, "what lies in a pool is plain bytes");
        room<T> found;
        check(sl_read(pool_, from.at, &found.value, sizeof(T)));
        return std::move(found.value);
    }

    template <typename T> SL_INLINE void set(ref<T> to, const T &value)
    {
        static_assert(std::is_trivially_copyable<T>::value, "what lies in a pool is plain bytes");
        check(sl_write(pool_, to.at, &value, sizeof(T)));
    }

    /* Fields: pool.get(node, &Node::next). */
    template <typename T, typename F> SL_INLINE F get(ref<T> from, F T::*field) const
    {
        return get(part(from, field));
    }
    template <typename T, typename F> SL_INLINE void set(ref<T> to, F T::*field, const F &value)
    {
        set(part(to, field), value);
    }

    /* A new place for `value`. */
    template <typename T> SL_INLINE ref<T> alloc(const T &value)
    {
        const ref<T> place{sl_alloc(pool_, sizeof(T))};
        if (!place)
            throw error();
        set(place, value);
        return place;
    }

    template <typename T> SL_INLINE void free(ref<T> block) { check(sl_free(pool_, block.at)); }

    /* Makes the pool and its file longer. */
    void grow(std::uint64_t bytes) { check(sl_pool_grow(pool_, bytes)); }
    std::uint64_t bytes() const { return sl_pool_bytes(pool_); }

    /* Moving blocks together, as strandline_pool.h says it. */
    std::int64_t begin_moving() { return counted(sl_moving_begin(pool_)); }
    template <typename T> bool wants_moving(ref<T> block) const { return sl_moving_wants(pool_, block.at); }
    std::int64_t end_moving() { return counted(sl_moving_end(pool_)); }
    template <typename T> SL_INLINE ref<T> move(ref<ref<T>> cell)
    {
        const ref<T> place{sl_move(pool_, cell.at)};
        if (!place)
            throw error();
        return place;
    }
    template <typename T, typename F> SL_INLINE ref<F> move(ref<T> of, ref<F> T::*field)
    {
        return move(part(of, field));
    }

    /* All blocks that are allocated. */
    std::vector<sl_block> blocks() const
    {
        std::vector<sl_block> found;
        std::int64_t count = sl_pool_blocks(pool_, nullptr, 0);
        while (count > static_cast<std::int64_t>(found.size())) {
            found.resize(static_cast<std::size_t>(count));
            count = sl_pool_blocks(pool_, found.data(), found.size());
        }
        if (count < 0)
            throw error();
        found.resize(static_cast<std::size_t>(count));
        return found;
    }

    sl_recovered recovered() const
    {
        sl_recovered result;
        check(sl_pool_recovered(pool_, &result));
        return result;
    }

  private:
    explicit pool(sl_pool *pool) : pool_(pool)
    {
        if (!pool_)
            throw error();
    }

    static void check(int status)
    {
        if (status)
            throw error(status);
    }

    static std::int64_t counted(std::int64_t count)
    {
        if (count < 0)
            throw error();
        return count;
    }

    /* Room for a T that nobody constructs: its bytes are read. */
    template <typename T> union room {
        room() : none() {}
        char none;
        typename std::remove_const<T>::type value;
    };

    /* Where a field lies. */
    template <typename T, typename F> static ref<F> part(ref<T> of, F T::*field)
    {
        alignas(T) static const char zeros[sizeof(T)] = {};
        const T *object = reinterpret_cast<const T *>(zeros);
        const auto offset = reinterpret_cast<const char *>(&(object->*field)) - zeros;
        return {of.at + static_cast<sl_ref>(offset)};
    }

    sl_pool *pool_;
};

} /* namespace strandline */

#undef SL_INLINE
#endif
