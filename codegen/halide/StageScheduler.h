// Loops for everything that no family scheduled: rows, elementwise kernels and odd combinations.
#ifndef QUERN_CODEGEN_HALIDE_STAGESCHEDULER_H
#define QUERN_CODEGEN_HALIDE_STAGESCHEDULER_H

#include "codegen/halide/KernelBuilder.h"

namespace quern::codegen {

void scheduleStages(KernelBuilder &builder);

class StageScheduler {
public:
  explicit StageScheduler(KernelBuilder &builder) : b(builder) {}
  void run();

private:
  std::vector<char> leadingTo(int node) const;
  std::vector<Stage *> madeFor(Stage &target, bool result = false) const;
  static bool standsStill(const Stage &stage, const std::string &name);
  bool rowDims(const Stage &target, const std::vector<Stage *> &inside, std::vector<Dim> &rows);
  void asRows(Stage &target, const std::vector<Stage *> &inside, const std::vector<Dim> &rows);
  void prologues();
  bool cutIntoTasks(Stage &stage);
  void atRoot(Stage &stage);
  void vectorizeInner(Stage &stage);

  KernelBuilder &b;
};

} // namespace quern::codegen
#endif
