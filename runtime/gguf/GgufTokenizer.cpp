// Takes: the vocabulary of a GGUF file. Gives: tokenizer.json as the same model has it on Hugging Face, and which
// tokens end a text.
//
// The file names a kind of vocabulary, and for byte-level BPE a way of splitting text into words. Both are tables here.
#include "runtime/Error.h"
#include "runtime/gguf/Gguf.h"
#include "runtime/tokenizer/model/Model.h"
#include "runtime/tokenizer/text/Base64.h"
#include "runtime/tokenizer/text/JsonText.h"
#include "runtime/tokenizer/text/WordScanner.h"
#include "support/Utf8.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace quern::runtime {

using namespace jsontext;

namespace {

constexpr const char *space = "\xe2\x96\x81"; // U+2581, SentencePiece's space

constexpr const char *bloomWords =
    " ?[^(\\s|[.,!?\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c\xe3\x80\x81\xe0\xa5\xa4\xdb\x94\xd8\x8c])]+";

/// `tokenizer.ggml.pre`: what splits a text, one after the other.
struct Splitting {
  const char *names;
  const char *patterns[3];
  bool wholeWords = false, begins = false, composed = false; // ignore_merges; a text begins with BOS; NFC
};
const Splitting splittings[] = {
    {"gpt-2 gpt2 phi-2 jina-es jina-de mellum", {gpt2Words}},
    {"mpt olmo gpt-neox", {gpt2Words}, false, false, true},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b", {"\\p{N}", gpt2Words}},
    {"llama-bpe llama3 llama-v3 falcon3", {llama3Words}, true, true},
    {"dbrx smaug-bpe", {llama3Words}},
    {"qwen2 deepseek-r1-qwen", {qwen2Words}, false, false, true},
    {"stablelm2", {qwen2Words}},
    {"tekken", {tekkenWords}, true, true},
    {"gpt-4o llama4", {o200kWords}},
    {"bloom gpt3-finnish", {bloomWords}},
};

bool lists(const char *words, const std::string &word) {
  return (" " + std::string(words) + " ").find(" " + word + " ") != std::string::npos;
}

constexpr int Normal = NormalPiece, Unknown = UnknownPiece, Control = ControlPiece, UserDefined = UserDefinedPiece;

class Maker {
public:
  explicit Maker(const GgufFile &file) : file(file) {
    for (std::string_view text : file.texts("tokenizer.ggml.tokens")) {
      tokens.push_back(repairUtf8(text));
      if (ids.find(tokens.back()) < 0)
        ids.add(tokens.back(), int(tokens.size()) - 1);
    }
    kinds = file.list("tokenizer.ggml.token_type");
    kinds.resize(tokens.size(), Normal);
  }

  std::string run() {
    const std::string model = file.text("tokenizer.ggml.model").value_or("");
    if (model.empty() || tokens.empty())
      return "";
    if (model == "llama")
      sentencePiece();
    else if (model == "gpt2")
      bytePairs();
    else if (model == "bert")
      wordPiece();
    else if (model == "t5")
      unigram();
    else
      fail("its kind of vocabulary, " + quote(model) + ", is not known");
    std::string added;
    for (size_t i = 0; i < tokens.size(); ++i)
      if (int(kinds[i]) == Unknown || int(kinds[i]) == Control || int(kinds[i]) == UserDefined)
        append(added, {addedToken(int64_t(i), tokens[i], int(kinds[i]) != UserDefined)});
    return join({"{", result, ",\"added_tokens\":[", added, "]}"});
  }

private:
  const GgufFile &file;
  std::vector<std::string> tokens;
  Vocabulary ids; // the first number of each text
  std::vector<double> kinds;
  std::string result; // the fields, as JSON: text, as a tree's code would be larger than all of this

  [[noreturn]] void fail(const std::string &reason) const { throw UserError(file.file()->name() + ": " + reason); }

  void field(std::string_view name, Parts value) {
    append(result, {"\"", name, "\":"});
    put(result, value);
  }

  std::string vocabulary() const {
    std::string text;
    for (size_t i = 0; i < tokens.size(); ++i)
      if (ids.find(tokens[i]) == int(i))
        append(text, {literal(tokens[i]), ":", std::to_string(i)});
    return text;
  }

