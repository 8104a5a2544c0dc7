// Tokenizers against what the reference libraries did (tests/data/tokenizers), and against hostile files and texts.
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/Error.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "runtime/weights/Checkpoint.h"
#include "tests/runtime/TestData.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

using namespace quern::runtime;
using namespace quern::runtime::test;
using Json = nlohmann::json;

namespace {

Tokenizer open(const std::string &name) {
  std::string path = dataPath(name);
  return Tokenizer::parse(readFile(path), path);
}

class TokenizerGolden : public testing::TestWithParam<const char *> {};

TEST_P(TokenizerGolden, Encodes) {
  std::string folder = std::string("tokenizers/") + GetParam();
  Tokenizer tokenizer = open(folder + "/tokenizer.json");
  Json cases = readJson(dataPath(folder + "/cases.json"));
  ASSERT_FALSE(cases.empty());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Json &one = cases[i];
    SCOPED_TRACE("case " + std::to_string(i) + ": " + one["text"].dump());
    std::string text = one["text"].get<std::string>();
    std::vector<int> ids = one["ids"].get<std::vector<int>>(), special = one["ids_special"].get<std::vector<int>>();
    EXPECT_EQ(tokenizer.encode(text, false), ids);
    EXPECT_EQ(tokenizer.encode(text, true), special);
    std::vector<std::string> tokens;
    for (int id : ids)
      tokens.push_back(*tokenizer.tokenText(id));
    // The library shows a piece of unknown text as itself; here it has its token's text.
    std::vector<std::string> expected = one["tokens"].get<std::vector<std::string>>();
    ASSERT_EQ(tokens.size(), expected.size());
    for (size_t k = 0; k < tokens.size(); ++k)
      if (tokenizer.findToken(expected[k]) >= 0) {
        EXPECT_EQ(tokens[k], expected[k]);
      }
    EXPECT_EQ(tokenizer.decode(ids, false), one["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.decode(special, false), one["decoded_special"].get<std::string>());
    EXPECT_EQ(tokenizer.decode(special, true), one["decoded_skip_special"].get<std::string>());
  }
}

TEST_P(TokenizerGolden, Decodes) {
  std::string folder = std::string("tokenizers/") + GetParam();
  Tokenizer tokenizer = open(folder + "/tokenizer.json");
  Json cases = readJson(dataPath(folder + "/decode_cases.json"));
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    std::vector<int> ids = cases[i]["ids"].get<std::vector<int>>();
    EXPECT_EQ(tokenizer.decode(ids, false), cases[i]["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.decode(ids, true), cases[i]["decoded_skip_special"].get<std::string>());
  }
}

TEST_P(TokenizerGolden, StreamsWholeCharactersThatJoinToTheText) {
  std::string folder = std::string("tokenizers/") + GetParam();
  Tokenizer tokenizer = open(folder + "/tokenizer.json");
  for (const Json &one : readJson(dataPath(folder + "/cases.json"))) {
    std::vector<int> ids = one["ids_special"].get<std::vector<int>>();
    TextStream stream(tokenizer);
    std::string joined;
    for (int id : ids) {
      std::string part = stream.push(id);
      EXPECT_TRUE(isValidUtf8(part));
      joined += part;
    }
    joined += stream.finish();
    EXPECT_EQ(joined, one["decoded_skip_special"].get<std::string>()) << one["text"];
  }
}

TEST_P(TokenizerGolden, SurvivesAMegabyteOfEachKind) {
  Tokenizer tokenizer = open(std::string("tokenizers/") + GetParam() + "/tokenizer.json");
  std::vector<std::string> texts;
  for (std::string part :
       {"a", " ", "\n", "\xcc\x81\xcc\xa3", "\xf0\x9f\x98\x80", "\xff", "ab ", "'s", "1", " \n", "\xe2\x96\x81", "<"}) {
    std::string text;
    while (text.size() < 1'000'000)
      text += part;
    texts.push_back(text);
  }
  for (const std::string &text : texts) {
    auto begin = std::chrono::steady_clock::now();
    std::vector<int> ids = tokenizer.encode(text, true);
    tokenizer.decode(ids, true);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, 20) << quote(text.substr(0, 8)); // far above the second that is usual; quadratic would be hours
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden,
                         testing::Values("gpt2-bpe", "llama3-bpe", "llama2-spm", "t5-unigram", "bert-wordpiece"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
