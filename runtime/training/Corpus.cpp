// Takes: a path and the name of a tokenizer. Gives: token numbers. Bytes and characters are ordinary tokenizers too: a
// tokenizer.json is made for them, so that `generate` reads the checkpoint like any other.
#include "runtime/training/Corpus.h"

#include "runtime/Error.h"
#include "runtime/machine/Terminal.h"
#include "runtime/tokenizer/files/VocabularyFiles.h"
#include "runtime/tokenizer/text/ByteChars.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "runtime/weights/Checkpoint.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <set>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;

/// BPE without merges: every character (or what stands for a byte) is a token.
std::string characterTokenizer(const std::vector<std::string> &tokens, bool bytes) {
  Json vocabulary = Json::object();
  for (size_t i = 0; i < tokens.size(); ++i)
    vocabulary[tokens[i]] = i;
  Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  Json file = {{"version", "1.0"},
               {"added_tokens", Json::array()},
               {"normalizer", nullptr},
               {"pre_tokenizer", bytes ? level : Json()},
               {"post_processor", nullptr},
               {"decoder", bytes ? level : Json{{"type", "Fuse"}}},
               {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  return file.dump(1) + "\n";
}

} // namespace

TrainTokenizer makeTokenizer(const std::string &name, const std::string &text) {
  TrainTokenizer result;
  std::string label = name;
  result.name = quote(name);
  if (name == "bytes") {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back(toByteChars(std::string(1, char(byte))));
    result.json = characterTokenizer(tokens, true);
  } else if (name == "chars" && text.empty()) {
    throw UserError("the tokenizer 'chars' is made from the text of --data, and there is none");
  } else if (name == "chars") {
    std::set<char32_t> seen;
    for (size_t at = 0; at < text.size();)
      seen.insert(nextChar(text, at));
    std::vector<std::string> tokens;
    for (char32_t c : seen)
      appendChar(tokens.emplace_back(), c);
    result.json = characterTokenizer(tokens, false);
    result.characters = true;
  } else {
    if (!fileExists(name) && !isFolder(name))
      throw UserError("there is no tokenizer " + quote(name) + ": give bytes, chars, or a tokenizer.json");
    TokenizerText text = tokenizerAt(name);
    result.json = std::move(text.json);
    label = std::move(text.file);
  }
  result.tokenizer = Tokenizer::parse(result.json, label);
  return result;
}

bool isTokenFile(const std::string &path) {
  return path.ends_with(".bin") || path.ends_with(".u32");
}

std::vector<int32_t> readTokenFile(const std::string &path) {
  std::string data = readFile(path, uint64_t(1) << 36);
  size_t each = path.ends_with(".u32") ? 4 : 2;
  if (data.size() % each)
    throw UserError(path + format(" has %zu bytes, which is no whole number of %zu-byte tokens", data.size(), each));
  std::vector<int32_t> tokens(data.size() / each);
  for (size_t i = 0; i < tokens.size(); ++i) {
    uint32_t value = 0;
    std::memcpy(&value, data.data() + i * each, each);
    if (value > INT32_MAX)
      throw UserError(path + format(": token %zu is %u, which is too large", i, value));
    tokens[i] = int32_t(value);
  }
  return tokens;
}

std::string readText(const std::string &path) {
  std::string raw = readFile(path, uint64_t(1) << 36), text = repairUtf8(raw);
  if (text.empty())
    throw UserError(path + " is empty: a text is needed");
  if (text != raw)
    printWarning(path + " is not all UTF-8: bytes that are not count as the character U+FFFD");
  return text;
}

std::vector<int32_t> encodeText(const TrainTokenizer &tokenizer, const std::string &text, const std::string &path) {
  if (!tokenizer.tokenizer)
    throw UserError(path + " is a text, and the data are numbers: give --tokenizer too");
  std::vector<int> ids = tokenizer.tokenizer->encode(text, false);
  if (tokenizer.characters) { // an unknown one would vanish without a word
    size_t characters = 0;
    for (size_t at = 0; at < text.size(); ++characters) {
      size_t from = at;
      nextChar(text, at);
      if (tokenizer.tokenizer->findToken(std::string_view(text).substr(from, at - from)) < 0)
        throw UserError(path + format(": character %zu, ", characters) + quote(text.substr(from, at - from)) +
                        ", does not occur in the text that the tokenizer 'chars' was made from");
    }
  }
  return {ids.begin(), ids.end()};
}

void checkBound(const std::vector<int32_t> &tokens, int64_t bound, const std::string &path, const std::string &hint) {
  auto largest = std::max_element(tokens.begin(), tokens.end());
  if (largest != tokens.end() && *largest >= bound)
    throw UserError(format("%s: token %lld is %d, but the model's vocabulary has only %lld, from 0 to %lld",
                           path.c_str(), static_cast<long long>(largest - tokens.begin()), *largest,
                           static_cast<long long>(bound), static_cast<long long>(bound - 1)) +
                    hint);
}

} // namespace quern::runtime
