/*
 * High scores: who has how many points, and the order by points, in a key-value store.
 *
 *   scores add STORE PLAYER POINTS     adds points, and prints the player's sum
 *   scores top STORE [COUNT]           the best, best first
 */
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "strandline_kv.hpp"

namespace {

using strandline::kv;

/* A key that sorts by points, most first. */
std::string place(unsigned long points, const std::string &player)
{
    char order[32];
    std::snprintf(order, sizeof order, "by %019lu ", 9'999'999'999'999'999'999ul - points);
    return order + player;
}

unsigned long points_of(const kv &store, const std::string &player)
{
    const auto found = store.get("of " + player);
    return found ? std::stoul(*found) : 0;
}

unsigned long add(kv &store, const std::string &player, unsigned long more)
{
    const unsigned long before = points_of(store, player), now = before + more;
    strandline::kv_batch changes;
    if (before)
        changes.erase(place(before, player));
    changes.put("of " + player, std::to_string(now)).put(place(now, player), std::to_string(now));
    store.wait(store.write(changes));
    return now;
}

void top(const kv &store, int count)
{
    store.scan("by ", [&](std::string_view key, std::string_view points) {
        if (key.substr(0, 3) != "by " || count-- == 0)
            return false;
        std::cout << key.substr(23) << ' ' << points << '\n';
        return true;
    });
}

} // namespace

int main(int argc, char **argv)
try {
    const std::string verb = argc > 2 ? argv[1] : "";
    if (verb == "add" && argc == 5) {
        kv store = kv::open(argv[2]);
        std::cout << add(store, argv[3], std::stoul(argv[4])) << '\n';
        store.close();
    } else if (verb == "top") {
        top(kv::open(argv[2]), argc > 3 ? std::atoi(argv[3]) : 10);
    } else {
        std::cerr << "usage: scores add STORE PLAYER POINTS, scores top STORE [COUNT]\n";
        return 2;
    }
    return 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 2;
}
