// Loops for everything that no family scheduled: rows, elementwise kernels and odd combinations.
#ifndef QUERN_CODEGEN_STAGESCHEDULER_H
#define QUERN_CODEGEN_STAGESCHEDULER_H

#include "codegen/KernelBuilder.h"

namespace quern::codegen {

class StageScheduler {
public:
  explicit StageScheduler(KernelBuilder &builder) : b(builder) {}
  void run();

private:
  bool rowDims(std::vector<Dim> &rows) const;
  void asRows(const std::vector<Dim> &rows);
  void atRoot(Stage &stage);
  void vectorizeInner(Stage &stage);

  KernelBuilder &b;
};

} // namespace quern::codegen
#endif
