// Takes: tokenizer.json. Gives: a tokenizer, and decode.
#include "runtime/tokenizer/Tokenizer.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/model/WordCache.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "support/Json.h"

#include <algorithm>

namespace quern::runtime {

using Json = nlohmann::json;

Tokenizer Tokenizer::parse(std::string_view text, const std::string &label) {
  try {
    Json json = parseJson(text, label);
    if (!json.is_object())
      throw UserError("it holds no object");
    auto field = [&](const char *name) { return json.contains(name) ? json[name] : Json(); };
    Tokenizer result;
    result.normalizer = Normalizer::fromJson(field("normalizer"));
    result.preTokenizer = PreTokenizer::fromJson(field("pre_tokenizer"));
    result.bytes = result.preTokenizer && result.preTokenizer->dropByteCharacters();
    result.decoder = Decoder::fromJson(field("decoder"));
    result.model = TokenModel::fromJson(json.at("model"));
    result.known = std::make_shared<WordCaches>();
    result.largestId = result.model->vocabulary().size() - 1;
    if (json.contains("added_tokens")) {
      result.added.read(json["added_tokens"], result.normalizer.get());
      for (const Json &token : json["added_tokens"])
        result.largestId = std::max(result.largestId, token.at("id").get<int>());
    }
    result.readPostProcessor(field("post_processor"));
    if (Json truncation = field("truncation"); truncation.is_object()) {
      result.maxLength = truncation.at("max_length").get<size_t>();
      result.cutLeft = truncation.value("direction", "Right") == "Left";
    }
    return result;
  } catch (const JsonError &error) { // it names the file
    throw UserError(std::string("the tokenizer ") + error.what());
  } catch (const Json::exception &error) {
    throw UserError(label + " is no valid tokenizer: " + jsonReason(error.what()));
  } catch (const UserError &error) {
    throw UserError(label + " is no valid tokenizer: " + error.what());
  }
}

int Tokenizer::special(const std::string &text) const {
  int id = findToken(text);
  if (id < 0)
    throw UserError("the template's token " + quote(text) + " is not in the vocabulary");
  return id;
}

void Tokenizer::readPostProcessor(const Json &json) {
  if (json.is_null())
    return;
  std::string type = json.at("type").get<std::string>();
  if (type == "Sequence") {
    for (const Json &part : json.at("processors"))
      readPostProcessor(part);
  } else if (type == "TemplateProcessing") {
    std::vector<int> outer;
    for (const Json &part : json.at("single")) {
      if (part.contains("Sequence")) {
        outer.insert(outer.end(), pattern.begin(), pattern.end());
      } else {
        const Json &token = json.at("special_tokens").at(part.at("SpecialToken").at("id").get<std::string>());
        for (const Json &id : token.at("ids"))
          outer.push_back(std::max(0, id.get<int>()));
      }
    }
    if (std::count(outer.begin(), outer.end(), -1) > 1)
      throw UserError("the template repeats its text");
    pattern = outer;
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    pattern.insert(pattern.begin(), special(json.at("cls").at(0).get<std::string>()));
    pattern.push_back(special(json.at("sep").at(0).get<std::string>()));
  } else if (type != "ByteLevel") { // which changes offsets only
    throw UserError("the post-processor type " + quote(type) + " is not known");
  }
}

std::string Tokenizer::decode(const std::vector<int> &ids, bool skipSpecial) const {
  std::vector<std::string> tokens;
  for (int id : ids) {
    const AddedToken *token = added.find(id);
    if (token && token->special && skipSpecial)
      continue;
    if (const std::string *text = token ? &token->text : model->vocabulary().text(id))
      tokens.push_back(*text);
  }
  std::string result;
  if (decoder) {
    for (const std::string &part : decoder->apply(std::move(tokens)))
      result += part;
  } else {
    for (size_t i = 0; i < tokens.size(); ++i)
      result += (i > 0 ? " " : "") + tokens[i];
  }
  return result;
}

const std::string *Tokenizer::tokenText(int id) const {
  const AddedToken *token = added.find(id);
  return token ? &token->text : model->vocabulary().text(id);
}

int Tokenizer::findToken(std::string_view text) const {
  const AddedToken *token = added.find(text);
  return token ? token->id : model->vocabulary().find(text);
}

int Tokenizer::size() const {
  return largestId + 1;
}

} // namespace quern::runtime
