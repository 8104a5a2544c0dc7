// Takes: a SentencePiece model of a class that transformers builds a pipeline for. Gives: the text of that tokenizer.json.
//
// Its parts are those of the `tokenizers` library: there every piece of the file can be found in a text, and unknown
// characters cost as much as there.
#include "runtime/Error.h"
#include "runtime/tokenizer/files/SentencePieceModel.h"
#include "runtime/tokenizer/text/Base64.h"
#include "runtime/tokenizer/text/JsonText.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>

namespace quern::runtime::sentencepiece {

using Json = nlohmann::json;
using namespace jsontext;

namespace {

class PipelineMaker {
public:
  /// `numbered`: tokens of the config or of a file beside it, with the numbers that they have there.
  PipelineMaker(Model model, const Json &config, const Json &numbered, const Class &row)
      : model(std::move(model)), config(config), numbered(numbered), row(row), pipeline(*row.pipeline) {}

  std::string run() {
    if (model.type != 1)
      throw UserError("models of " + std::string(row.names) +
                      " are Unigram, this one is not. Save the tokenizer as tokenizer.json");
    arrange();
    addTokens();
    const std::string mark = R"("type":"Metaspace","replacement":"\u2581","prepend_scheme":"always")";
    return join({R"({"normalizer":{"type":"Sequence","normalizers":[)", normalizers(),
                 R"(]},"pre_tokenizer":{"type":"Sequence","pretokenizers":[)",
                 pipeline.splitsAtSpace ? R"({"type":"WhitespaceSplit"},)" : "", "{", mark, R"(}]},"decoder":{)", mark,
                 R"(},"model":{"type":"Unigram","exact_scores":true,"unk_id":)", std::to_string(unknown),
                 R"(,"vocab":[)", vocabulary(), R"(]},"post_processor":)", around(tokens(row.first), tokens(row.last)),
                 R"(,"added_tokens":)", joinAdded(added), "}"});
  }

private:
  Model model;
  const Json &config, &numbered;
  const Class &row;
  const Pipeline &pipeline;
  const std::vector<std::string> languages = words(pipeline.languages);
  std::map<std::string, int> numbers; // of pieces, and of tokens behind them
  AddedTexts added;
  int unknown = -1, next = 0;

  Json given(const std::string &role) const {
    return config.value(role.starts_with("mask_") ? role : role + "_token", Json());
  }
  /// The text of a token; empty where the config has none.
  std::string text(const std::string &role) const {
    if (role == "src_lang")
      return sourceLanguage();
    if (const Json token = given(role); !token.is_null())
      return tokenText(token);
    if (role.starts_with("mask") && config.contains(role == "mask" ? "mask_token" : role))
      return ""; // null
    for (const auto &[name, usual] : pipeline.roles)
      if (role == name)
        return usual;
    return "";
  }

  std::string sourceLanguage() const {
    const Json wanted = config.value("src_lang", Json());
    const std::string language = wanted.is_null() ? "en_XX" : wanted.get<std::string>();
    if (std::find(languages.begin(), languages.end(), language) == languages.end())
      throw UserError("src_lang of tokenizer_config.json is " + quote(language) + ", which is no language of " +
                      row.names + "; known are " + pipeline.languages);
    return language;
  }

