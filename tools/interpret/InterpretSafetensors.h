// The compiler's own reader and writer of safetensors, for `quern interpret`. The runtime has another one: emitted
// programs share no code with the compiler.
#ifndef QUERN_TOOLS_INTERPRET_INTERPRETSAFETENSORS_H
#define QUERN_TOOLS_INTERPRET_INTERPRETSAFETENSORS_H

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace llvm {
class MemoryBuffer;
}

namespace quern::tools {

/// A file that cannot be read; the message names it.
struct SafetensorsError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A tensor of an open file.
struct StoredTensor {
  std::string dtype; // as in the file: F32, BF16, I64 ...
  std::vector<int64_t> shape;
  const char *data;
  int64_t count;

  bool isFloat() const;
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
/// an index file, or of JSON as tensorsFromJson (TensorText.h) reads it. Throws SafetensorsError for anything that is
/// not as the format demands.
class SafetensorsFiles {
public:
  explicit SafetensorsFiles(const std::string &path);
  ~SafetensorsFiles();

  const StoredTensor *find(const std::string &name) const;
  const std::map<std::string, StoredTensor> &getTensors() const { return tensors; }

private:
  void readFile(const std::string &path);
  void readJson(const std::string &path);

  std::vector<std::unique_ptr<llvm::MemoryBuffer>> buffers;
  std::map<std::string, OutputTensor> fromText;
  std::map<std::string, StoredTensor> tensors;
};

/// Writes to a temporary file beside `path` and renames it, so that no half-written file stays.
void writeSafetensors(const std::string &path, const std::map<std::string, OutputTensor> &tensors);

} // namespace quern::tools
#endif
