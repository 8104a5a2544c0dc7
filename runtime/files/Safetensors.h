// The safetensors format (https://github.com/huggingface/safetensors): reading with every extent checked, writing whole
// or not at all.
#ifndef QUERN_RUNTIME_FILES_SAFETENSORS_H
#define QUERN_RUNTIME_FILES_SAFETENSORS_H

#include "runtime/files/MappedFile.h"

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace quern::runtime {

/// The types of the format, and Coded: real numbers that a TensorReader makes of what is stored in the file. Those after U8
/// are known by their size only and cannot be read as numbers.
enum class Dtype { F64, F32, F16, BF16, Coded, I64, I32, BOOL, U8, I8, I16, U16, U32, U64, F8_E4M3, F8_E5M2 };
const char *dtypeName(Dtype dtype);
/// The type of such a name, if it is one of the format's.
std::optional<Dtype> dtypeNamed(std::string_view name);
/// 0 for Coded.
size_t dtypeBytes(Dtype dtype);
bool isReal(Dtype dtype);

/// Real numbers that are not what is stored in the file: codes in blocks, several stored tensors as one, another order.
class TensorReader {
public:
  virtual ~TensorReader() = default;
  /// The storage type, for messages: "Q4_K".
  virtual const char *type() const = 0;
  /// Elements [first, first + count) in the order of the tensor's shape. Any number of threads may read.
  virtual void read(int64_t first, int64_t count, float *to) const = 0;
  /// The same matrix with its two dimensions swapped (of a stack each), where it is stored so: reading along rows is then quicker.
  virtual const TensorReader *transposed() const { return nullptr; }
  /// The block of `count` elements (a group of 32, or the last of a row; a super-block of 256), the first of them `first` and `stride` apart,
  /// where they are stored as GGUF's format of that name has them; else null. It may be put together in `room`.
  virtual const uint8_t *block(std::string_view /*format*/, int64_t /*first*/, int64_t /*stride*/, int64_t /*count*/,
                               uint8_t * /*room*/) const {
    return nullptr;
  }
  /// The type that holds all of its numbers, in blocks ("Q8_0") or each by itself ("BF16"), where that is another one than its own;
  /// else null. It may look at all scales.
  virtual const char *heldBy() const { return nullptr; }
};

/// A stored tensor; `data` is in `file`, with whatever alignment the file gave it.
struct StoredTensor {
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> shape;
  const uint8_t *data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const MappedFile> file;
  std::shared_ptr<const TensorReader> reader = nullptr; // of Coded ones, whose `data` only distinguishes two tensors
  int64_t elements() const;
  /// Makes it what the reader gives, of that shape.
  void readBy(std::shared_ptr<const TensorReader> its, std::vector<int64_t> itsShape);
};
/// The storage type, for messages.
const char *typeName(const StoredTensor &tensor);

std::string shapeText(const std::vector<int64_t> &shape);

/// All tensors of one file. Throws UserError (with the file's name) for anything the format forbids: a header that is
/// cut, too long or no JSON of the right form, an extent outside the file, holes, overlaps, a size that does not fit
/// the shape, a name twice.
std::map<std::string, StoredTensor> readSafetensors(std::shared_ptr<const MappedFile> file);

/// Elements as numbers. `count` elements from element `first`. Throws UserError for types that are no numbers here, and
/// (toInt) for values beyond 32 bits.
void toFloat(const StoredTensor &tensor, int64_t first, int64_t count, float *result);
/// All of them.
std::vector<float> numbersOf(const StoredTensor &tensor);
void toInt(const StoredTensor &tensor, int64_t first, int64_t count, int32_t *result);
void toBool(const StoredTensor &tensor, int64_t first, int64_t count, uint8_t *result);
/// Any integers and booleans in 64 bits, and any numbers in double precision: for the compiler's interpreter.
void toLong(const StoredTensor &tensor, int64_t first, int64_t count, int64_t *result);
void toDouble(const StoredTensor &tensor, int64_t first, int64_t count, double *result);

/// A tensor to write; `data` is dense and stays the caller's.
struct OutputTensor {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  const void *data;
  uint64_t bytes() const;
};

/// What a file begins with: its length and the table of the tensors, whose data follows in their order.
std::string safetensorsHeader(const std::vector<OutputTensor> &tensors);
/// Writes through OutputFile: the file is there whole or not at all. Throws UserError with the reason (a full disk).
void writeSafetensors(const std::string &path, const std::vector<OutputTensor> &tensors);

} // namespace quern::runtime
#endif
