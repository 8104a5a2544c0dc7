// Stored tensors by name, whatever the file format and wherever they are.
#ifndef QUERN_RUNTIME_WEIGHTS_TENSORSOURCE_H
#define QUERN_RUNTIME_WEIGHTS_TENSORSOURCE_H

#include "runtime/files/Safetensors.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace quern::runtime {

class TensorSource {
public:
  virtual ~TensorSource() = default;
  /// For messages.
  virtual const std::string &path() const = 0;
  /// In alphabetical order.
  virtual std::vector<std::string> names() const = 0;
  /// A tensor's storage type, shape and bytes, which stay where they are as long as the source lives; null if there is
  /// none of that name.
  virtual const StoredTensor *find(const std::string &name) const = 0;
  /// By which names `find` finds the same or parts of it, too: of experts one by one (JoinedExperts.h), of a text part.
  virtual std::vector<std::string> otherNames() const { return {}; }
  /// Whether it is a multimodal checkpoint. `find` then takes the names that tensors of its text part have where that is a
  /// model by itself, too (TextPart.h).
  virtual bool hasTextPart() const { return false; }
  /// The same without adapters.
  virtual const TensorSource &base() const { return *this; }

  /// What the user calls "the weights": a file, an index of shards, or a folder with one of the two. A new format is
  /// recognised here. Throws UserError.
  static std::unique_ptr<TensorSource> open(const std::string &path);
  /// From files by name, as the program's tail has them.
  static std::unique_ptr<TensorSource> open(const std::string &label,
                                            const std::map<std::string, std::shared_ptr<const MappedFile>> &files);
};

} // namespace quern::runtime
#endif
