// Fault: pointer-chase. With -DMENDED it is mended; ROUNDS says how long it runs.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>
#ifndef ROUNDS
#define ROUNDS 40000
#endif
// A std::map that is built once and then only searched; mended, a sorted vector.
int main() {
    std::uint64_t state = 1, sum = 0;
    auto random = [&state] {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        return state >> 33;
    };
    std::vector<std::uint64_t> keys;
    for (int i = 0; i < 1 << 17; i++) keys.push_back(random());
#ifdef MENDED
    std::vector<std::pair<std::uint64_t, std::uint64_t>> map;
    for (auto key : keys) map.emplace_back(key, key);
    std::sort(map.begin(), map.end());
#else
    std::map<std::uint64_t, std::uint64_t> map;
    for (auto key : keys) map[key] = key;
#endif
    for (int round = 0; round < ROUNDS; round++) {
        std::uint64_t key = keys[random() % keys.size()];
#ifdef MENDED
        auto found = std::lower_bound(map.begin(), map.end(), std::pair<std::uint64_t, std::uint64_t>(key, 0));
#else
        auto found = map.find(key);
#endif
        if (found != map.end()) sum += found->second;
    }
    std::printf("%llu\n", (unsigned long long)sum);
}
