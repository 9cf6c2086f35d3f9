// Fault: pointer-chase. Prices by article in a std::map that is only looked up; mended, in a sorted vector.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>
int main() {
    const int articles = 60000, lookups = 20000;
#ifdef MENDED
    std::vector<std::pair<uint32_t, double>> prices;
    for (int i = 0; i < articles; i++)
        prices.emplace_back(uint32_t(i) * 2654435761u, i * 0.5);
    std::sort(prices.begin(), prices.end());
    auto price = [&](uint32_t key) {
        return std::lower_bound(prices.begin(), prices.end(), std::make_pair(key, 0.0))->second;
    };
#else
    std::map<uint32_t, double> prices;
    for (int i = 0; i < articles; i++)
        prices[uint32_t(i) * 2654435761u] = i * 0.5;
    auto price = [&](uint32_t key) { return prices.find(key)->second; };
#endif
    double sum = 0;
    uint64_t state = 1;
    for (int i = 0; i < lookups; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        sum += price(uint32_t((state >> 33) % articles) * 2654435761u);
    }
    std::printf("%f\n", sum);
}
