// What stages of a tile program are executed with on the processor: memory, and values where a stage stands.
#ifndef QUERN_CODEGEN_TILE_HOSTVALUES_H
#define QUERN_CODEGEN_TILE_HOSTVALUES_H

#include "codegen/tile/Program.h"

namespace quern::codegen::tile {

struct HostBuffer {
  void *memory = nullptr;
  std::vector<int64_t> strides; ///< by its dimensions, in elements; of packed ones none
};

/// What tensor cores do in one instruction: sixteen products of x and w from `first` on are added to a sum, rounded once.
template <typename X, typename W> void addSixteen(float &sum, int64_t first, const X &x, const W &w) {
  double sixteen = sum;
  for (int64_t in = first; in < first + 16; ++in)
    sixteen += double(x(in)) * double(w(in));
  sum = float(sixteen);
}

class HostValues {
public:
  HostValues(const Program &program, const std::map<std::string, int64_t> &lengths, std::vector<HostBuffer> given);

  std::vector<double> sums;       ///< of products, where the stage stands
  std::vector<double> sumsOfRow;  ///< of its columns, where results read several
  std::vector<double> statistics; ///< of the row
  int64_t size(const ir::Size &of) const;
  void stand(int64_t row, int64_t column, int64_t matrix, int64_t depth);
  double get(int value);
  double load(int buffer, const std::vector<int> &positions);
  void store(const Store &store);
  float *memory(int buffer) { return static_cast<float *>(buffers[size_t(buffer)].memory); }

private:
  const Program &p;
  const std::map<std::string, int64_t> &lengths;
  std::vector<HostBuffer> buffers;
  std::vector<std::vector<uint8_t>> scratch;
  std::vector<double> numbers;
  std::vector<int64_t> stamps;
  int64_t stamp = 0, at[4] = {};

  int64_t offset(int buffer, const std::vector<int> &positions);
  double code(const Buffer &b, const uint8_t *memory, const std::vector<int> &positions);
  double superCode(const Buffer &b, const support::SuperBlocks &form, const uint32_t *words,
                   const std::vector<int> &positions);
  double compute(const Value &v);
};

} // namespace quern::codegen::tile
#endif