  /// The numbers that the class gives its tokens.
  void arrange() {
    std::vector<Piece> made, &pieces = model.pieces;
    for (const std::string role : pipeline.head)
      if (const std::string name = text(role); !name.empty())
        made.push_back({name, 0, role == "unk" ? UnknownPiece : NormalPiece});
    for (const std::string &name : fillers())
      made.push_back({name, -100});
    if (pieces.size() < row.replaced)
      throw UserError("it has fewer pieces than models of its class");
    pieces.erase(pieces.begin(), pieces.begin() + std::ptrdiff_t(row.replaced));
    pieces.insert(pieces.begin(), made.begin(), made.end());
    for (const std::string &language : languages)
      pieces.push_back({language});
    if (!languages.empty() && !text("mask").empty())
      pieces.push_back({text("mask")});
    for (size_t i = 0; i < pieces.size(); ++i) {
      numbers[pieces[i].text] = int(i);
      if (pieces[i].kind == UnknownPiece)
        unknown = int(i);
    }
    next = int(pieces.size());
    for (const auto &[name, id] : numbered.items()) {
      const int number = idOf(id);
      if (numbers.try_emplace(name, number).second)
        next = std::max(next, number + 1);
    }
    if (unknown < 0)
      throw UserError("it has no piece for unknown characters; it is cut off, or no model");
  }
  static int idOf(const Json &id) {
    const int64_t number = id.get<int64_t>();
    if (number < 0 || number > 1 << 24)
      throw UserError("an added token has a bad number");
    return int(number);
  }
  /// Numbers that Pegasus left free.
  std::vector<std::string> fillers() const {
    std::vector<std::string> names;
    const int64_t end =
        std::clamp<int64_t>(pipeline.offset ? config.value("offset", int64_t(pipeline.offset)) : 0, 0, 10'000);
    for (int64_t i = 2; i < end; ++i)
      names.push_back("<unk_" + std::to_string(i) + ">");
    return names;
  }

  /// What is found in a text before all else. Of tokens with one text the last counts.
  void addTokens() {
    for (const auto &[role, usual] : pipeline.roles) {
      const std::string name = text(role);
      if (name.empty() || std::string(role) == "mask_token_sent")
        continue;
      Json token = given(role);
      if (!token.is_object())
        token = {{"content", name}, {"lstrip", pipeline.stripsBeforeMask && std::string(role) == "mask"}};
      token["id"] = numberOf(name);
      token["special"] = true;
      added[numberOf(name)] = {name, token.dump()};
    }
    addFurtherTokens();
    for (const auto &[name, id] : numbered.items())
      if (!added.count(numberOf(name)))
        added[numberOf(name)] = {name, Json{{"id", numberOf(name)}, {"content", name}}.dump()};
    addConfiguredTokens(added, config);
  }
  /// The list of the config replaces what the class and the file have.
  void addFurtherTokens() {
    for (const char *field : {"extra_special_tokens", "additional_special_tokens"})
      if (const Json list = config.value(field, Json()); list.is_array()) {
        for (const Json &token : list)
          add(tokenText(token), true);
        return;
      }
    for (const std::string &language : languages)
      add(language, true);
    if (pipeline.offset) {
      add(text("mask_token_sent"), true);
      for (const std::string &name : fillers())
        add(name, true);
      return;
    }
    for (const Piece &piece : model.pieces)
      if (piece.kind == ControlPiece || piece.kind == UserDefinedPiece)
        add(piece.text, piece.kind == ControlPiece);
  }
  void add(const std::string &name, bool special) {
    if (!name.empty())
      added[numberOf(name)] = {name, addedToken(numberOf(name), name, special)};
  }
  int numberOf(const std::string &name) { return numbers.try_emplace(name, next).second ? next++ : numbers[name]; }

  std::string normalizers() const {
    std::string list;
    const auto replace = [&](const char *pattern, const char *content) {
      append(list, {R"({"type":"Replace","pattern":{)", pattern, R"(},"content":")", content, "\"}"});
    };
    for (const std::string &step : words(pipeline.normalizers)) {
      if (step == "quotes") {
        replace(R"("String":"``")", "\\\"");
        replace(R"("String":"''")", "\\\"");
      } else if (step == "accents" && !(pipeline.keepAccentsCounts && config.value("keep_accents", false))) {
        append(list, {R"({"type":"NFKD"},{"type":"StripAccents"})"});
      } else if (step == "lower" && config.value("do_lower_case", pipeline.lowers)) {
        append(list, {R"({"type":"Lowercase"})"});
      } else if (step == "map" && !model.map.empty()) {
        append(list, {R"({"type":"Precompiled","precompiled_charsmap":")", encodeBase64(model.map), "\"}"});
      } else if (step == "lines" && model.map.empty()) { // a map does that, too
        replace(R"("String":"\n")", " ");
      } else if (step == "spaces") {
        replace(R"("Regex":" {2,}")", " ");
      } else if (step == "marks") { // which stand for spaces from here on
        replace(R"("Regex":" {2,}")", "\\u2581");
      }
    }
    return list;
  }

  std::string vocabulary() const {
    std::string list;
    for (const Piece &piece : model.pieces)
      append(list, {"[", literal(piece.text), ",", literal(double(piece.score)), "]"});
    return list;
  }

  Tokens tokens(const char *roles) {
    Tokens list;
    for (const std::string &role : words(roles))
      list.push_back({text(role), numberOf(text(role))});
    return list;
  }
};

} // namespace

std::string pipelineTokenizer(Model model, const Json &config, const ReadBeside &beside, const Class &row) {
  Json whole = config, numbered = Json::object();
  if (config.contains("added_tokens_decoder")) {
    for (const auto &[id, token] : config["added_tokens_decoder"].items())
      numbered[tokenText(token)] = std::atoi(id.c_str()); // addConfiguredTokens() refuses what is no number
  } else {                                                // which took the place of these files
    whole.update(jsonBeside(beside, "special_tokens_map.json"));
    numbered = jsonBeside(beside, "added_tokens.json");
  }
  return PipelineMaker(std::move(model), whole, numbered, row).run();
}

} // namespace quern::runtime::sentencepiece
