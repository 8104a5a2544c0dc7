// Takes: polynomials over lengths. Gives: their minima with numbers, as symbols that say what they are of.
// Why symbols: sums and products of costs stay polynomials, which everything that shows or adds costs knows.
#include "ir/analysis/Least.h"

#include "ir/Chunk.h"
#include "ir/Derived.h"

#include <algorithm>

namespace quern::ir {

/// Whether no length can make it smaller than zero.
static bool neverNegative(const Size &size) {
  return std::all_of(size.getTerms().begin(), size.getTerms().end(), [](const auto &term) { return term.second >= 0; });
}

Size least(int64_t most, const Size &size) {
  if (std::optional<int64_t> number = size.constant())
    return std::min(most, *number);
  if (neverNegative(size - Size(most)))
    return most;
  if (neverNegative(Size(most) - size))
    return size;
  return Derived{Derived::Form::Min, most, size}.size();
}

Size notNegative(const Size &size) {
  return size - least(0, size);
}

std::optional<Least> leastOf(std::string_view symbol) {
  std::optional<Derived> minimum = Derived::read(symbol, Derived::Form::Min);
  return minimum ? std::optional(Least{minimum->number, minimum->of}) : std::nullopt;
}

Size substituteAll(const Size &cost, const std::map<std::string, Size> &table) {
  std::map<std::string, Size> all = table;
  for (const std::string &symbol : cost.symbols())
    if (std::optional<Least> minimum = leastOf(symbol))
      all[symbol] = least(minimum->most, minimum->of.substitute(table));
  return cost.substitute(all);
}

Size costOfAllIterations(const Size &cost) {
  std::map<std::string, Size> rows;
  auto note = [&](const Size &size) {
    for (const std::string &symbol : size.symbols())
      if (std::optional<Chunk> chunk = chunkOf(symbol))
        rows[symbol] = chunk->rows;
  };
  note(cost);
  for (const std::string &symbol : cost.symbols())
    if (std::optional<Least> minimum = leastOf(symbol))
      note(minimum->of);
  return substituteAll(cost, rows);
}

} // namespace quern::ir
