// Jobs that know nothing of each other, in threads.
#ifndef QUERN_CODEGEN_PARALLEL_H
#define QUERN_CODEGEN_PARALLEL_H

#include <cstddef>
#include <functional>

namespace quern::codegen {

/// Runs job 0, 1 ... count - 1 in at most `threads` threads, the caller's among them; the first failure is thrown when all
/// have stopped. Returns how many threads the system refused to start (a limit of processes or memory): the others did the
/// work.
int inParallel(size_t count, int threads, const std::function<void(size_t)> &job);

} // namespace quern::codegen
#endif
