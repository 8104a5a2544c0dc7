// A GGUF file as the checkpoint that the same model has on Hugging Face: names, order of rows, config.json,
// tokenizer.json.
#ifndef QUERN_RUNTIME_GGUF_GGUF_H
#define QUERN_RUNTIME_GGUF_GGUF_H

#include "runtime/gguf/GgufFile.h"

#include <nlohmann/json_fwd.hpp>

namespace quern::runtime {

/// The tensors under their published names. What the file stores in another form (q and k rows of Llama by pairs,
/// Gemma's norms plus 1, matrices of GPT-2 transposed, experts as one tensor) reads as published. Throws UserError for
/// an architecture that has no table.
std::map<std::string, StoredTensor> ggufTensors(const GgufFile &file);

/// What config.json of the same model says, as far as the file has it; fields that the file leaves to the architecture
/// are left to the spec. Throws UserError for values that cannot be.
nlohmann::json ggufConfig(const GgufFile &file);

/// generation_config.json: the tokens that end a text.
std::string ggufGenerationConfig(const GgufFile &file);

/// tokenizer_config.json: the texts of special tokens.
std::string ggufTokenizerConfig(const GgufFile &file);

/// tokenizer.json; empty where the file has no vocabulary. Throws UserError for a kind of vocabulary, or a way of
/// splitting text, that it does not know: texts nearly cut right give nearly right answers, which nobody notices.
std::string ggufTokenizer(const GgufFile &file);

/// What the file says as one of the three above or as chat_template.jinja; empty for other names.
std::string ggufText(const GgufFile &file, std::string_view name);

} // namespace quern::runtime
#endif
