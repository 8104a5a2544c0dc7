// Takes: a file of tiktoken's kind, a line for each token: its bytes in base64, and its rank, which is its number. Gives:
// the text of a tokenizer.json that does the same.
//
// The file does not say how text is split into words, nor which special tokens there are. tokenizer_config.json may say
// both (`pat_str`, `added_tokens_decoder`); of the families in the table here they are known by the name of the file, or
// by the class or the type of the model. Anything else is refused: nearly the right words are the wrong tokens.
#include "runtime/Error.h"
#include "runtime/tokenizer/files/VocabularyFiles.h"
#include "runtime/tokenizer/model/Model.h"
#include "runtime/tokenizer/text/Base64.h"
#include "runtime/tokenizer/text/ByteChars.h"
#include "runtime/tokenizer/text/JsonText.h"
#include "runtime/tokenizer/text/WordScanner.h"
#include "support/Glob.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace quern::runtime {

using Json = nlohmann::json;
using namespace jsontext;

namespace {

struct Family {
  const char *names;   // of files; tokenizer_class; model_type
  const char *words;   // the pattern
  bool composed;       // text is put in normal form C first
  const char *begins;  // the token before a text
  const char *special; // numbered from behind the ranks on, or "TEXT@NUMBER"; "TEXT*A-B": one for each of these numbers
};

const Family families[] = {
    {"llama Llama3Tokenizer", llama3Words, false, "<|begin_of_text|>",
     "<|begin_of_text|> <|end_of_text|> <|reserved_special_token_*0-3 <|start_header_id|> <|end_header_id|> "
     "<|reserved_special_token_*4-4 <|eot_id|> <|reserved_special_token_*5-250"},
    {"qwen.tiktoken qwen QWenTokenizer", qwen2Words, true, "", "<|endoftext|> <|im_start|> <|im_end|> <|extra_*0-204"},
    {"cl100k_base.tiktoken", llama3Words, false, "",
     "<|endoftext|>@100257 <|fim_prefix|>@100258 <|fim_middle|>@100259 <|fim_suffix|>@100260 <|endofprompt|>@100276"},
    {"o200k_base.tiktoken", o200kWords, false, "", "<|endoftext|>@199999 <|endofprompt|>@200018"},
    {"gpt2.tiktoken r50k_base.tiktoken p50k_base.tiktoken", gpt2Words, false, "", "<|endoftext|>@50256"},
};

/// The special tokens of a family; `next` is the number behind the ranks.
AddedTexts specialOf(const Family &family, int next) {
  AddedTexts list;
  const auto put = [&](const std::string &text, int id) { list[id] = {text, addedToken(id, text, true)}; };
  const std::string all = std::string(family.special) + " ";
  for (size_t at = 0, end; at < all.size(); at = end + 1) {
    end = all.find(' ', at);
    const std::string word = all.substr(at, end - at);
    if (const size_t star = word.find('*'); star != std::string::npos) {
      for (int i = std::atoi(word.c_str() + star + 1); i <= std::atoi(word.c_str() + word.find('-', star) + 1); ++i)
        put(word.substr(0, star) + std::to_string(i) + "|>", next++);
    } else if (const size_t sign = word.find('@'); sign != std::string::npos) {
      put(word.substr(0, sign), std::atoi(word.c_str() + sign + 1));
    } else {
      put(word, next++);
    }
  }
  return list;
}

/// The tokens' bytes as characters that stand for them, and their numbers.
std::string readRanks(std::string_view content, int &largest) {
  constexpr int mostTokens = 1 << 24;
  std::string vocabulary;
  Vocabulary seen;
  size_t line = 0;
  for (size_t at = 0, end; at < content.size(); at = end + 1) {
    ++line;
    end = std::min(content.find('\n', at), content.size());
    std::string_view text = content.substr(at, end - at);
    if (text.ends_with('\r'))
      text.remove_suffix(1);
    if (text.empty())
      continue;
    const size_t space = text.find(' ');
    const std::string_view number = space == std::string_view::npos ? "" : text.substr(space + 1);
    const std::optional<std::string> bytes = decodeBase64(text.substr(0, std::min(space, text.size())));
    if (!bytes || bytes->empty() || number.empty() || number.size() > 8 ||
        number.find_first_not_of("0123456789") != std::string_view::npos)
      throw UserError(format("line %zu is not a token in base64 and its rank", line));
    const int rank = std::atoi(std::string(number).c_str());
    if (rank > mostTokens)
      throw UserError(format("line %zu has a rank that no vocabulary has", line));
    std::string token = toByteChars(*bytes);
    if (seen.find(token) >= 0)
      throw UserError(format("line %zu has a token that an earlier line has", line));
    append(vocabulary, {literal(token), ":", std::to_string(rank)});
    seen.add(std::move(token), rank);
    largest = std::max(largest, rank);
  }
  return vocabulary;
}

} // namespace

std::string tokenizerOfRanks(std::string_view content, const std::string &name, const ReadBeside &beside) {
  try {
    int largest = -1;
    const std::string vocabulary = readRanks(content, largest);
    if (vocabulary.empty())
      throw UserError("it holds no token");
    const Json config = jsonBeside(beside, "tokenizer_config.json");
    const std::string type = config.contains("tokenizer_class") ? tokenText(config["tokenizer_class"]) : "";
    const std::string model = jsonBeside(beside, "config.json").value("model_type", "");
    const std::string file = name.substr(name.rfind('/') + 1);
    const auto *family = std::find_if(std::begin(families), std::end(families), [&](const Family &row) {
      return support::listsName(row.names, file) || support::listsName(row.names, type) ||
             support::listsName(row.names, model);
    });
    const bool known = family != std::end(families);
    const std::string words = config.value("pat_str", std::string(known ? family->words : ""));
    if (words.empty())
      throw UserError("how it splits text into words is not known: no family is called " + quote(file) +
                      (model.empty() ? "" : " or " + quote(model)) +
                      "; write the pattern as pat_str in tokenizer_config.json beside it, or give a tokenizer.json");
    AddedTexts added;
    if (known && !config.contains("added_tokens_decoder"))
      added = specialOf(*family, largest + 1);
    addConfiguredTokens(added, config);
    std::vector<int> ranks(size_t(largest) + 1);
    std::iota(ranks.begin(), ranks.end(), 0);
    const std::string begins = known ? family->begins : "";
    const int first = begins.empty() ? -1 : findAdded(added, begins);
    return join({R"({"normalizer":)", known && family->composed ? R"({"type":"NFC"})" : "null",
                 R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated",)",
                 R"("pattern":{"Regex":)", literal(words),
                 R"(}},{"type":"ByteLevel","use_regex":false,"add_prefix_space":false}]},)",
                 R"("model":{"type":"BPE","ignore_merges":true,"vocab":{)", vocabulary, R"(},"ranks":)", literal(ranks),
                 R"(},"decoder":{"type":"ByteLevel"},"post_processor":)",
                 around({{first < 0 ? "" : begins, first}}, {}), R"(,"added_tokens":)", joinAdded(added), "}"});
  } catch (const UserError &error) {
    throw UserError(name + ": " + error.what());
  }
}

} // namespace quern::runtime
