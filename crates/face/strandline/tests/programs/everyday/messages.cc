// Fault: overwritten-unread. A message's bytes are zeroed by resize and then written; mended, appended.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>
static unsigned add(const std::vector<char> &message) {
    unsigned sum = 0;
    for (size_t at = 0; at < message.size(); at += 64)
        sum = sum * 33 + message[at];
    return sum;
}
int main() {
    std::string body(60000, 'x');
    std::vector<char> message;
    unsigned sum = 0;
    message.reserve(1 << 16);
    for (int i = 0; i < 200; i++) {
        message.clear();
#ifdef MENDED
        message.insert(message.end(), body.begin(), body.end());
#else
        message.resize(body.size());
        std::memset(message.data(), 0, message.size());
        std::memcpy(message.data(), body.data(), body.size());
#endif
        sum += add(message);
    }
    std::printf("%u\n", sum);
}
