// The file format GGUF, versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): named values, and
// tensors in blocks.
#ifndef QUERN_RUNTIME_GGUF_GGUFFILE_H
#define QUERN_RUNTIME_GGUF_GGUFFILE_H

#include "runtime/files/MappedFile.h"
#include "runtime/files/Safetensors.h"
#include "runtime/formats/BlockFormat.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

/// A tensor as its file has it.
struct GgufTensor {
  const BlockFormat *format = nullptr; // null: `plain` holds
  Dtype plain = Dtype::F32;
  std::vector<int64_t> shape; // the last dimension is contiguous
  const uint8_t *data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const MappedFile> file; // the part that `data` is in
  /// What its numbers are multiplied by: nothing, one, or one for each of the first dimension. Of a tensor of its own in
  /// the file (NVFP4).
  std::vector<float> factors = {};
  const char *type() const { return format ? format->name : dtypeName(plain); }
  int64_t elements() const;
  /// Elements as numbers, in the file's order.
  void read(int64_t first, int64_t count, float *to) const;
};

/// A model: one file, or the parts that llama-gguf-split or a converter made of it. Values are the first part's.
class GgufFile {
public:
  static bool isGguf(const MappedFile &file) { return file.text().starts_with("GGUF"); }
  /// Any part; the others are beside it, by its name. Throws UserError (with the file's name) for anything the format forbids
  /// and for what is not read here: another version or byte order, an extent outside the file, overlaps, a name twice, an
  /// unknown type, parts that are not those of one model.
  explicit GgufFile(const std::shared_ptr<const MappedFile> &file);
  /// All parts, wherever they are.
  explicit GgufFile(const std::vector<std::shared_ptr<const MappedFile>> &parts);

  /// The first part.
  const std::shared_ptr<const MappedFile> &file() const { return mapped; }
  /// `general.architecture`.
  const std::string &architecture() const { return family; }
  /// By the file's own names.
  const std::map<std::string, GgufTensor, std::less<>> &tensors() const { return table; }
  const GgufTensor *find(std::string_view name) const;
  /// All elements as numbers; for small tensors.
  std::vector<float> numbers(const GgufTensor &tensor) const;

  // Values by key; "~.x" stands for "<architecture>.x". Absent, or of another type: nothing.
  bool has(std::string_view key) const { return entry(key); }
  std::optional<double> number(std::string_view key) const; // integers and bools, too
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  /// Lists; a single value is a list of one. Texts are what the file has, UTF-8 or not.
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<double> list(std::string_view key) const;
  bool flag(std::string_view key, bool otherwise) const { return number(key).value_or(otherwise) != 0; }
  /// Whether the value (or the elements of the list) is a float of 32 bits.
  bool isFloat(std::string_view key) const;
  bool isFlag(std::string_view key) const;

private:
  struct Entry {
    uint32_t type = 0;
    uint64_t count = 0; // of a list's elements; 1
    const uint8_t *at = nullptr;
  };
  class Cursor;

  std::shared_ptr<const MappedFile> mapped;
  std::string family;
  std::map<std::string, Entry, std::less<>> entries;
  std::map<std::string, GgufTensor, std::less<>> table;

  struct Alone {};
  GgufFile(std::shared_ptr<const MappedFile> file, Alone);

  const Entry *entry(std::string_view key) const;
  void readEntries(Cursor &cursor, uint64_t count);
  void readTensors(Cursor &cursor, uint64_t count);
};

} // namespace quern::runtime
#endif
