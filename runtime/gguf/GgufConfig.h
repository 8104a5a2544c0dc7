// What the makers of a config.json share; not for others.
#ifndef QUERN_RUNTIME_GGUF_GGUFCONFIG_H
#define QUERN_RUNTIME_GGUF_GGUFCONFIG_H

#include "runtime/gguf/GgufFile.h"

#include <nlohmann/json.hpp>

namespace quern::runtime {

/// A file's values as numbers of a config.json. Throws UserError for values that cannot be.
class GgufValues {
public:
  using Json = nlohmann::json;
  explicit GgufValues(const GgufFile &file) : file(file) {}

  [[noreturn]] void fail(const std::string &reason) const;
  /// Null where the file has none. A list must have the same for all layers, but zero where a layer has no such part.
  Json value(const char *key) const;
  /// A positive number that must be there.
  double number(const char *key) const;
  /// How wide a head is.
  double headWidth() const;
  Json list(const GgufTensor &tensor) const;
  /// Whether the words, with spaces between, have the architecture.
  bool isOneOf(const char *words) const;
  /// Whether the file has that tensor in any layer (".attn_q.bias"), or in the given one.
  bool has(const std::string &local) const;
  bool has(int64_t layer, const std::string &local) const;
  int64_t layers() const;
  /// Of a matrix of the first layer, which must be there.
  int64_t rowsOf(const std::string &local) const;

protected:
  const GgufFile &file;
};

/// What only one family has, or says in its own way, into its config.
void addOfFamily(const GgufFile &file, nlohmann::json &config);

} // namespace quern::runtime
#endif
