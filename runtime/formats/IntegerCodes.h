// Matrices in integer codes with a scale, and perhaps a zero, for groups of positions along each row: as safetensors have
// them from AutoGPTQ, AutoAWQ and compressed-tensors.
#ifndef QUERN_RUNTIME_FORMATS_INTEGERCODES_H
#define QUERN_RUNTIME_FORMATS_INTEGERCODES_H

#include "runtime/files/Safetensors.h"
#include "support/Storage.h"

#include <cstring>

namespace quern::runtime {

/// A matrix [outer, inner], as a Linear's weight is: value = scale[group, outer] * (code - zero[group, outer]).
class IntegerCodes : public TensorReader {
public:
  std::vector<float> scales;    // [groups, outer]
  std::vector<int32_t> groupOf; // of each inner position
  int64_t inner = 0, outer = 0;
  int bits = 4; // of a code

  void read(int64_t first, int64_t count, float *to) const override;
  /// Codes less their zeros are codes with a sign: of 4 bits where the zeros are in the middle, as GPTQ's usually are. Else
  /// they stay as they are in a super-block whose minimum is the zero, in units of the scale.
  const uint8_t *block(std::string_view format, int64_t first, int64_t stride, int64_t count,
                       uint8_t *room) const override;
  const char *heldBy() const override;

protected:
  virtual int codeAt(int64_t i, int64_t o) const = 0; // 0 .. 2^bits - 1
  virtual int zeroAt(int64_t group, int64_t o) const = 0;
  unsigned mask() const { return (1u << bits) - 1; }

private:
  const uint8_t *withZero(const support::SuperBlocks &form, int64_t i, int64_t o, int64_t stride, int64_t count,
                          uint8_t *room) const;
  /// Whether these positions share their scales; where the order of positions was changed they do not.
  bool isOneGroup(int64_t first, int64_t count) const;
};

/// AutoGPTQ's and AutoAWQ's: codes of a matrix [inner, outer] in words of 32 bits.
class ColumnCodes : public IntegerCodes {
public:
  StoredTensor codes, zeros;
  bool awq = false;

  const char *type() const override { return awq ? "AWQ" : "GPTQ"; }

protected:
  int codeAt(int64_t i, int64_t o) const override;
  int zeroAt(int64_t group, int64_t o) const override;

private:
  /// AutoAWQ's order of eight codes in a word: those of even numbers first.
  unsigned awqNibble(const StoredTensor &words, int64_t row, int64_t column) const;
};

/// compressed-tensors': codes along each row, in words of 32 bits without gaps, or a byte each with its sign; zeros along
/// each column.
class RowCodes : public IntegerCodes {
public:
  StoredTensor codes, zeros; // zeros without data: codes have a sign, and no zero
  bool words = true;

  const char *type() const override { return "compressed-tensors"; }

protected:
  int codeAt(int64_t i, int64_t o) const override;
  int zeroAt(int64_t group, int64_t o) const override;

private:
  /// Of a string of codes that begins with word `first` and whose words are `step` apart.
  int codeIn(const StoredTensor &packed, int64_t first, int64_t step, int64_t index) const;
};

} // namespace quern::runtime
#endif
