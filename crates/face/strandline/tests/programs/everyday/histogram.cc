// Fault: against-the-rows. Column sums of an image, column by column; mended, row by row.
#include <cstdint>
#include <cstdio>
#include <vector>
struct Image {
    int width, height;
    std::vector<float> pixels;
    float at(int x, int y) const { return pixels[size_t(y) * width + x]; }
};
int main() {
    Image image{1024, 1024, std::vector<float>(1024 * 1024, 0.5f)};
    std::vector<double> sums(image.width);
#ifdef MENDED
    for (int y = 0; y < image.height; y++)
        for (int x = 0; x < image.width; x++)
            sums[x] += image.at(x, y);
#else
    for (int x = 0; x < image.width; x++)
        for (int y = 0; y < image.height; y++)
            sums[x] += image.at(x, y);
#endif
    std::printf("%f %f\n", sums[0], sums[1023]);
}
