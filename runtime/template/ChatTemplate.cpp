// Takes: a template and a conversation. Gives: the text that the model is to continue.
#include "runtime/template/ChatTemplate.h"

#include "runtime/Error.h"
#include "runtime/template/Evaluator.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

namespace quern::runtime {

struct ChatTemplate::Parsed {
  jinja::Body body;
};

ChatTemplate::ChatTemplate(const std::string &source) {
  if (source.size() > 1 << 20)
    throw UserError("the chat template is larger than 1 MB");
  parsed = std::make_unique<Parsed>(Parsed{jinja::parse(repairUtf8(source))});
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate &&) noexcept = default;

std::string ChatTemplate::render(const nlohmann::json &names) const {
  jinja::Budget budget;
  jinja::Scope scope;
  jinja::addFunctions(scope, budget);
  for (const auto &[name, value] : names.items())
    scope.names[name] = jinja::Value::fromJson(value);
  std::string out;
  jinja::Evaluator(budget).run(parsed->body, scope, out);
  return out;
}

} // namespace quern::runtime
