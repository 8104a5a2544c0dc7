// Memory that a kernel asks for while it runs, beside its arguments.
#ifndef QUERN_CODEGEN_KERNELSCRATCH_H
#define QUERN_CODEGEN_KERNELSCRATCH_H

#include "ir/Size.h"

#include <map>
#include <string>
#include <vector>

namespace Halide::Internal {
struct Stmt;
}

namespace quern::codegen {

/// Bytes that live at one time, over the kernel's symbols, blocks' headers and alignment included: of the thread that calls it
/// (what all tasks share, and its own tasks), and of each that helps.
struct Scratch {
  /// Where all of `ones` are 1 (a kernel may have a way of its own for one position): the least of some polynomials.
  struct Case {
    std::vector<std::string> ones;
    std::vector<ir::Size> least;
  };
  std::vector<Case> caller, worker; ///< the last one that holds counts; none: 0
};

/// By the name of a kernel.
using KernelScratch = std::map<std::string, Scratch>;

/// What a lowered kernel asks for. Blocks whose size depends on data are left out: the runtime takes memory for them as they come.
Scratch scratchOf(const Halide::Internal::Stmt &kernel, const std::vector<std::string> &symbols);

/// For the cache: a line for each case, such as "s1 : 9216 * s0 + 3456; 131456;", and an empty one behind those of a thread.
std::string scratchText(const Scratch &scratch);
Scratch parseScratch(const std::string &text);

} // namespace quern::codegen
#endif
