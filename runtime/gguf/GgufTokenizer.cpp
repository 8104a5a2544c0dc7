// Takes: the vocabulary of a GGUF file. Gives: tokenizer.json as the same model has it on Hugging Face, and which
// tokens end a text.
//
// The file names a kind of vocabulary, and for BPE a way of splitting text into words (GgufSplittings.cpp).
#include "runtime/Error.h"
#include "runtime/gguf/Gguf.h"
#include "runtime/gguf/GgufSplittings.h"
#include "runtime/tokenizer/model/Model.h"
#include "runtime/tokenizer/text/Base64.h"
#include "runtime/tokenizer/text/JsonText.h"
#include "runtime/tokenizer/text/WordScanner.h"
#include "support/Glob.h"
#include "support/Utf8.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace quern::runtime {

using namespace jsontext;

namespace {

constexpr const char *space = "\xe2\x96\x81"; // U+2581, SentencePiece's space

constexpr const char *markSpaces = R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"})";
constexpr const char *spacesAndBytes = R"({"type":"Replace","pattern":{"String":"\u2581"},"content":" "},)"
                                       R"({"type":"ByteFallback"},{"type":"Fuse"})";

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
    if (model.empty() || model == "none" || model == "no_vocab" || tokens.empty())
      return "";
    if (model == "llama")
      sentencePiece();
    else if (model == "gpt2")
      pairs(file.text("tokenizer.ggml.pre").value_or(""));
    else if (model == "gemma4" || model == "whitespace") // these have one way each
      pairs(model);
    else if (model == "bert")
      wordPiece();
    else if (model == "t5")
      unigram();
    else
      fail("its kind of vocabulary, " + quote(model) +
           ", is not known; give --tokenizer with the model's tokenizer.json (known are llama, gpt2, gemma4, " +
           "whitespace, bert and t5)");
    std::string added;
    for (size_t i = 0; i < tokens.size(); ++i)
      if (int(kinds[i]) == Unknown || int(kinds[i]) == Control || int(kinds[i]) == UserDefined)
        append(added, {addedToken(int64_t(i), tokens[i], int(kinds[i]) != UserDefined, spacesOf(int64_t(i)))});
    return join({"{", result, ",\"added_tokens\":[", added, "]}"});
  }

