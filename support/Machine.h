// What a machine can do: what choices count with when a program is compiled, and what reports compare a run with. One type, so
// that a pass, a schedule and a page never disagree on how fast memory is.
#ifndef QUERN_SUPPORT_MACHINE_H
#define QUERN_SUPPORT_MACHINE_H

#include <cstdint>
#include <functional>
#include <string>

namespace quern::support {

struct Machine {
  std::string name;    ///< of the processor or the target
  std::string vectors; ///< "AVX-512"; empty: not known
  int threads = 1;
  /// Of all threads together, a second. A multiply-add counts two.
  double products = 0;    ///< operations of f32 products in registers, the peak
  double operations = 0;  ///< additions of numbers that are at hand, element by element; 0: not known
  double ofOneRow = 0;    ///< operations of products that share nothing, as in a step of one text; 0: not known
  double bandwidth = 0;   ///< bytes read from memory
  int64_t caches[3] = {}; ///< bytes of a core's first and second, and of the shared third; 0: not known
  /// Whose numbers these are.
  enum class Known { Assumed, Given, Measured, Profiled } known = Known::Assumed;
};

/// Two threads of a processor with AVX-512: what a compilation counts with, whatever machine it runs on, so that its
/// result is always the same.
Machine assumedMachine();

/// This machine's name, threads and caches, as Linux says them; nothing is measured.
Machine thisMachine(const std::string &name);

/// "420,20": GFLOP/s and GB/s. Throws UserError otherwise.
Machine machineFrom(const std::string &text);

/// The lengths that choices count with where only a run knows the true ones. They change what is chosen, never a result.
namespace assumed {

/// Tokens of the one text, and of what is in the caches before it: what passes count with (ir/analysis/AssumedLengths.h).
inline constexpr int64_t text = 512;

/// A kernel's plan serves every length of a run, so it is chosen at lengths where the choice matters most: rows of a
/// contraction, which decode, short texts and parts of a batch bring too; queries of an attention and of its gradient,
/// since only long texts have blocks that a mask rules out; columns and depth; any other dimension of a stage.
inline constexpr int64_t rows = 256, queries = 2048, gradientQueries = 1024, columns = 768, elements = 256;

} // namespace assumed

/// How a machine's products want their weights packed: what code generation says and passes follow.
struct PackingRule {
  /// How many rows of a weight [rows, inner] are in one tile; 0: the weight stays as it is stored.
  std::function<int64_t(int64_t rows, int64_t inner)> tile = [](int64_t, int64_t) { return 0; };
  bool pairs = false; ///< of bf16 two numbers along `inner` beside each other, where it is even
  int64_t operator()(int64_t rows, int64_t inner) const { return tile(rows, inner); }
};

} // namespace quern::support
#endif
