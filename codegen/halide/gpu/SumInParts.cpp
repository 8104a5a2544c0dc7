// Takes: a sum (a maximum, ...) on a device. Gives: stages, of which each is a launch.
//
//   768 columns of 4096 rows:   part[p, c] = sum over r of x[256 r + p, c]     196,608 work-items of 16 rows
//                               part[q, c] = sum over r of part[16 r + q, c]
//                               total[c]   = sum over q of part[q, c]
//
// Why parts: a device hides the time of a read behind other work-items, of which it wants a quarter of a million; a column
// or a row alone is one. Which numbers are a part's, and the order of the parts, is known when the kernel is compiled, so
// results do not depend on timing. Parts interleave: where memory runs along what is summed, neighbouring work-items are
// neighbouring parts and read neighbouring numbers; elsewhere they are neighbouring sums, and do as well.
#include "codegen/halide/KernelBuilder.h"
#include "codegen/halide/Math.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

namespace {
constexpr int64_t workItems = 1 << 18; // that a launch should have
constexpr int64_t each = 16;           // numbers that a part has at least
constexpr int64_t least = 8 * each;    // numbers that are worth a launch of their own
constexpr int together = 4;            // numbers that a work-item asks for before it adds the first

/// Where only the run knows: of few rows, a single sum of very many numbers (a gradient's squares), or of a batch's tokens.
int64_t assumed(const std::vector<Dim> &kept) {
  return kept.empty() ? each << 14 : each << 8;
}

struct Cut {
  const Dim *dim = nullptr; ///< none: the sums stay whole
  int64_t parts = 1;
};

/// Few rows (a batch) of sums without number would have more parts than rows: only the run knows both. Not so where positions
/// are compared with each other, or memory runs along what is summed.
bool mayBeShort(const Dim &dim, const std::vector<Dim> &kept) {
  auto isLength = [](const Dim &one) { return !one.fixed(); };
  return isLength(dim) && std::any_of(kept.begin(), kept.end(), isLength) &&
         std::none_of(kept.begin(), kept.end(), [&](const Dim &one) { return one.size == dim.size; });
}

Cut cutOf(const std::vector<Dim> &kept, const std::vector<Dim> &over, bool along) {
  int64_t sums = 1;
  for (const Dim &dim : kept)
    sums = std::min(workItems, sums * dim.fixed().value_or(256));
  auto length = [&](const Dim &dim) { return dim.fixed().value_or(assumed(kept)); };
  auto longest =
      std::max_element(over.begin(), over.end(), [&](const Dim &a, const Dim &b) { return length(a) <= length(b); });
  int64_t most = std::min(length(*longest) / each, workItems / sums), parts = 1;
  while (2 * parts <= most)
    parts *= 2;
  if (length(*longest) < least || parts < 4 || (!along && mayBeShort(*longest, kept)))
    return {};
  return {&*longest, parts};
}
} // namespace

Func KernelBuilder::sumInParts(const DeviceSum &sum, const std::vector<Dim> &kept, const std::vector<Dim> &over,
                               const std::function<Expr(const Index &)> &body) {
  const Cut cut = cutOf(kept, over, sum.along);
  const Dim part{"part of " + sum.what + std::to_string(cut.parts), cut.parts};
  const int32_t parts = static_cast<int32_t>(cut.parts);
  std::vector<Dim> own = kept;
  if (cut.dim)
    own.insert(sum.along ? own.end() : own.begin(), part);

  Region region;
  if (cut.dim)
    region.push_back({0, together});
  for (auto dim = over.rbegin(); dim != over.rend(); ++dim) {
    Expr length = extent(dim->size);
    region.push_back({0, &*dim == cut.dim ? (length + (parts * together - 1)) / (parts * together) : length});
  }
  RDom r(region);
  Index index = varsOf(own);
  for (size_t d = 0; d < over.size(); ++d)
    index[over[over.size() - 1 - d].name] = r[static_cast<int>(d + (cut.dim ? 1 : 0))];
  Expr inside;
  if (cut.dim) { // each reads, if only the last number again: so none of `together` waits for a condition
    Expr at = (index[cut.dim->name] * together + r[0]) * parts + index[part.name], length = extent(cut.dim->size);
    index[cut.dim->name] = min(at, length - 1), inside = at < length;
  }
  Func total = newFunc(sum.what, sum.node), inRegister = newFunc(sum.what + "_sum", sum.node);
  std::vector<Var> args = pureArgs(own);
  inRegister(args) = sum.first;
  Expr next = sum.combine(inRegister(args), body(index));
  if (cut.dim)
    next =
        next.type().is_float() ? math::choose(inside, next, inRegister(args)) : select(inside, next, inRegister(args));
  inRegister(args) = next;
  if (cut.dim)
    inRegister.update().unroll(r[0]);
  else if (sum.ofParts && *over[0].fixed() % each == 0)
    inRegister.update().unroll(r[0], static_cast<int>(each));
  total(args) = inRegister(args);
  addStage({total, own, {}, false, {inRegister}, false});
  if (!cut.dim)
    return total;
  DeviceSum ofParts = sum;
  ofParts.ofParts = true;
  return sumInParts(ofParts, kept, {part}, [&](const Index &at) { return Expr(total(call(own, at))); });
}

} // namespace quern::codegen
