// Takes: the name of a multimodal checkpoint's tensor. Gives: its name in the text part.
#include "runtime/weights/TextPart.h"

#include <string_view>
#include <utility>

namespace quern::runtime {

std::string nameInTextPart(const std::string &name) {
  static constexpr std::pair<std::string_view, std::string_view> parts[] = {{"model.language_model.", "model."},
                                                                            {"model.text_model.", "model."},
                                                                            {"language_model.", ""},
                                                                            {"lm_head.", "lm_head."}};
  for (const auto &[outer, inner] : parts)
    if (name.starts_with(outer))
      return std::string(inner) + name.substr(outer.size());
  return "";
}

} // namespace quern::runtime
