// Where a generator's decisions come from: given bytes, or a seed. The same bytes make the same decisions.
#ifndef QUERN_TESTS_SPECS_CHOICES_H
#define QUERN_TESTS_SPECS_CHOICES_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace quern::test {

class Choices {
public:
  /// One byte a decision; when they are spent, the first option of each is taken, so that texts end.
  Choices(const uint8_t *data, size_t size) : data(data), left(size) {}
  /// Endless.
  explicit Choices(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du), endless(true) {}

  /// 0 .. n - 1, for n up to 256.
  unsigned below(unsigned n) {
    if (!endless)
      return left ? (--left, *data++ % n) : 0;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<unsigned>((state >> 24) % n);
  }
  int between(int low, int high) { return low + static_cast<int>(below(static_cast<unsigned>(high - low + 1))); }
  /// True in about `percent` of a hundred; false when bytes are spent.
  bool chance(unsigned percent) { return below(100) >= 100 - percent; }
  const char *of(std::initializer_list<const char *> options) { return options.begin()[below(options.size())]; }
  template <class T> const T &of(const std::vector<T> &options) { return options[below(options.size())]; }

private:
  const uint8_t *data = nullptr;
  size_t left = 0;
  uint64_t state = 0;
  bool endless = false;
};

} // namespace quern::test
#endif
