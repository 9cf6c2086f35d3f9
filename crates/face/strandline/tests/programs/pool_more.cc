// What strandline.hpp has for growing, moving and reading only. more FOLDER
#include <cstdio>
#include <cstdlib>

#include "strandline.hpp"

#define WANT(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            std::printf("line %d: not so: %s\n", __LINE__, #condition);     \
            std::exit(1);                                                   \
        }                                                                   \
    } while (0)

struct Sheet {
    std::uint64_t words[125];
};
struct Drawer {
    strandline::ref<Drawer> next;
    strandline::ref<Sheet> sheet;
};
struct Chest {
    strandline::ref<Drawer> first;
};
/* Plain bytes that nobody makes without saying which. */
struct Label {
    explicit Label(std::uint32_t number) : number(number), check(~number) {}
    const std::uint32_t number;
    std::uint32_t check;
};
struct Labels {
    strandline::ref<Label> at;
    Label own;
};

int main(int argc, char **argv)
{
    WANT(argc == 2);
    const std::string path = std::string(argv[1]) + "/more.pool";
    {
        auto pool = strandline::pool::create<Chest>(path, "chest", 1 << 17);
        pool.grow(1 << 20);
        WANT(pool.bytes() == 1 << 20);
        const auto chest = pool.root<Chest>();
        for (std::uint64_t number = 0; number < 40; number++)
            pool.region([&] {
                const auto sheet = pool.alloc(Sheet{{number}});
                pool.set(chest, &Chest::first, pool.alloc(Drawer{pool.get(chest, &Chest::first), sheet}));
            });
        int number = 40;
        for (auto at = pool.get(chest, &Chest::first); at; at = pool.get(at, &Drawer::next))
            if (--number % 4)
                pool.region([&] {
                    pool.free(pool.get(at, &Drawer::sheet));
                    pool.set(at, &Drawer::sheet, strandline::ref<Sheet>{});
                });
        const auto worth = pool.begin_moving();
        std::int64_t moved = 0;
        for (auto at = pool.get(chest, &Chest::first); at; at = pool.get(at, &Drawer::next))
            if (pool.wants_moving(pool.get(at, &Drawer::sheet))) {
                pool.region([&] {
                    const auto place = pool.move(at, &Drawer::sheet);
                    WANT(place == pool.get(at, &Drawer::sheet));
                });
                moved++;
            }
        WANT(worth > 0 && moved == worth && pool.end_moving() > 0);
        try {
            pool.end_moving();
            WANT(false);
        } catch (const strandline::error &error) {
            WANT(error.status() == SL_E_STATE);
        }
    }
    {
        auto pool = strandline::pool::create<Labels>(std::string(argv[1]) + "/labels.pool", "labels", 1 << 17);
        const auto labels = pool.root<Labels>();
        pool.region([&] { pool.set(labels, Labels{pool.alloc(Label(7)), Label(8)}); });
        const Labels found = pool.get(labels);
        WANT(found.own.number == 8 && pool.get(labels, &Labels::own).check == ~8u);
        const Label label = pool.get(found.at);
        WANT(label.number == 7 && label.check == ~7u && pool.get(found.at, &Label::number) == 7);
    }
    const sl_pool_options read_only = {nullptr, SL_READ_ONLY};
    auto pool = strandline::pool::open(path, "chest", &read_only);
    std::uint64_t number = 40;
    for (auto at = pool.get(pool.root<Chest>(), &Chest::first); at; at = pool.get(at, &Drawer::next)) {
        const auto sheet = pool.get(at, &Drawer::sheet);
        WANT(--number % 4 ? !sheet : pool.get(sheet).words[0] == number);
    }
    WANT(number == 0);
    return 0;
}
