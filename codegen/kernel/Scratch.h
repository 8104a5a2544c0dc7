// Memory that kernels ask for while they run, beside their arguments.
#ifndef QUERN_CODEGEN_KERNEL_SCRATCH_H
#define QUERN_CODEGEN_KERNEL_SCRATCH_H

#include "ir/Size.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace quern::codegen {

/// Bytes that live at one time, blocks' headers and alignment included: of the thread that calls a kernel (what all
/// tasks share, and its own tasks), and of each that helps. Over the kernel's symbols; of a launch, over those of its
/// function.
struct Scratch {
  /// Where all of `ones` are 1 (a kernel may have a way of its own for one position): the least of some polynomials.
  struct Case {
    std::vector<ir::Size> ones;
    std::vector<ir::Size> least;
  };
  std::vector<Case> caller, worker; ///< the last one that holds counts; none: 0
};

/// By the name of a kernel.
using KernelScratch = std::map<std::string, Scratch>;
/// The C function of each kernel.
using KernelSymbols = std::map<std::string, std::string>;

/// `value` tells what a polynomial comes to.
int64_t bytesOf(const std::vector<Scratch::Case> &cases, const std::function<int64_t(const ir::Size &)> &value);

/// For the cache: a line for each case, such as "s1 : 9216 * s0 + 3456; 131456;", and an empty one behind those of a
/// thread.
std::string scratchText(const Scratch &scratch);
/// Throws std::runtime_error.
Scratch parseScratch(const std::string &text);

} // namespace quern::codegen
#endif
