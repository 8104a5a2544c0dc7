// The published architectures that have a spec: examples/architectures.json, built into the compiler with the specs.
#ifndef QUERN_FRONTEND_ARCHITECTURES_H
#define QUERN_FRONTEND_ARCHITECTURES_H

#include "frontend/syntax/Diagnostics.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::frontend {

struct Architecture {
  std::string spec;                    ///< "llama", of examples/llama.quern
  std::string_view text;               ///< of the spec
  std::vector<std::string> modelTypes; ///< config.json's `model_type`
  std::vector<std::string> classes;    ///< its `architectures`
  std::string kind, command;           ///< "decoder"; what its programs are run for: "generate", "embed" or "eval"
  /// Files of a checkpoint that say how it was trained: of each, fields that choose by being true, and the setting that
  /// such a field stands for. Where the file is there, one is.
  std::map<std::string, std::map<std::string, std::string>> settings;

  /// "LlamaForCausalLM", or several with " or ".
  std::string classList() const;
};

/// All of the table, in its order; those without classes have no published checkpoint.
const std::vector<Architecture> &architectures();

struct FoundArchitecture {
  const Architecture *architecture;
  std::string foundBy; ///< the class or the model_type of the config that is in the table
  /// Empty if the checkpoint's class is one of the architecture's. Else the class that it has instead: only its
  /// `model_type` fits, so parts of the model (its head) are others.
  std::string otherClass;
  std::string whole; ///< the class of the multimodal model that the architecture is the text part of
};

/// The architecture of a Hugging Face config.json, by its `architectures`, else by its `model_type`, else by that of its text part
/// (TextPart.h). Nothing, with a
/// diagnostic that names the nearest known ones, if there is none. `name` is what messages call the config. An
/// architecture with settings whose files are all `beside` the config comes first, whatever the class: sentence-transformers
/// keeps the class that a model was made from.
std::optional<FoundArchitecture> findArchitecture(const std::string &configText, const std::string &name,
                                                  Diagnostics &diagnostics,
                                                  const std::function<bool(const std::string &file)> &beside = {});

} // namespace quern::frontend
#endif
