// Vocabularies in GGUF files: every way of splitting text against what Hugging Face's `tokenizers` makes of it
// (tests/data/generate/make_mixed.py), and what files leave to their kind.
#include "runtime/Error.h"
#include "runtime/gguf/Gguf.h"
#include "runtime/tokenizer/Tokenizer.h"
#include "tests/runtime/GgufBuilder.h"
#include "tests/runtime/TestData.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace quern::runtime;
using namespace quern::runtime::test;
using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

namespace {

const std::string prefix = "tokenizer.ggml.";

std::string jsonOf(const GgufBuilder &file) {
  return ggufTokenizer(GgufFile(MappedFile::copy(file.file(), "model.gguf")));
}
Tokenizer read(const GgufBuilder &file) {
  return Tokenizer::parse(jsonOf(file), "model.gguf");
}
std::string complaint(const GgufBuilder &file) {
  try {
    read(file);
    return "";
  } catch (const UserError &error) {
    return error.what();
  }
}

/// The number of a token is its place in the list; the kinds are as GGUF numbers them.
GgufBuilder vocabulary(const std::string &model, const std::string &pre, const std::vector<std::string> &tokens,
                       const std::vector<int32_t> &kinds, const std::string &architecture = "llama") {
  GgufBuilder file(architecture);
  file.text(prefix + "model", model);
  if (!pre.empty())
    file.text(prefix + "pre", pre);
  file.texts(prefix + "tokens", tokens);
  file.integers(prefix + "token_type", kinds);
  return file;
}

GgufBuilder pairs(const std::string &pre, const std::string &architecture = "llama") {
  GgufBuilder file = vocabulary("gpt2", pre, {"a", "b"}, {1, 1}, architecture);
  file.texts(prefix + "merges", {});
  return file;
}

std::vector<std::string> piecesOf(const Json &tokenizer, const std::string &text) {
  std::vector<std::string> pieces;
  const std::unique_ptr<Normalizer> normalizer = Normalizer::fromJson(tokenizer["normalizer"]);
  const std::string changed = normalizer ? normalizer->apply(text) : text;
  PreTokenizer::fromJson(tokenizer["pre_tokenizer"])->apply({changed, true}, [&](const Piece &piece) {
    pieces.emplace_back(piece.text);
  });
  return pieces;
}

TEST(GgufVocabulary, SplitsTextAsTheLibraryDoes) {
  const Json golden = readJson(dataPath("tokenizers/splits.json"));
  const std::vector<std::string> texts = readJson(dataPath("tokenizers/mixed.json"))["texts"];
  ASSERT_GT(golden["groups"].size(), 30u);
  for (const Json &group : golden["groups"]) {
    const std::string text = golden["text"], first = group["names"][0];
    const std::vector<std::string> wanted = group["pieces"];
    const Json tokenizer = Json::parse(jsonOf(pairs(first)));
    EXPECT_EQ(piecesOf(tokenizer, text), wanted) << first;
    std::string every;
    for (const std::string &mixed : texts)
      for (const std::string &piece : piecesOf(tokenizer, mixed))
        every += piece + "\n";
    every.pop_back();
    EXPECT_EQ(crc32(every), group["sum"].get<uint32_t>()) << first;
    if (const Json &published = group["published"]; !published.is_null()) {
      EXPECT_EQ(piecesOf({{"normalizer", tokenizer["normalizer"]}, {"pre_tokenizer", published}}, text), wanted)
          << first << " in tokenizer.json";
    }
    for (const std::string &name : group["names"].get<std::vector<std::string>>()) {
      const Json same = Json::parse(jsonOf(pairs(name)));
      EXPECT_EQ(same["pre_tokenizer"], tokenizer["pre_tokenizer"]) << name;
      EXPECT_EQ(same["normalizer"], tokenizer["normalizer"]) << name;
    }
  }
}

TEST(GgufVocabulary, OlderFilesSplitAsTheirArchitectureDid) {
  const std::pair<const char *, const char *> cases[] = {
      {"gpt2", "gpt-2"}, {"gptneox", "mpt"}, {"falcon", "falcon"}, {"starcoder2", "starcoder"}, {"qwen2", "qwen2"}};
  for (const auto &[architecture, pre] : cases) {
    EXPECT_EQ(jsonOf(pairs("", architecture)), jsonOf(pairs(pre))) << architecture;
    EXPECT_EQ(jsonOf(pairs("default", architecture)), jsonOf(pairs(pre))) << architecture;
  }
  EXPECT_THAT(complaint(pairs("", "llama")), HasSubstr("it splits text into words as '' does"));
}

TEST(GgufVocabulary, ASpaceMayBeginTheText) {
  GgufBuilder file = vocabulary("gpt2", "gpt-2", {"a", "\xc4\xa0"}, {1, 1});
  file.texts(prefix + "merges", {});
  file.flag(prefix + "add_space_prefix", true);
  EXPECT_THAT(read(file).encode("a a", false), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(read(file).encode("aaa", false), ElementsAre(1, 0, 0, 0));
}

TEST(GgufVocabulary, TextIsLoweredWhereTheFileSaysSo) {
  GgufBuilder file = pairs("jina-v2-de");
  file.flag(prefix + "normalizer.lowercase", true);
  EXPECT_THAT(read(file).encode("aBA", false), ElementsAre(0, 1, 0));
}

TEST(GgufVocabulary, EncodersPutTokensAroundATextAndTheMaskTakesSpaces) {
  for (const char *pre : {"roberta-bpe", "jina-v2-code", "modern-bert"}) {
    GgufBuilder file = vocabulary("gpt2", pre, {"<s>", "</s>", "a", "\xc4\xa0", "<mask>"}, {3, 3, 1, 1, 3});
    file.texts(prefix + "merges", {});
    file.integer(prefix + "bos_token_id", 0);
    file.integer(prefix + "eos_token_id", 1);
    file.integer(prefix + "mask_token_id", 4);
    EXPECT_THAT(read(file).encode("a <mask> a", true), ElementsAre(0, 2, 4, 3, 2, 1)) << pre;
    file.flag(prefix + "add_bos_token", false);
    EXPECT_THAT(read(file).encode("a", true), ElementsAre(2, 1)) << pre;
  }
}

TEST(GgufVocabulary, Phi3sSpecialTokensTakeTheSpacesBehind) {
  const std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "\xe2\x96\x81", "a", "<0x0A>", "<|user|>"};
  for (const bool phi : {true, false}) {
    GgufBuilder file = vocabulary("llama", "default", tokens, {2, 3, 3, 1, 1, 6, 3}, phi ? "phi3" : "llama");
    file.reals(prefix + "scores", std::vector<float>(tokens.size()));
    if (phi)
      EXPECT_THAT(read(file).encode("<|user|>\na", false), ElementsAre(6, 3, 4));
    else
      EXPECT_THAT(read(file).encode("<|user|>\na", false), ElementsAre(6, 3, 5, 4));
    EXPECT_THAT(read(file).encode("<s> a", false), ElementsAre(1, 3, 3, 4));
  }
}

TEST(GgufVocabulary, CharactersWithBytesAsAFallback) {
  GgufBuilder file = vocabulary("gemma4", "",
                                {"<bos>", "<unk>", "\xe2\x96\x81", "a",
                                 "\xe2\x96\x81"
                                 "a",
                                 "<0xC3>", "<0xA9>", "\n", "\n\n"},
                                {3, 3, 1, 1, 1, 6, 6, 1, 1});
  file.texts(prefix + "merges", {"\xe2\x96\x81 a", "\n \n"});
  file.integer(prefix + "bos_token_id", 0);
  file.integer(prefix + "unknown_token_id", 1);
  const Tokenizer tokenizer = read(file);
  EXPECT_THAT(tokenizer.encode("a a\n\n\n\xc3\xa9xy", true), ElementsAre(0, 3, 4, 8, 7, 5, 6, 1));
  EXPECT_EQ(tokenizer.decode({4, 5, 6, 8}, true), " a\xc3\xa9\n\n");
}

TEST(GgufVocabulary, WordsBetweenWhiteSpace) {
  GgufBuilder file =
      vocabulary("whitespace", "whitespace", {"<s>", "</s>", "<unk>", "a", "b", "ab"}, {3, 3, 3, 1, 1, 1});
  file.texts(prefix + "merges", {"a b"});
  file.integer(prefix + "bos_token_id", 0);
  file.integer(prefix + "eos_token_id", 1);
  file.integer(prefix + "unknown_token_id", 2);
  file.flag(prefix + "normalizer.lowercase", true);
  EXPECT_THAT(read(file).encode("AB a\tb !", true), ElementsAre(0, 5, 3, 4, 2, 1));
}

TEST(GgufVocabulary, BertsNormalizerIsTheFiles) {
  const std::string mark = "\xe2\x96\x81";
  for (const bool lower : {true, false}) {
    GgufBuilder file = vocabulary("bert", "bert-bge",
                                  {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[unused0]", mark + "a", mark + "A",
                                   mark + "\xc3\xa9", mark + "e", mark + "[", mark + "]", mark + "unused", "0"},
                                  {3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, "bert");
    file.flag(prefix + "normalizer.lowercase", lower);
    const Tokenizer tokenizer = read(file);
    EXPECT_THAT(tokenizer.encode("A\xc3\xa9 \xc3\xa9", true), ElementsAre(2, 1, lower ? 8 : 7, 3));
    EXPECT_THAT(tokenizer.encode("A a", false), ElementsAre(lower ? 5 : 6, 5));
    EXPECT_THAT(tokenizer.encode("[SEP][unused0]", false), ElementsAre(3, 9, 11, 12, 10))
        << "of the tokens in brackets the five special ones alone are looked for in a text";
    file.flag(prefix + "normalizer.strip_accents", !lower);
    EXPECT_THAT(read(file).encode("\xc3\xa9", false), ElementsAre(lower ? 7 : 8));
  }
}

TEST(GgufVocabulary, BlanksOfT5HaveNames) {
  std::vector<std::string> tokens = {"<pad>", "</s>", "<unk>", "\xe2\x96\x81"};
  while (tokens.size() < 128)
    tokens.push_back("[PAD" + std::to_string(tokens.size()) + "]");
  std::vector<int32_t> kinds(tokens.size(), 5);
  std::fill_n(kinds.begin(), 3, 3);
  kinds[3] = 1;
  GgufBuilder file = vocabulary("t5", "default", tokens, kinds, "t5");
  file.reals(prefix + "scores", std::vector<float>(tokens.size()));
  file.integer(prefix + "eos_token_id", 1);
  EXPECT_THAT(read(file).encode("<extra_id_99><extra_id_0>", true), ElementsAre(4, 103, 1));
}

TEST(GgufVocabulary, RanksStandForMissingMerges) {
  const std::vector<std::string> tokens = {"a", "b", "c", "bc", "ab", "abc", "[BOS]"};
  const std::vector<int32_t> kinds = {1, 1, 1, 1, 1, 1, 3};
  EXPECT_THAT(read(vocabulary("gpt2", "kimi-k2", tokens, kinds)).encode("abc abcc[BOS]cab", false),
              ElementsAre(5, 5, 2, 6, 2, 4));
  EXPECT_THAT(complaint(vocabulary("gpt2", "gpt-2", tokens, kinds)), HasSubstr("it has no merges"));
}

TEST(GgufVocabulary, SaysWhichKindsItKnows) {
  for (const char *kind : {"rwkv", "plamo2", "hybriddna"})
    EXPECT_THAT(complaint(vocabulary(kind, "", {"a"}, {1})),
                testing::AllOf(HasSubstr("'" + std::string(kind) + "'"), HasSubstr("give --tokenizer")));
  EXPECT_EQ(jsonOf(vocabulary("none", "", {"a"}, {1})), "") << "a file without a vocabulary";
}

} // namespace
