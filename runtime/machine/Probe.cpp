// Takes: the machine. Gives: its limits, measured the way the kernels will use it (same pool, same threads).
//
// Twelve independent accumulators keep two ports with a latency of four or five busy. Functions carry their own
// target attribute, so the file is compiled for any x86-64 and asks cpuid before it calls them. The empty asm
// statements keep the compiler from seeing through.
#include "runtime/machine/Probe.h"

#include "runtime/machine/CpuFeatures.h"
#include "runtime/machine/Memory.h"
#include "runtime/machine/Terminal.h"
#include "runtime/machine/ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quern::runtime {

namespace {

/// Of several short tries the best: other work on the machine only ever lowers a rate.
double bestRate(int tries, const std::function<double()> &rate) {
  double best = 0;
  for (int i = 0; i < tries; ++i)
    best = std::max(best, rate());
  return best;
}

#if defined(__x86_64__)
// The accumulators are named one by one: an array would be indexed in memory by some compilers at -O2.
#define QUERN_TWELVE(DO, ...)                                                                                          \
  DO(0, __VA_ARGS__)                                                                                                   \
  DO(1, __VA_ARGS__)                                                                                                   \
  DO(2, __VA_ARGS__)                                                                                                   \
  DO(3, __VA_ARGS__)                                                                                                   \
  DO(4, __VA_ARGS__)                                                                                                   \
  DO(5, __VA_ARGS__)                                                                                                   \
  DO(6, __VA_ARGS__) DO(7, __VA_ARGS__) DO(8, __VA_ARGS__) DO(9, __VA_ARGS__) DO(10, __VA_ARGS__) DO(11, __VA_ARGS__)
#define QUERN_FIRST(i, FIRST) auto a##i = FIRST;
#define QUERN_NEXT(i, PRODUCT, X, Y, REGISTER)                                                                         \
  a##i = PRODUCT(a##i, X, Y);                                                                                          \
  __asm__ volatile("" : REGISTER(a##i));
// A function that makes PRODUCT of what twelve accumulators hold, X and Y; REGISTER: where the compiler keeps them.
#define QUERN_MULTIPLY(NAME, TARGET, PRODUCT, FIRST, X, Y, REGISTER)                                                   \
  [[gnu::target(TARGET)]] void NAME(long rounds) {                                                                     \
    auto x = X, y = Y;                                                                                                 \
    QUERN_TWELVE(QUERN_FIRST, FIRST)                                                                                   \
    for (long r = 0; r < rounds; ++r) {                                                                                \
      QUERN_TWELVE(QUERN_NEXT, PRODUCT, x, y, REGISTER)                                                                \
    }                                                                                                                  \
  }

__m128 multiplyAddSse(__m128 a, __m128 x, __m128 y) {
  return _mm_add_ps(_mm_mul_ps(a, x), y);
}

QUERN_MULTIPLY(multiplySse, "sse2", multiplyAddSse, y, _mm_set1_ps(0.999f), _mm_set1_ps(1e-3f), "+x")
QUERN_MULTIPLY(multiplyAvx2, "avx2,fma", _mm256_fmadd_ps, y, _mm256_set1_ps(0.999f), _mm256_set1_ps(1e-3f), "+x")
QUERN_MULTIPLY(multiplyAvx512, "avx512f", _mm512_fmadd_ps, y, _mm512_set1_ps(0.999f), _mm512_set1_ps(1e-3f), "+v")
QUERN_MULTIPLY(multiplyBytesAvx2, "avxvnni", _mm256_dpbusd_avx_epi32, x, _mm256_set1_epi32(3), x, "+x")
QUERN_MULTIPLY(multiplyBytesAvx512, "avx512vnni", _mm512_dpbusd_epi32, x, _mm512_set1_epi32(3), x, "+v")
QUERN_MULTIPLY(multiplyPairs, "avx512bf16", _mm512_dpbf16_ps, (__m512)x, (__m512bh)_mm512_set1_ps(0.5f), x, "+v")
#undef QUERN_MULTIPLY
#undef QUERN_NEXT
#undef QUERN_FIRST
#undef QUERN_TWELVE

/// Sixteen rows and sixteen columns of four bytes in each of eight registers.
struct [[gnu::aligned(64)]] TileShapes {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static constexpr double flopsOfTiles = 4 * 16 * 16 * 16 * 2; // of words: two products of bf16 each, or four of bytes

// Four sums hide a product's latency. Registers are part of the instructions, so the two are written out.
#define QUERN_MULTIPLY_TILES(NAME, PRODUCT)                                                                            \
  [[gnu::target("amx-tile,amx-bf16,amx-int8")]] void NAME(long rounds) {                                               \
    static constexpr TileShapes shapes;                                                                                \
    _tile_loadconfig(&shapes);                                                                                         \
    _tile_zero(0);                                                                                                     \
    _tile_zero(1);                                                                                                     \
    _tile_zero(2);                                                                                                     \
    _tile_zero(3);                                                                                                     \
    _tile_zero(4);                                                                                                     \
    _tile_zero(5);                                                                                                     \
    _tile_zero(6);                                                                                                     \
    _tile_zero(7);                                                                                                     \
    for (long r = 0; r < rounds; ++r) {                                                                                \
      PRODUCT(0, 4, 6);                                                                                                \
      PRODUCT(1, 4, 7);                                                                                                \
      PRODUCT(2, 5, 6);                                                                                                \
      PRODUCT(3, 5, 7);                                                                                                \
      __asm__ volatile("");                                                                                            \
    }                                                                                                                  \
    _tile_release();                                                                                                   \
  }
QUERN_MULTIPLY_TILES(multiplyTilesOfBF16, _tile_dpbf16ps)
QUERN_MULTIPLY_TILES(multiplyTilesOfBytes, _tile_dpbssd)
#undef QUERN_MULTIPLY_TILES

// One stream of memory, or several beside each other with lines asked for ahead: which is faster depends on the core. Read is
// what all of it has in common, or'ed.
static constexpr int severalStreams = 4, aheadOfStream = 512;

#define QUERN_READ(NAME, TARGET, VECTOR, ZERO, OR)                                                                     \
  template <int streams> TARGET void NAME(const uint8_t *from, size_t bytes) {                                         \
    static constexpr size_t step = 256, line = 64;                                                                     \
    const size_t part = bytes / streams;                                                                               \
    VECTOR sum = ZERO();                                                                                               \
    for (size_t i = 0; i + step <= part; i += step)                                                                    \
      for (int s = 0; s < streams; ++s) {                                                                              \
        const uint8_t *at = from + size_t(s) * part + i;                                                               \
        if (streams > 1)                                                                                               \
          for (size_t k = 0; k < step; k += line)                                                                      \
            __builtin_prefetch(at + aheadOfStream + k);                                                                \
        for (size_t k = 0; k < step; k += sizeof(VECTOR))                                                              \
          sum = OR(sum, *reinterpret_cast<const VECTOR *>(at + k));                                                    \
      }                                                                                                                \
    __asm__ volatile("" : : "v"(sum));                                                                                 \
  }
QUERN_READ(readAvx512, [[gnu::target("avx512f")]], __m512i, _mm512_setzero_si512, _mm512_or_si512)
QUERN_READ(readAvx2, [[gnu::target("avx2")]], __m256i, _mm256_setzero_si256, _mm256_or_si256)
QUERN_READ(readSse, , __m128i, _mm_setzero_si128, _mm_or_si128)
#undef QUERN_READ

struct Level {
  const char *name;
  void (*multiply)(long);
  void (*read[2])(const uint8_t *, size_t);
  double flopsPerRound;
};

const Level &level(int mostFloats = 16) {
  static const Level levels[] = {{"AVX-512", multiplyAvx512, {readAvx512<1>, readAvx512<severalStreams>}, 12 * 16 * 2},
                                 {"AVX2", multiplyAvx2, {readAvx2<1>, readAvx2<severalStreams>}, 12 * 8 * 2},
                                 {"SSE2", multiplySse, {readSse<1>, readSse<severalStreams>}, 12 * 4 * 2}};
  if (mostFloats >= 16 && hasCpuFeature("avx512f"))
    return levels[0];
  return mostFloats >= 8 && hasCpuFeature("avx2") && hasCpuFeature("fma") ? levels[1] : levels[2];
}
#endif

} // namespace

std::string vectorName() {
  return level().name;
}

double measureFlops(Multiplied what, int mostFloats) {
  const Level &widest = level(mostFloats);
  auto multiply = widest.multiply;
  double each = widest.flopsPerRound;
  if (what.tiles && hasCpuFeature("amx_bf16") && hasCpuFeature("amx_int8"))
    multiply = what.bytes ? multiplyTilesOfBytes : multiplyTilesOfBF16, each = flopsOfTiles * (what.bytes ? 4 : 2);
  else if (what.bytes && mostFloats >= 16 && hasCpuFeature("avx512vnni"))
    multiply = multiplyBytesAvx512, each = 12 * 64 * 2;
  else if (what.bytes && hasCpuFeature("avxvnni"))
    multiply = multiplyBytesAvx2, each = 12 * 32 * 2;
  else if (what.pairs && hasCpuFeature("avx512_bf16"))
    multiply = multiplyPairs, each = 12 * 32 * 2;
  ThreadPool &pool = ThreadPool::instance();
  auto run = [&](long rounds) {
    double begin = now();
    pool.forEach(pool.threads(), [&](int) { multiply(rounds); });
    return now() - begin;
  };
  long rounds = 100'000;
  run(rounds); // wakes the threads and the wide units
  rounds = std::max(1L, long(double(rounds) * 0.005 / run(rounds)));
  return bestRate(40, [&] { return double(pool.threads()) * double(rounds) * each / run(rounds); });
}

// Small pieces in order: both threads walk through neighbouring memory, as a kernel's rows do, and none waits for the
// other at the end.
static constexpr size_t piece = size_t(1) << 20;

struct BandwidthProbe::Memory {
  Buffer buffer;
};

BandwidthProbe::BandwidthProbe(uint64_t most) : memory(new Memory) {
  size_t bytes = size_t(std::min<uint64_t>({most, largest, availableMemory() / 4})) / piece * piece;
  memory->buffer.reset(std::max<size_t>(bytes, 4 * piece));
  ThreadPool &pool = ThreadPool::instance();
  size_t part = memory->buffer.size() / size_t(pool.threads());
  pool.forEach(pool.threads(), [&](int i) { std::memset(memory->buffer.data() + size_t(i) * part, 1, part); });
}

BandwidthProbe::~BandwidthProbe() {
  delete memory;
}

/// Bytes a second of one pass over so many pieces, one way or the other.
double BandwidthProbe::read(int from, int pieces, int way) {
  ThreadPool &pool = ThreadPool::instance();
  double begin = now();
  pool.forEach(pieces, [&](int i) { level().read[way](memory->buffer.data() + size_t(from + i) * piece, piece); });
  return double(pieces) * double(piece) / (now() - begin);
}

double BandwidthProbe::measure() {
  int pieces = int(memory->buffer.size() / piece), tries = 0;
  read(0, pieces, 0);
  return bestRate(10, [&] { return read(0, pieces, tries++ % 2); });
}

double BandwidthProbe::measureBriefly() {
  // A quarter at a time, each time the next one, so that what a cache still has is what it would have of a step's weights.
  int pieces = int(memory->buffer.size() / piece), quarter = std::max(1, pieces / 4), tries = 0;
  return bestRate(6, [&] {
    double rate = read(next, quarter, tries++ % 2);
    next = next + 2 * quarter <= pieces ? next + quarter : 0;
    return rate;
  });
}

} // namespace quern::runtime
