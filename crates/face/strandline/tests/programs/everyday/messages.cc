// Fault: overwritten-unread. A message's bytes are zeroed by resize and then written; mended, appended.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>
static unsigned add(const std::vector<char> &message) {
    unsigned sum = 0;
    for (char byte : message)
        sum = sum * 33 + byte;
    return sum;
}
int main() {
    std::string body(2000, 'x');
    std::vector<char> message;
    unsigned sum = 0;
    message.reserve(4096);
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
