// Fault: straddled-lines. An open-addressing table of 40-byte entries; mended, of 64.
#include <cstdint>
#include <cstdio>
#include <vector>
struct Entry {
    uint64_t key = 0, stamp = 0, owner = 0, flags = 0, value = 0;
#ifdef MENDED
    uint64_t pad[3];
#endif
};
struct Table {
    std::vector<Entry> entries = std::vector<Entry>(1 << 17);
    Entry &slot(uint64_t key) {
        uint64_t at = key * 0x9e3779b97f4a7c15ull >> 47;
        while (entries[at].key != 0 && entries[at].key != key)
            at = (at + 1) % entries.size();
        return entries[at];
    }
};
int main() {
    Table table;
    uint64_t state = 1, sum = 0;
    for (uint64_t key = 1; key <= 40000; key++) {
        Entry &entry = table.slot(key);
        entry.key = key;
        entry.value = key * 5;
    }
    for (int i = 0; i < 60000; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        sum += table.slot(1 + (state >> 33) % 40000).value;
    }
    std::printf("%llu\n", (unsigned long long)sum);
}