  /// The token of that role, by number or else by text; -1 if there is none.
  int64_t role(const char *key, std::string_view text = {}) const {
    if (std::optional<int64_t> id = file.integer(std::string("tokenizer.ggml.") + key + "_token_id"))
      if (*id >= 0 && *id < int64_t(tokens.size()))
        return *id;
    return text.empty() ? -1 : ids.find(text);
  }

  /// The text between a first and a last token, where they are wanted and there.
  void around(int64_t first, int64_t last) {
    const auto text = [&](int64_t id) { return id < 0 ? std::string() : tokens[size_t(id)]; };
    field("post_processor", {jsontext::around({{text(first), first}}, {{text(last), last}})});
  }

  void beginAndEnd(bool begins, bool ends) {
    around(file.flag("tokenizer.ggml.add_bos_token", begins) ? role("bos") : -1,
           file.flag("tokenizer.ggml.add_eos_token", ends) ? role("eos") : -1);
  }

  std::vector<double> scores() const {
    std::vector<double> list = file.list("tokenizer.ggml.scores");
    if (list.size() != tokens.size())
      fail("it has not one score for each token");
    if (!std::all_of(list.begin(), list.end(), [](double score) { return std::isfinite(score); }))
      fail("one of its tokens' scores is no number");
    return list;
  }

  /// SentencePiece's BPE: of two neighbours whose joint text is a token, those with the best score are joined first.
  void sentencePiece() {
    std::vector<int> types(kinds.begin(), kinds.end());
    std::replace(types.begin(), types.end(), UserDefined, Normal); // spaces in them are in the text as such
    std::string normalizers, decoders = R"({"type":"Replace","pattern":{"String":"\u2581"},"content":" "},)"
                                        R"({"type":"ByteFallback"},{"type":"Fuse"})";
    const int64_t unknown = role("unknown", "<unk>");
    field("model", {R"({"type":"BPE","fuse_unk":true,"byte_fallback":true,"unk_token":)",
                    unknown < 0 ? "null" : literal(tokens[size_t(unknown)]), ",\"vocab\":{", vocabulary(),
                    "},\"ranks\":", literal(ranksByScore(scores(), types)), "}"});
    if (file.flag("tokenizer.ggml.remove_extra_whitespaces", false))
      append(normalizers, {R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "})"});
    if (file.flag("tokenizer.ggml.add_space_prefix", true)) {
      append(normalizers, {R"({"type":"Prepend","prepend":"\u2581"})"});
      append(decoders, {R"({"type":"Strip","content":" ","start":1,"stop":0})"});
    }
    append(normalizers, {R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"})"});
    field("normalizer", {R"({"type":"Sequence","normalizers":[)", normalizers, "]}"});
    field("decoder", {R"({"type":"Sequence","decoders":[)", decoders, "]}"});
    beginAndEnd(true, false);
  }

  void bytePairs() {
    const std::string pre = file.text("tokenizer.ggml.pre").value_or("");
    const auto *way = std::find_if(std::begin(splittings), std::end(splittings),
                                   [&](const Splitting &s) { return lists(s.names, pre); });
    if (pre.empty() || way == std::end(splittings)) {
      std::string known;
      for (const Splitting &s : splittings)
        append(known, {" ", s.names});
      fail(join({"it splits text into words as ", quote(pre),
                 " does (tokenizer.ggml.pre), which is not known; give --tokenizer with the model's tokenizer.json ",
                 "(known are", known, ")"}));
    }
    std::string merges, steps;
    for (std::string_view merge : file.texts("tokenizer.ggml.merges"))
      append(merges, {literal(repairUtf8(merge))});
    for (const char *pattern : way->patterns)
      if (pattern)
        append(steps, {R"({"type":"Split","behavior":"Isolated","pattern":{"Regex":)",
                       literal(std::string_view(pattern)), "}}"});
    append(steps, {R"({"type":"ByteLevel","use_regex":false,"add_prefix_space":)",
                   literal(file.flag("tokenizer.ggml.add_space_prefix", false)), "}"});
    field("pre_tokenizer", {R"({"type":"Sequence","pretokenizers":[)", steps, "]}"});
    field("model", {R"({"type":"BPE","ignore_merges":)", literal(way->wholeWords), ",\"vocab\":{", vocabulary(),
                    "},\"merges\":[", merges, "]}"});
    field("decoder", {R"({"type":"ByteLevel"})"});
    if (way->composed)
      field("normalizer", {R"({"type":"NFC"})"});
    beginAndEnd(way->begins, false);
  }