private:
  const GgufFile &file;
  std::vector<std::string> tokens;
  Vocabulary ids; // the first number of each text
  std::vector<double> kinds;
  std::string result;        // the fields, as JSON: text, as a tree's code would be larger than all of this
  int64_t mask = -1;         // takes the spaces before it
  bool spacesBehind = false; // special tokens take those

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

  /// Which spaces beside an added token belong to it; the file does not say.
  const char *spacesOf(int64_t id) const {
    const std::string &text = tokens[size_t(id)];
    if (id == mask)
      return R"(,"lstrip":true)";
    return spacesBehind && text != "<unk>" && text != "<s>" && text != "<|endoftext|>" ? R"(,"rstrip":true)" : "";
  }

  std::string unknownToken() const {
    const int64_t unknown = role("unknown", "<unk>");
    return unknown < 0 ? "null" : literal(tokens[size_t(unknown)]);
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
    std::string normalizers, decoders = spacesAndBytes;
    field("model", {R"({"type":"BPE","fuse_unk":true,"byte_fallback":true,"unk_token":)", unknownToken(),
                    ",\"vocab\":{", vocabulary(), "},\"ranks\":", literal(ranksByScore(scores(), types)), "}"});
    if (file.flag("tokenizer.ggml.remove_extra_whitespaces", false))
      append(normalizers, {R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "})"});
    if (file.flag("tokenizer.ggml.add_space_prefix", true)) {
      append(normalizers, {R"({"type":"Prepend","prepend":"\u2581"})"});
      append(decoders, {R"({"type":"Strip","content":" ","start":1,"stop":0})"});
    }
    append(normalizers, {markSpaces});
    field("normalizer", {R"({"type":"Sequence","normalizers":[)", normalizers, "]}"});
    field("decoder", {R"({"type":"Sequence","decoders":[)", decoders, "]}"});
    spacesBehind = file.architecture() == "phi3";
    beginAndEnd(true, false);
  }

  /// Byte-pair encoding with merges.
  void pairs(const std::string &pre) {
    const Splitting *way = splittingOf(pre, file.architecture());
    if (!way)
      fail(join({"it splits text into words as ", quote(pre),
                 " does (tokenizer.ggml.pre), which is not known; give --tokenizer with the model's tokenizer.json ",
                 "(known are", knownSplittings(), ")"}));
    const bool characters = way->is & Splitting::Characters, words = way->steps[0], marked = characters && !words;
    std::string normalizers;
    if (way->is & Splitting::Composed)
      append(normalizers, {R"({"type":"NFC"})"});
    if (file.flag("tokenizer.ggml.normalizer.lowercase", false))
      append(normalizers, {R"({"type":"Lowercase"})"});
    if (marked)
      append(normalizers, {markSpaces});
    field("normalizer", {R"({"type":"Sequence","normalizers":[)", normalizers, "]}"});
    field("pre_tokenizer", {R"({"type":"Sequence","pretokenizers":[)", steps(*way), "]}"});
    field("model", {R"({"type":"BPE","ignore_merges":)", literal(bool(way->is & Splitting::WholeWords)),
                    R"(,"fuse_unk":)", literal(marked), R"(,"byte_fallback":)", literal(marked), R"(,"unk_token":)",
                    characters ? unknownToken() : "null", ",\"vocab\":{", vocabulary(), "},", merges(pre), "}"});
    if (marked)
      field("decoder", {R"({"type":"Sequence","decoders":[)", spacesAndBytes, "]}"});
    else if (!characters)
      field("decoder", {R"({"type":"ByteLevel"})"});
    const bool begins = way->is & Splitting::Begins, ends = way->is & Splitting::Ends;
    if (ends) // encoders, whose mask stands for a word with the space before it
      mask = role("mask", "<mask>");
    beginAndEnd(begins, ends);
  }

  std::string steps(const Splitting &way) const {
    std::string list;
    // The space that a text may begin with comes before all splits, which ByteLevel with its own pattern does.
    if (way.steps[0] == gpt2Words && file.flag("tokenizer.ggml.add_space_prefix", false))
      return R"({"type":"ByteLevel","add_prefix_space":true})";
    for (const char *step : way.steps)
      if (step && *step == '{')
        append(list, {step});
      else if (step)
        append(list,
               {R"({"type":"Split","behavior":"Isolated","pattern":{"Regex":)", literal(std::string_view(step)), "}}"});
    if (!(way.is & Splitting::Characters) && list.find("ByteLevel") == std::string::npos)
      append(list, {R"({"type":"ByteLevel","use_regex":false,"add_prefix_space":false})"});
    return list;
  }

  std::string merges(const std::string &pre) const {
    if (file.has("tokenizer.ggml.merges")) {
      std::string list;
      for (std::string_view merge : file.texts("tokenizer.ggml.merges"))
        append(list, {literal(repairUtf8(merge))});
      return "\"merges\":[" + list + "]";
    }
    if (pre != "kimi-k2") // whose tokens' numbers are tiktoken's ranks
      fail("it has no merges (tokenizer.ggml.merges); give --tokenizer with the model's tokenizer.json");
    std::vector<int> ranks(tokens.size(), -1);
    for (size_t i = 0; i < tokens.size(); ++i)
      if (int(kinds[i]) == Normal)
        ranks[i] = int(i);
    return "\"ranks\":" + literal(ranks);
  }

  /// The file marks tokens that begin a word; the published vocabulary those that do not.
  void wordPiece() {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string &token = tokens[i];
      if (token.starts_with(space))
        token.erase(0, std::string_view(space).size());
      else if (support::listsName("[PAD] [UNK] [CLS] [SEP] [MASK]", token))
        kinds[i] = Control; // files without kinds
      else if (int(kinds[i]) == Normal && !(token.starts_with('[') && token.ends_with(']')))
        token.insert(0, "##");
    }
    ids = {};
    for (size_t i = 0; i < tokens.size(); ++i)
      if (ids.find(tokens[i]) < 0)
        ids.add(tokens[i], int(i));
    const int64_t unknown = role("unknown", "[UNK]");
    field("model",
          {R"({"type":"WordPiece","continuing_subword_prefix":"##","max_input_chars_per_word":100,"unk_token":)",
           literal(unknown < 0 ? "[UNK]" : tokens[size_t(unknown)]), ",\"vocab\":{", vocabulary(), "}}"});
    const bool lower = file.flag("tokenizer.ggml.normalizer.lowercase", true);
    field("normalizer", {R"({"type":"BertNormalizer","lowercase":)", literal(lower), R"(,"strip_accents":)",
                         literal(file.flag("tokenizer.ggml.normalizer.strip_accents", lower)), "}"});
    field("pre_tokenizer", {R"({"type":"BertPreTokenizer"})"});
    field("decoder", {R"({"type":"WordPiece","prefix":"##","cleanup":true})"});
    around(role("cls", "[CLS]"), role("seperator", "[SEP]")); // the key is spelled so
  }

  /// T5's blanks are behind the pieces of its file, and converters do not name them: the last is the first.
  void nameBlanks() {
    int next = 99;
    for (size_t i = 0; i < tokens.size() && next >= 0; ++i)
      if (tokens[i] == "[PAD" + std::to_string(i) + "]") {
        tokens[i] = "<extra_id_" + std::to_string(next--) + ">";
        kinds[i] = Control;
      }
  }

  void unigram() {
    if (file.architecture().starts_with("t5") && ids.find("<extra_id_0>") < 0)
      nameBlanks();
    const std::vector<double> score = scores();
    std::string list;
    for (size_t i = 0; i < tokens.size(); ++i)
      append(list, {"[", literal(tokens[i]), ",", literal(score[i]), "]"});
    const int64_t unknown = role("unknown", "<unk>");
    field("model", {R"({"type":"Unigram","byte_fallback":)",
                    literal(std::find(kinds.begin(), kinds.end(), BytePiece) != kinds.end()), R"(,"unk_id":)",
                    unknown < 0 ? "null" : std::to_string(unknown), ",\"vocab\":[", list, "]}"});
    std::string bytes;
    for (double byte : file.list("tokenizer.ggml.precompiled_charsmap"))
      bytes += char(int(byte) & 255);
    if (std::string map = encodeBase64(bytes); !map.empty())
      field("normalizer", {R"({"type":"Precompiled","precompiled_charsmap":")", map, "\"}"});
    const bool prefix = file.flag("tokenizer.ggml.add_space_prefix", true);
    const std::string metaspace = join({R"({"type":"Metaspace","replacement":"\u2581","split":true,"prepend_scheme":")",
                                        prefix ? "always" : "never", "\"}"});
    const bool words = file.flag("tokenizer.ggml.remove_extra_whitespaces", true);
    field("pre_tokenizer",
          {R"({"type":"Sequence","pretokenizers":[)", words ? R"({"type":"WhitespaceSplit"},)" : "", metaspace, "]}"});
    field("decoder", {metaspace});
    mask = ids.find("<mask>");
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
