// Takes: the files of a model. Gives: the text of its tokenizer.json.
#include "runtime/tokenizer/files/VocabularyFiles.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/text/JsonText.h"
#include "support/CheckpointFiles.h"
#include "support/Files.h"
#include "support/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>

namespace quern::runtime {

using Json = nlohmann::json;

std::string tokenizerOfFile(std::string_view content, const std::string &name, const ReadBeside &beside) {
  try {
    // JSON begins with a brace. A ModelProto begins with the tag of its first piece, 0x0a, and its length; base64 has
    // neither. tiktoken files are called tokenizer.model, too.
    const size_t first = content.find_first_not_of(" \t\r\n");
    if (first != std::string_view::npos && content[first] == '{')
      return std::string(content);
    if (content.starts_with('\n'))
      return tokenizerOfSentencePiece(content, name, beside);
    if (name.ends_with(".model") || name.ends_with(".tiktoken"))
      return tokenizerOfRanks(content, name, beside);
    return std::string(content);
  } catch (const Json::exception &error) {
    throw UserError(name + ": what is stored beside it is no valid config of a tokenizer: " + jsonReason(error.what()));
  }
}

std::optional<TokenizerText> findTokenizer(const ReadBeside &beside) {
  if (std::optional<std::string> json = beside("tokenizer.json"))
    return TokenizerText{std::move(*json), "tokenizer.json"};
  for (const char *name : vocabulariesBesideWeights)
    if (std::optional<std::string> content = beside(name))
      return TokenizerText{tokenizerOfFile(*content, name, beside), name};
  return std::nullopt;
}

TokenizerText tokenizerAt(const std::string &path) {
  const std::string folder = isFolder(path) ? path : folderOf(path);
  const ReadBeside beside = [&](const std::string &name) {
    const std::string whole = folder + "/" + name;
    return fileExists(whole) ? std::optional(readFile(whole)) : std::nullopt;
  };
  if (!isFolder(path))
    return {tokenizerOfFile(readFile(path), path, beside), path};
  std::optional<TokenizerText> found = findTokenizer(beside);
  if (!found)
    throw UserError(path + " holds no tokenizer.json, nor tokenizer.model or another vocabulary");
  found->file = path + "/" + found->file;
  return std::move(*found);
}

Json jsonBeside(const ReadBeside &beside, const std::string &name) {
  const std::optional<std::string> text = beside(name);
  Json json = text ? parseJson(*text, name) : Json::object();
  if (!json.is_object())
    throw UserError(name + " holds no object");
  return json;
}

std::string tokenText(const Json &token) {
  return token.is_null() ? "" : token.is_object() ? token.at("content").get<std::string>() : token.get<std::string>();
}

void addConfiguredTokens(AddedTexts &list, const Json &config) {
  if (!config.contains("added_tokens_decoder"))
    return;
  for (const auto &[id, token] : config["added_tokens_decoder"].items()) {
    if (id.empty() || id.size() > 8 || id.find_first_not_of("0123456789") != std::string::npos)
      throw UserError("added_tokens_decoder of tokenizer_config.json has the bad number " + quote(id));
    std::string json = token.dump();
    if (json.size() < 3 || json[0] != '{')
      throw UserError("added_tokens_decoder of tokenizer_config.json has no token as number " + id);
    json.insert(1, "\"id\":" + std::to_string(std::atoi(id.c_str())) + ",");
    list[std::atoi(id.c_str())] = {token.at("content").get<std::string>(), std::move(json)};
  }
}

int findAdded(const AddedTexts &list, const std::string &text) {
  for (const auto &[id, token] : list)
    if (token.first == text)
      return id;
  return -1;
}

std::string joinAdded(const AddedTexts &list) {
  std::string all;
  for (const auto &[id, token] : list)
    jsontext::append(all, {token.second});
  return "[" + all + "]";
}

} // namespace quern::runtime