  /// The file marks tokens that begin a word; the published vocabulary those that do not.
  void wordPiece() {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string &token = tokens[i];
      if (token.starts_with(space))
        token.erase(0, std::string_view(space).size());
      else if (int(kinds[i]) == Normal && !(token.starts_with('[') && token.ends_with(']')))
        token.insert(0, "##");
      else
        kinds[i] = Control;
    }
    ids = {};
    for (size_t i = 0; i < tokens.size(); ++i)
      if (ids.find(tokens[i]) < 0)
        ids.add(tokens[i], int(i));
    field("model", {R"({"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
                    R"("max_input_chars_per_word":100,"vocab":{)",
                    vocabulary(), "}}"});
    field("normalizer", {R"({"type":"BertNormalizer","lowercase":true})"});
    field("pre_tokenizer", {R"({"type":"BertPreTokenizer"})"});
    field("decoder", {R"({"type":"WordPiece","prefix":"##","cleanup":true})"});
    around(role("cls", "[CLS]"), role("seperator", "[SEP]")); // the key is spelled so
  }

  void unigram() {
    const std::vector<double> score = scores();
    std::string list;
    for (size_t i = 0; i < tokens.size(); ++i)
      append(list, {"[", literal(tokens[i]), ",", literal(score[i]), "]"});
    const int64_t unknown = role("unknown", "<unk>");
    field("model", {R"({"type":"Unigram","byte_fallback":false,"unk_id":)",
                    unknown < 0 ? "null" : std::to_string(unknown), ",\"vocab\":[", list, "]}"});
    std::string bytes;
    for (double byte : file.list("tokenizer.ggml.precompiled_charsmap"))
      bytes += char(int(byte) & 255);
    if (std::string map = encodeBase64(bytes); !map.empty())
      field("normalizer", {R"({"type":"Precompiled","precompiled_charsmap":")", map, "\"}"});
    const char *metaspace = R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always","split":true})";
    const bool words = file.flag("tokenizer.ggml.remove_extra_whitespaces", true);
    field("pre_tokenizer",
          {R"({"type":"Sequence","pretokenizers":[)", words ? R"({"type":"WhitespaceSplit"},)" : "", metaspace, "]}"});
    field("decoder", {metaspace});
    beginAndEnd(false, true);
  }
};

} // namespace

std::string ggufTokenizer(const GgufFile &file) {
  return Maker(file).run();
}

std::string ggufGenerationConfig(const GgufFile &file) {
  std::string ends;
  for (const char *key : {"eos", "eot", "eom"})
    if (std::optional<int64_t> id = file.integer(join({"tokenizer.ggml.", key, "_token_id"})))
      append(ends, {std::to_string(*id)});
  return join({"{\"eos_token_id\":[", ends, "]}"});
}

std::string ggufTokenizerConfig(const GgufFile &file) {
  const std::vector<std::string_view> tokens = file.texts("tokenizer.ggml.tokens");
  constexpr std::pair<const char *, const char *> roles[] = {
      {"bos", "bos"}, {"eos", "eos"}, {"unknown", "unk"}, {"padding", "pad"}};
  std::string fields;
  for (const auto &[key, name] : roles)
    if (std::optional<int64_t> id = file.integer(join({"tokenizer.ggml.", key, "_token_id"})))
      if (*id >= 0 && *id < int64_t(tokens.size()))
        append(fields, {"\"", name, "_token\":", literal(repairUtf8(tokens[size_t(*id)]))});
  return join({"{", fields, "}"});
}

std::string ggufText(const GgufFile &file, std::string_view name) {
  if (name == "tokenizer.json")
    return ggufTokenizer(file);
  if (name == "generation_config.json")
    return ggufGenerationConfig(file);
  if (name == "tokenizer_config.json")
    return ggufTokenizerConfig(file);
  if (name == "chat_template.jinja")
    return repairUtf8(file.text("tokenizer.chat_template").value_or(""));
  return "";
}

} // namespace quern::runtime
