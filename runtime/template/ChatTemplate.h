// Chat templates: what a model was trained to see around the messages of a conversation.
#ifndef QUERN_RUNTIME_TEMPLATE_CHATTEMPLATE_H
#define QUERN_RUNTIME_TEMPLATE_CHATTEMPLATE_H

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>

namespace quern::runtime {

/// A Jinja template as Hugging Face's tokenizers carry them; tuples are lists, and keys of mappings strings. It reads no files and runs a bounded number of steps in
/// bounded memory, whatever it says.
class ChatTemplate {
public:
  /// Throws UserError with the line of what is wrong or not known here.
  explicit ChatTemplate(const std::string &source);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate &&) noexcept;

  /// `names`: an object with what the template may ask for: "messages" ([{"role", "content"}, ...]),
  /// "add_generation_prompt", "bos_token" and so on. Throws UserError, also where the template refuses.
  std::string render(const nlohmann::json &names) const;

private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed;
};

} // namespace quern::runtime
#endif
