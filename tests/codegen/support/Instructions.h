// What a compiled kernel asks of a processor, by its assembly: it needs no processor that could run it.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_INSTRUCTIONS_H
#define QUERN_TESTS_CODEGEN_SUPPORT_INSTRUCTIONS_H

#include "codegen/Targets.h"
#include "codegen/kernel/KernelGraph.h"
#include "codegen/schedule/Schedule.h"

#include <string>
#include <vector>

namespace quern::codegen {

/// Makes `object` from `assembly` with an assembler that knows only the instructions that `target` lists. Returns what
/// is wrong: instructions of other processors, or narrower vector registers than the target has. Empty: nothing.
std::string assembleFor(const CpuTarget &target, const std::string &assembly, const std::string &object);

/// How often a word stands in an assembly.
int countOf(const std::string &text, const std::string &word);
/// How many vectors go to the stack in an iteration of loops that have no loop within and multiply and add `products` times at least.
int vectorsSpilled(const std::string &assembly, int products);
/// A kernel's assembly, by the plan that these schedules give.
std::string assemblyOf(const KernelGraph &graph, const CpuTarget &target,
                       const ScheduleTable &schedules = ScheduleTable::standard());

/// Compiles the kernel for `target`, and looks at its instructions as if for `allowed`; runs nothing.
std::string foreignInstructions(const KernelGraph &graph, const CpuTarget &target, const CpuTarget &allowed);
/// Compiled once, as if for each.
std::vector<std::string> foreignToEach(const KernelGraph &graph, const CpuTarget &target,
                                       const std::vector<CpuTarget> &allowed);

} // namespace quern::codegen
#endif
