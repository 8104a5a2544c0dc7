// Files as strangers may send them: cut off anywhere, or with wrong bytes.
#ifndef QUERN_TESTS_RUNTIME_DAMAGE_H
#define QUERN_TESTS_RUNTIME_DAMAGE_H

#include "runtime/Error.h"
#include "runtime/files/Safetensors.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace quern::runtime::test {

/// Calls `use` with the file cut at `cuts` places, evenly spread (all, if it is shorter), and with `count` seeded damages
/// of one to four bytes among the first `within`: an error or not, but no signal. What takes for ever meets CTest's limit.
template <typename Use>
void useDamaged(const std::string &whole, Use use, size_t cuts = 1000, int count = 1000, size_t within = SIZE_MAX) {
  const size_t step = cuts == 0 ? whole.size() : std::max<size_t>(1, whole.size() / cuts);
  for (size_t size = 0; size < whole.size(); size += step)
    use(whole.substr(0, size));
  std::mt19937 random(11);
  for (int i = 0; i < count; ++i) {
    std::string damaged = whole;
    for (int k = 1 + int(random() % 4); k > 0; --k)
      damaged[random() % std::min(within, damaged.size())] = char(random());
    use(damaged);
  }
}

/// What `useDamaged` does with a file of tensors: reads all numbers, and calls `block` for each element of those with a reader.
template <typename Tables, typename Block> auto readingAll(Tables tablesOf, Block block) {
  return [=](const std::string &file) {
    try {
      for (const auto &[name, tensor] : tablesOf(file)) {
        if (!isReal(tensor.dtype) || tensor.elements() > 10000)
          continue;
        numbersOf(tensor);
        for (int64_t at = 0; tensor.reader && at < tensor.elements(); ++at)
          block(tensor, at);
      }
    } catch (const UserError &) { // NOLINT: either is right
    }
  };
}

} // namespace quern::runtime::test
#endif
