// Files of tensors as the interpreter's tools read and write them: the runtime's safetensors, and JSON that people write.
#ifndef QUERN_TOOLS_INTERPRET_INTERPRETSAFETENSORS_H
#define QUERN_TOOLS_INTERPRET_INTERPRETSAFETENSORS_H

#include "runtime/weights/Checkpoint.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace quern::tools {

/// A tensor of an open file.
struct StoredTensor {
  std::string dtype; // as in the file: F32, BF16, I64 ...
  std::vector<int64_t> shape;
  int64_t count;
  runtime::StoredTensor stored;

  explicit StoredTensor(runtime::StoredTensor tensor);
  bool isFloat() const { return runtime::isReal(stored.dtype); }
  std::vector<double> asDoubles() const;
  std::vector<int64_t> asInts() const; // of ints and bools only
};

/// A tensor to be written: doubles as F64, ints as I64, bools as BOOL.
struct OutputTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

/// The tensors of one file, of a folder (model.safetensors, a sharded model's index, or all *.safetensors in it), of
/// an index file, or of JSON as tensorsFromJson (TensorText.h) reads it. Throws support::UserError for anything that is
/// not as the format demands.
class SafetensorsFiles {
public:
  explicit SafetensorsFiles(const std::string &path);

  const StoredTensor *find(const std::string &name) const;
  const std::map<std::string, StoredTensor> &getTensors() const { return tensors; }

private:
  std::map<std::string, StoredTensor> tensors, others; // by the names that TensorSource::otherNames() has
  void add(const std::string &path, std::map<std::string, runtime::StoredTensor> read);
  void addSource(const std::string &path);
};

/// Writes through support's OutputFile: complete or not at all.
void writeSafetensors(const std::string &path, const std::map<std::string, OutputTensor> &tensors);

} // namespace quern::tools
#endif
