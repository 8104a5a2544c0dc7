// The tensors of a multimodal checkpoint's text part.
#ifndef QUERN_RUNTIME_WEIGHTS_TEXTPART_H
#define QUERN_RUNTIME_WEIGHTS_TEXTPART_H

#include <string>

namespace quern::runtime {

/// The name that a tensor of the text part of a multimodal checkpoint has where that part is a model by itself; empty for names of
/// other parts. transformers writes the part as model.language_model with lm_head beside it, before its version 4.52 as
/// language_model, which has lm_head inside; Idefics 3 and SmolVLM as model.text_model.
std::string nameInTextPart(const std::string &name);

} // namespace quern::runtime
#endif
