// Tokenizers on 200 KB of mixed scripts, long words, marks and white space, against checksums of what Hugging Face's
// `tokenizers` makes of it (tests/data/generate/make_mixed.py; compare_tokenizers.py does the same on any size).
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/tokenizer/files/VocabularyFiles.h"
#include "runtime/tokenizer/text/Pattern.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "runtime/tokenizer/text/WordScanner.h"
#include "runtime/weights/Checkpoint.h"
#include "tests/runtime/TestData.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

using namespace quern::runtime;
using namespace quern::runtime::test;
using Json = nlohmann::json;

namespace {

const Json &golden() {
  static const Json result = readJson(dataPath("tokenizers/mixed.json"));
  return result;
}

uint32_t sumOf(const std::vector<int> &numbers) {
  return crc32(std::string_view(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(int)));
}

TEST(MixedText, TokensAreThoseOfTheLibrary) {
  const std::vector<std::string> texts = golden()["texts"];
  ASSERT_GT(texts.size(), 50u);
  ASSERT_GE(golden()["tokens"].size(), 7u);
  for (const auto &[path, sums] : golden()["tokens"].items()) {
    const std::string whole = dataPath("../../" + path);
    const Tokenizer tokenizer = Tokenizer::parse(readFile(whole), whole);
    ASSERT_EQ(sums.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i)
      ASSERT_EQ(sumOf(tokenizer.encode(texts[i], false)), sums[i].get<uint32_t>()) << path << ", text " << i;
  }
}

/// .model files of SentencePiece and ranks of tiktoken, whose own libraries do not look for special tokens in a text.
TEST(MixedText, VocabularyFilesMeanWhatTheirLibrariesMean) {
  std::vector<std::string> texts = golden()["texts"];
  for (std::string &text : texts)
    for (const char *mark : {"<s>", "</s>", "<|endoftext|>"})
      text = replaceAll(text, mark, "");
  ASSERT_EQ(golden()["files"].size(), 3u);
  for (const auto &[name, sums] : golden()["files"].items()) {
    const auto [json, path] = tokenizerAt(dataPath("tokenizers/" + name + "/tokenizer.model"));
    const Tokenizer tokenizer = Tokenizer::parse(json, path);
    for (size_t i = 0; i < texts.size(); ++i)
      ASSERT_EQ(sumOf(tokenizer.encode(texts[i], false)), sums[i].get<uint32_t>()) << name << ", text " << i;
  }
}

/// The words of the patterns that have a scanner: by it, and by the matcher.
TEST(MixedText, WordsAreThoseOfTheLibrary) {
  const std::vector<std::string> texts = golden()["texts"];
  ASSERT_EQ(golden()["splits"].size(), 6u);
  for (const auto &[words, sums] : golden()["splits"].items()) {
    const std::optional<WordScanner> scanner = WordScanner::of(words);
    ASSERT_TRUE(scanner) << words;
    const Pattern pattern = Pattern::regex(words);
    for (size_t i = 0; i < texts.size(); ++i) {
      std::vector<int> scanned, matched;
      for (size_t at = 0, end = 0; at < texts[i].size(); at = end)
        scanned.push_back(int((end = scanner->end(texts[i], at)) - at));
      for (const Pattern::Range &range : pattern.split(texts[i]))
        matched.push_back(int(range.end - range.begin));
      ASSERT_EQ(sumOf(scanned), sums[i].get<uint32_t>()) << words << ", text " << i;
      ASSERT_EQ(scanned, matched) << words << ", text " << i;
    }
  }
}

TEST(MixedText, EveryCharacterIsNormalizedAsByTheLibrary) {
  const std::pair<std::string, std::string> places[] = {
      {"\n", "\n"}, {"a", "\xcc\x81\xcc\xb4"}, {"\xe1\x84\x80\xcd\x85", ""}};
  ASSERT_EQ(golden()["normalized"].size(), 8u);
  for (const auto &[name, sums] : golden()["normalized"].items())
    for (size_t place = 0; place < 3; ++place) {
      std::string text;
      for (char32_t c = 1; c < 0x20000; ++c)
        if (c < 0xd800 || c >= 0xe000) {
          text += places[place].first;
          appendChar(text, c);
          text += places[place].second;
        }
      EXPECT_EQ(crc32(Normalizer::fromJson({{"type", name}})->apply(text)), sums[place].get<uint32_t>())
          << name << ", place " << place;
    }
}

} // namespace
