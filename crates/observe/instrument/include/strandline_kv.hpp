/*
 * strandline_kv.h for C++17: a store that closes with its scope, keys and values as strings. Errors are
 * exceptions (strandline::error). Header only.
 *
 *     auto books = strandline::kv::open("/mnt/pmem/books");
 *     books.put("dune", "1965");
 *     books.sync();
 *     if (auto year = books.get("dune"))
 *         std::cout << *year << '\n';
 *     books.scan("d", [](std::string_view key, std::string_view) { return key < "e"; });
 *
 * docs/man/kv.md has the rest.
 */
#ifndef STRANDLINE_KV_HPP
#define STRANDLINE_KV_HPP

#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "strandline.hpp"
#include "strandline_kv.h"

namespace strandline {

/* Changes that kv::write makes together, all or none. A later one of the same key replaces an earlier one. */
class kv_batch {
  public:
    kv_batch() : batch_(sl_kv_batch_new())
    {
        if (!batch_)
            throw error();
    }

    kv_batch &put(std::string_view key, std::string_view value)
    {
        check(sl_kv_batch_put(batch_.get(), key.data(), key.size(), value.data(), value.size()));
        return *this;
    }

    kv_batch &erase(std::string_view key)
    {
        check(sl_kv_batch_delete(batch_.get(), key.data(), key.size()));
        return *this;
    }

    /* For what is not here. */
    sl_kv_batch *c() const { return batch_.get(); }

  private:
    static void check(int status)
    {
        if (status)
            throw error(status);
    }

    struct release {
        void operator()(sl_kv_batch *batch) const { sl_kv_batch_free(batch); }
    };
    std::unique_ptr<sl_kv_batch, release> batch_;
};

/* An open store, for any number of threads; closed with its scope. */
class kv {
  public:
    /* Opens the store in a file, after recovery if that is needed, or makes one where no file is. */
    static kv open(const std::string &path, const sl_kv_options *options = nullptr)
    {
        sl_kv *opened = sl_kv_open(path.c_str(), options);
        if (!opened)
            throw error();
        return kv(opened);
    }

    kv(kv &&other) noexcept : kv_(std::exchange(other.kv_, nullptr)) {}
    kv &operator=(kv &&other) noexcept
    {
        std::swap(kv_, other.kv_);
        return *this;
    }
    /* What goes wrong here, nobody hears: close() says it. */
    ~kv()
    {
        if (kv_)
            sl_kv_close(kv_);
    }

    /* Makes everything durable and closes the store, before its scope ends. */
    void close() { check(sl_kv_close(std::exchange(kv_, nullptr))); }

    /* For what is not here. */
    sl_kv *c() const { return kv_; }

    /* Sets a value. The ticket of the change, to wait for until it is durable; 0 if it is so already. */
    std::uint64_t put(std::string_view key, std::string_view value)
    {
        check(sl_kv_put(kv_, key.data(), key.size(), value.data(), value.size()));
        return sl_kv_ticket();
    }

    /* The value of a key, if it has one. */
    std::optional<std::string> get(std::string_view key) const
    {
        void *value = nullptr;
        std::size_t bytes = 0;
        if (!found(sl_kv_get(kv_, key.data(), key.size(), &value, &bytes)))
            return std::nullopt;
        const std::unique_ptr<void, void (*)(void *)> freed(value, std::free);
        return std::string(static_cast<const char *>(value), bytes);
    }

    /* Takes a key out; whether it was there. */
    bool erase(std::string_view key) { return found(sl_kv_delete(kv_, key.data(), key.size())); }

    /* Makes the changes of a batch, all or none; their ticket. */
    std::uint64_t write(const kv_batch &batch)
    {
        check(sl_kv_write(kv_, batch.c()));
        return sl_kv_ticket();
    }

    /* Calls visit(key, value) for each key from `from` on, in the order of their bytes, until it returns
     * false. Both are valid during the call. What it throws ends the scan. */
    template <typename Visit> void scan(std::string_view from, Visit &&visit) const
    {
        struct call {
            std::remove_reference_t<Visit> &visit;
            std::exception_ptr thrown;
        } call = {visit, nullptr};
        const auto step = [](void *argument, const void *key, std::size_t key_bytes, const void *value,
                             std::size_t value_bytes) -> int {
            auto *self = static_cast<struct call *>(argument);
            try {
                return !self->visit(std::string_view(static_cast<const char *>(key), key_bytes),
                                    std::string_view(static_cast<const char *>(value), value_bytes));
            } catch (...) {
                self->thrown = std::current_exception();
                return 1;
            }
        };
        check(sl_kv_scan(kv_, from.data(), from.size(), step, &call));
        if (call.thrown)
            std::rethrow_exception(call.thrown);
    }

    /* Waits until the change with that ticket, and all before it, are durable; or all that returned. */
    void wait(std::uint64_t ticket) { check(sl_kv_wait(kv_, ticket)); }
    void sync() { check(sl_kv_sync(kv_)); }

    /* Keys that there are. */
    std::uint64_t size() const { return sl_kv_count(kv_); }

  private:
    explicit kv(sl_kv *opened) : kv_(opened) {}

    static void check(int status)
    {
        if (status)
            throw error(status);
    }

    static bool found(int status)
    {
        if (status != SL_KV_ABSENT)
            check(status);
        return status == 0;
    }

    sl_kv *kv_;
};

} // namespace strandline
#endif
