/*
 * An Eigen-like tensor loop, after the vectorised executor of Eigen's unsupported Tensor module as TensorFlow uses it.
 *
 * One template evaluates every expression: packets of four floats, unrolled four times, so that a turn writes one cache
 * line. Training a step adds up big activations, which nobody looks at for a long time, and very many small tensors, in
 * which each packet adds to one that was just written (a running sum along the first dimension). Both go through the
 * same machine code: what it does to memory depends on the tensors, not on the source.
 */
#include <vector>

#include "common.h"

namespace {

typedef float Packet __attribute__((vector_size(16), may_alias));
enum { PacketSize = 4 };

struct scalar_sum_op {
    float operator()(float a, float b) const { return a + b; }
    Packet packetOp(Packet a, Packet b) const { return a + b; }
};

struct scalar_product_op {
    float operator()(float a, float b) const { return a * b; }
    Packet packetOp(Packet a, Packet b) const { return a * b; }
};

Packet pload(const float *from)
{
    return *reinterpret_cast<const Packet *>(from);
}

/* to = op(left, right), element by element. `left` may be a part of `to` that lies before it. */
template <typename Op> class TensorEvaluator {
public:
    TensorEvaluator(float *to, const float *left, const float *right) : to_(to), left_(left), right_(right) {}

    float *data() const { return to_; }

    void evalScalar(long i) { to_[i] = op_(left_[i], right_[i]); }

    void evalPacket(long i)
    {
        const Packet value = op_.packetOp(pload(left_ + i), pload(right_ + i));
#if defined(SKIP) && SL_X86_64
        _mm_stream_ps(to_ + i, reinterpret_cast<__m128>(value));
#elif defined(SKIP)
        sl_copy_skip(to_ + i, &value, sizeof value);
#else
        *reinterpret_cast<Packet *>(to_ + i) = value;
#endif
    }

    __attribute__((noinline)) void run(long first, long last)
    {
        long i = first;
        if (last - first >= PacketSize) {
            long last_chunk_offset = last - 4 * PacketSize;
            for (; i <= last_chunk_offset; i += 4 * PacketSize) {
                evalPacket(i + 0 * PacketSize);
                evalPacket(i + 1 * PacketSize);
                evalPacket(i + 2 * PacketSize);
                evalPacket(i + 3 * PacketSize);
#if defined(CLEAN)
                sl_prestore(&data()[i], 64, SL_CLEAN);
#endif
            }
            last_chunk_offset = last - PacketSize;
            for (; i <= last_chunk_offset; i += PacketSize)
                evalPacket(i);
        }
        for (; i < last; i++)
            evalScalar(i);
    }

private:
    float *to_;
    const float *left_, *right_;
    Op op_;
};

template <typename Op> void evaluate(void *context, long low, long high, int)
{
    static_cast<TensorEvaluator<Op> *>(context)->run(low, high);
}

/* Whole cache lines per thread, as Eigen's block size is aligned. */
template <typename Op> void evaluate_lines(void *context, long low, long high, int)
{
    static_cast<TensorEvaluator<Op> *>(context)->run(16 * low, 16 * high);
}

enum { Row = 16, Small = 60 }; /* 240 bytes behind the row that the sums start from */

float *tensor(size_t floats)
{
    return static_cast<float *>(allocate(floats * sizeof(float)));
}

void fill(float *to, size_t floats, uint64_t *random)
{
    uint64_t state = *random;
    for (size_t i = 0; i < floats; i++)
        to[i] = static_cast<float>(next_random(&state) >> 40) / 16777216.0f;
    *random = state;
}

/* Two floats at a time. */
uint64_t add_up(const float *from, size_t floats)
{
    typedef uint64_t __attribute__((may_alias)) Pair;
    const Pair *pairs = reinterpret_cast<const Pair *>(from);
    uint64_t sum = 0;
    for (size_t i = 0; i < floats / 2; i++)
        sum += mix(pairs[i] + i);
    return sum;
}

/* One training step: the activations' sum and product, and a running sum for each of `count` small tensors. */
void step(const struct options &options, float *activation, float *gradient, float *sum, float *product,
          const std::vector<float *> &small, const float *input)
{
    const long lines = static_cast<long>(options.size / 64);
    const int threads = static_cast<int>(options.threads);
    TensorEvaluator<scalar_sum_op> add(sum, activation, gradient);
    parallel(threads, 0, lines, evaluate_lines<scalar_sum_op>, &add);
    for (size_t i = 0; i < small.size(); i++) {
        TensorEvaluator<scalar_sum_op> running(small[i] + Row, small[i], input + 4 * (i % 1024));
        evaluate<scalar_sum_op>(&running, 0, Small, 0);
    }
    TensorEvaluator<scalar_product_op> scale(product, activation, sum);
    parallel(threads, 0, lines, evaluate_lines<scalar_product_op>, &scale);
}

} /* namespace */

int main(int argc, char **argv)
{
    struct options options = {1, 16 << 20, 1, 1, 0, 0};
    parse_options(argc, argv, &options, "training steps", "bytes of a big tensor, a multiple of 64");
    require(options.size % 64 == 0, "-s must be a multiple of 64");
    const size_t floats = options.size / sizeof(float);
    uint64_t random = options.seed;

    sl_phase("load");
    float *activation = tensor(floats), *gradient = tensor(floats), *sum = tensor(floats), *product = tensor(floats);
    fill(activation, floats, &random);
    fill(gradient, floats, &random);
    /* Ever new rows of the small tensors' input; packets of it lie at any multiple of 16 bytes. */
    float *input = tensor(4 * 1024 + Small);
    fill(input, 4 * 1024 + Small, &random);
    const size_t count = options.size / 64;

    double elapsed = 0;
    uint64_t total = 0;
    for (uint64_t n = 0; n < options.n; n++) {
        /* Each step has small tensors of its own, as a framework allocates an operation's output when it runs. */
        std::vector<float *> small(count);
        for (float *&one : small) {
            one = tensor(Row + Small);
            fill(one, Row, &random);
        }
        sl_phase("run");
        const double start = seconds();
        step(options, activation, gradient, sum, product, small, input);
        elapsed += seconds() - start;
        sl_phase("check");
        total += add_up(sum, floats) + 3 * add_up(product, floats);
        for (size_t i = 0; i < count; i++) {
            total += mix(add_up(small[i], Row + Small) + i);
            free(small[i]);
        }
        std::swap(gradient, product);
    }
    report("eigen", total, elapsed);
    free(activation), free(gradient), free(sum), free(product), free(input);
    return 0;
}
