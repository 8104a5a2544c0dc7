// Plans that were found for kernels like one, to begin its search with.
#ifndef QUERN_TOOLS_TUNE_PLANSEEDS_H
#define QUERN_TOOLS_TUNE_PLANSEEDS_H

#include "codegen/kernel/KernelMatch.h"
#include "tools/tune/TuningDatabase.h"

namespace quern::tools {

class PlanSeeds {
public:
  PlanSeeds(TuningDatabase &database, const TuningConditions &where);

  /// The plan of the nearest kernel with the same families, fitted to this one; empty where there is none. What is found when a
  /// kernel is first asked for is kept, so that a search that goes on begins with the same.
  std::string seedOf(const std::string &kernel, const std::string &producer,
                     const std::vector<codegen::Anchor> &anchors);

private:
  TuningDatabase &database;
  TuningConditions where;
  std::map<std::string, KernelShape> shapes;
  std::map<std::string, std::string> plans; ///< by their kernels
};

} // namespace quern::tools
#endif
