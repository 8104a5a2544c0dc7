// Lines of memory asked for before a loop reads them. Halide 21's own `prefetch` is `prefetchnta` on x86, which passes the second
// cache by: on a Sapphire Rapids a stream then comes from memory at half the pace.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_FETCHAHEAD_H
#define QUERN_CODEGEN_HALIDE_LOWERED_FETCHAHEAD_H

#include <Halide.h>

#include <string>
#include <vector>

namespace quern::codegen {

/// In the loops of a stage, and those within them, what is read of a buffer.
struct FetchedAhead {
  std::string loops; ///< how their names begin in what Halide lowered, as PlainLoops'
  std::string buffer;
  int bytes;          ///< how much further on a line is that is asked for where one is read
  int cache;          ///< which takes it: 1, and those behind it, or 2
  std::string rows{}; ///< instead of bytes: the loop whose later iteration reads that line, its whole name
  int rowsAhead = 0;  ///< and how many iterations later
};

inline constexpr int lineBytes = 64;

/// Asks for the line that holds a byte of a buffer (`byte`: 64 bits, from its begin).
Halide::Internal::Stmt requestLine(const std::string &buffer, const Halide::Expr &byte, int cache,
                                   bool toWrite = false);
/// The same position of 64 bits, in a form in which Halide finds differences.
Halide::Expr castsLast(const Halide::Expr &position);

/// Adds these requests to what the pipeline becomes. Lines behind the buffer's end are asked for, too: that never fails.
void fetchAhead(Halide::Pipeline &pipeline, const std::vector<FetchedAhead> &fetched);

} // namespace quern::codegen
#endif
