// Takes: a launch's arguments. Gives: how far the results of two versions are from each other.
// Why at the launch: both see what the program gives them, layouts and places of results included. Results in a device's
// memory are fetched to be compared; what is put back is sent.
#include "runtime/tuning/Compare.h"

#include "runtime/abi/Versions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace quern::runtime {

static Comparison *current = nullptr;

Comparison::Comparison(Device &device, int right, int other) : device(device), right(right), other(other) {
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
  uint64_t device; ///< an address in a device's memory; of a program for the processor 0
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
  explicit Span(const HalideBuffer &buffer)
      : begin(buffer.device ? reinterpret_cast<uint8_t *>(buffer.device) : buffer.host) {
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

/// From a bf16 to the next one, away from 0.
double stepAt(double number) {
  constexpr int digits = 7;
  return number == 0 || !std::isfinite(number) ? 0 : std::exp2(double(std::ilogb(number) - digits));
}

double differenceOf(const HalideBuffer &buffer, const uint8_t *right, const uint8_t *other) {
  bool exact = buffer.code != 2 && buffer.bits != 16, rounded = buffer.code != 2 && buffer.bits == 16;
  double most = 0, largest = 0;
  forEachElement(buffer, [&](size_t at) {
    double a = numberAt(buffer, right + at), b = numberAt(buffer, other + at);
    if (std::isfinite(a))
      largest = std::max(largest, std::abs(a));
    if (a == b || (std::isnan(a) && std::isnan(b)))
      return;
    double distance = std::abs(a - b);
    if (rounded && distance <= stepAt(std::max(std::abs(a), std::abs(b))))
      return;
    most = exact || std::isnan(distance) ? std::numeric_limits<double>::infinity() : std::max(most, distance);
  });
  return most == 0 ? 0 : largest == 0 ? std::numeric_limits<double>::infinity() : most / largest;
}

} // namespace

/// What `quern_compare_versions` may do with a comparison. Its memory outlives a launch: a kernel that fails leaves by
/// longjmp.
struct Comparing {
  using Bytes = std::vector<uint8_t>;
  static inline std::vector<Bytes> before, results;
  static inline Bytes image;

  /// After all launches before it. A device that fails says so when the call ends (GpuDevice::launching).
  static void copy(void *to, const void *from, size_t bytes) {
    if (!bytes)
      return;
    if (quern_device *services = current->device.services())
      services->copy(services, to, from, int64_t(bytes));
    else
      std::memcpy(to, from, bytes);
  }
  static void fetch(Bytes &to, const Span &span) {
    to.resize(span.bytes);
    copy(to.data(), span.begin, span.bytes);
  }

  static int32_t run(const quern_versions_of &kernel, void **arguments) {
    Comparison &comparison = *current;
    auto buffer = [&](int number) -> const HalideBuffer & {
      return *static_cast<const HalideBuffer *>(arguments[kernel.lengths + number]);
    };
    ++comparison.launches;
    before.resize(size_t(kernel.results));
    results.resize(size_t(kernel.results));
    for (int i = 0; i < kernel.results; ++i)
      fetch(before[size_t(i)], Span(buffer(kernel.inputs + i)));
    int32_t status = kernel.calls[comparison.right](arguments);
    for (int i = 0; i < kernel.results; ++i) {
      const HalideBuffer &result = buffer(kernel.inputs + i);
      Span span(result);
      fetch(results[size_t(i)], span);
      // A result may overlap an argument. Where it does not, what is left from the first run must not look right.
      bool shared = false;
      for (int k = 0; k < kernel.inputs + kernel.results; ++k)
        shared = shared || (k != kernel.inputs + i && span.overlaps(Span(buffer(k))));
      if (!shared)
        forEachElement(result, [&](size_t at) { std::memset(before[size_t(i)].data() + at, 0xff, result.bits / 8); });
    }
    // All are put back before the other one runs: results may overlap each other.
    for (int i = 0; i < kernel.results; ++i)
      copy(Span(buffer(kernel.inputs + i)).begin, before[size_t(i)].data(), before[size_t(i)].size());
    status |= kernel.calls[comparison.other](arguments);
    for (int i = 0; i < kernel.results; ++i) {
      const HalideBuffer &result = buffer(kernel.inputs + i);
      fetch(image, Span(result));
      comparison.difference =
          std::max(comparison.difference, differenceOf(result, results[size_t(i)].data(), image.data()));
    }
    for (int i = 0; i < kernel.results; ++i)
      copy(Span(buffer(kernel.inputs + i)).begin, results[size_t(i)].data(), results[size_t(i)].size());
    return status;
  }
};

} // namespace quern::runtime

int32_t quern_compare_versions(int32_t kernel, void **arguments) {
  return quern::runtime::Comparing::run(quern_versions.kernels[kernel], arguments);
}
