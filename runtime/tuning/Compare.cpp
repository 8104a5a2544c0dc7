// Takes: a launch's arguments. Gives: how far the results of two versions are from each other.
// Why at the launch: both see what the program gives them, layouts and places of results included.
#include "runtime/tuning/Compare.h"

#include "runtime/abi/Versions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace quern::runtime {

static Comparison *current = nullptr;

Comparison::Comparison(int right, int other) : right(right), other(other) {
  current = this;
}

Comparison::~Comparison() {
  current = nullptr;
}

namespace {

/// halide_dimension_t and halide_buffer_t (HalideRuntime.h), as far as they are read here.
struct Dimension {
  int32_t min, extent, stride;
  uint32_t flags;
};
struct HalideBuffer {
  uint64_t device;
  const void *interface;
  uint8_t *host;
  uint64_t flags;
  uint8_t code, bits; // 0 int, 1 uint, 2 float
  uint16_t lanes;
  int32_t dimensions;
  const Dimension *dim;
};

/// From the first to the last byte of a buffer's elements; strides are not negative.
struct Span {
  uint8_t *begin;
  size_t bytes;
  explicit Span(const HalideBuffer &buffer) : begin(buffer.host) {
    size_t last = 0;
    for (int32_t d = 0; d < buffer.dimensions; ++d) {
      if (buffer.dim[d].extent <= 0) {
        bytes = 0;
        return;
      }
      last += size_t(buffer.dim[d].extent - 1) * size_t(buffer.dim[d].stride);
    }
    bytes = (last + 1) * (buffer.bits / 8);
  }
  bool overlaps(const Span &span) const { return begin < span.begin + span.bytes && span.begin < begin + bytes; }
};

/// `visit(byte of an element within the span)`
template <class Visit> void forEachElement(const HalideBuffer &buffer, Visit visit) {
  if (!Span(buffer).bytes)
    return;
  std::vector<int32_t> at(size_t(buffer.dimensions), 0);
  for (;;) {
    size_t offset = 0;
    for (size_t d = 0; d < at.size(); ++d)
      offset += size_t(at[d]) * size_t(buffer.dim[d].stride);
    visit(offset * (buffer.bits / 8));
    size_t d = 0;
    while (d < at.size() && ++at[d] == buffer.dim[d].extent)
      at[d++] = 0;
    if (d == at.size())
      return;
  }
}

double numberAt(const HalideBuffer &buffer, const uint8_t *at) {
  if (buffer.code == 2) {
    float number;
    std::memcpy(&number, at, 4);
    return double(number);
  }
  if (buffer.bits == 16) { // bf16
    uint32_t wide = 0;
    std::memcpy(reinterpret_cast<uint8_t *>(&wide) + 2, at, 2);
    float number;
    std::memcpy(&number, &wide, 4);
    return double(number);
  }
  if (buffer.bits == 8)
    return double(*at);
  int32_t number;
  std::memcpy(&number, at, 4);
  return double(number);
}

double differenceOf(const HalideBuffer &buffer, const uint8_t *right, const uint8_t *other) {
  bool exact = buffer.code != 2 && buffer.bits != 16;
  double most = 0, largest = 0;
  forEachElement(buffer, [&](size_t at) {
    double a = numberAt(buffer, right + at), b = numberAt(buffer, other + at);
    if (std::isfinite(a))
      largest = std::max(largest, std::abs(a));
    if (a == b || (std::isnan(a) && std::isnan(b)))
      return;
    double distance = std::abs(a - b);
    most = exact || std::isnan(distance) ? std::numeric_limits<double>::infinity() : std::max(most, distance);
  });
  return most == 0 ? 0 : largest == 0 ? std::numeric_limits<double>::infinity() : most / largest;
}

} // namespace

/// What `quern_compare_versions` may do with a comparison. Its memory outlives a launch: a kernel that fails leaves by
/// longjmp.
struct Comparing {
  static inline std::vector<std::vector<uint8_t>> before, results;

  static int32_t run(const quern_versions_of &kernel, void **arguments) {
    Comparison &comparison = *current;
    auto buffer = [&](int number) -> const HalideBuffer & {
      return *static_cast<const HalideBuffer *>(arguments[kernel.lengths + number]);
    };
    ++comparison.launches;
    before.clear();
    results.clear();
    for (int i = 0; i < kernel.results; ++i) {
      Span span(buffer(kernel.inputs + i));
      before.emplace_back(span.begin, span.begin + span.bytes);
    }
    int32_t status = kernel.calls[comparison.right](arguments);
    for (int i = 0; i < kernel.results; ++i) {
      const HalideBuffer &result = buffer(kernel.inputs + i);
      Span span(result);
      results.emplace_back(span.begin, span.begin + span.bytes);
      // A result may lie over an argument. Where it does not, what is left from the first run must not look right.
      std::memcpy(span.begin, before[size_t(i)].data(), span.bytes);
      bool shared = false;
      for (int k = 0; k < kernel.inputs + kernel.results; ++k)
        shared = shared || (k != kernel.inputs + i && span.overlaps(Span(buffer(k))));
      if (!shared)
        forEachElement(result, [&](size_t at) { std::memset(span.begin + at, 0xff, result.bits / 8); });
    }
    status |= kernel.calls[comparison.other](arguments);
    for (int i = 0; i < kernel.results; ++i) {
      const HalideBuffer &result = buffer(kernel.inputs + i);
      Span span(result);
      comparison.difference =
          std::max(comparison.difference, differenceOf(result, results[size_t(i)].data(), span.begin));
      std::memcpy(span.begin, results[size_t(i)].data(), span.bytes);
    }
    return status;
  }
};

} // namespace quern::runtime

int32_t quern_compare_versions(int32_t kernel, void **arguments) {
  return quern::runtime::Comparing::run(quern_versions.kernels[kernel], arguments);
}
