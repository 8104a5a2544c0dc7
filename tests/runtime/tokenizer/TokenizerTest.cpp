// Tokenizers against what the reference libraries did (tests/data/tokenizers), and against hostile files and texts.
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/Error.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "runtime/weights/Checkpoint.h"
#include "tests/runtime/GgufBuilder.h"
#include "tests/runtime/TestData.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <algorithm>

using namespace quern::runtime;
using namespace quern::runtime::test;
using Json = nlohmann::json;

namespace {

Tokenizer open(const std::string &name) {
  std::string path = dataPath(name);
  return Tokenizer::parse(readFile(path), path);
}

/// The vocabulary of tests/data/tokenizers/FOLDER, from its tokenizer.json or as a GGUF file has it.
struct Source {
  const char *folder;
  const char *ggufModel = nullptr, *pre = "";
  friend std::ostream &operator<<(std::ostream &out, const Source &source) {
    return out << source.folder << (source.ggufModel ? " in GGUF" : "");
  }
};

Tokenizer open(const Source &source) {
  const std::string path = std::string("tokenizers/") + source.folder + "/tokenizer.json";
  if (!source.ggufModel)
    return open(path);
  const std::string model = source.ggufModel; // SentencePiece's scores are in no tokenizer.json, but in the golden file
  auto file = model == "llama" ? MappedFile::open(dataPath("formats/llama-gguf/model-q8_0.gguf"))
                               : MappedFile::copy(ggufOfTokenizer(readJson(dataPath(path)), model, source.pre), "gguf");
  return Tokenizer::parse(*textInside(file, "tokenizer.json"), "gguf");
}

class TokenizerGolden : public testing::TestWithParam<Source> {
protected:
  std::string folder = std::string("tokenizers/") + GetParam().folder;
  Tokenizer tokenizer = open(GetParam());
};

TEST_P(TokenizerGolden, Encodes) {
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
  Json cases = readJson(dataPath(folder + "/decode_cases.json"));
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    std::vector<int> ids = cases[i]["ids"].get<std::vector<int>>();
    EXPECT_EQ(tokenizer.decode(ids, false), cases[i]["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.decode(ids, true), cases[i]["decoded_skip_special"].get<std::string>());
  }
}

TEST_P(TokenizerGolden, StreamsWholeCharactersThatJoinToTheText) {
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

class TokenizerStress : public testing::TestWithParam<const char *> {};

TEST_P(TokenizerStress, SurvivesAMegabyteOfEachKind) {
  const Tokenizer tokenizer = open(Source{GetParam()});
  std::vector<std::string> texts;
  for (std::string part :
       {"a", " ", "\n", "\xcc\x81\xcc\xa3", "\xf0\x9f\x98\x80", "\xff", "ab ", "'s", "1", " \n", "\xe2\x96\x81", "<"}) {
    std::string text;
    while (text.size() < 1'000'000)
      text += part;
    texts.push_back(text);
  }
  for (const std::string &text : texts) { // a second each; what is quadratic would take hours, and meets CTest's limit
    std::vector<int> ids = tokenizer.encode(text, true);
    EXPECT_FALSE(ids.empty()) << quote(text.substr(0, 8));
    EXPECT_NO_THROW(tokenizer.decode(ids, true)) << quote(text.substr(0, 8));
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerStress,
                         testing::Values("gpt2-bpe", "llama3-bpe", "llama2-spm", "t5-unigram", "bert-wordpiece"));
INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden,
                         testing::Values(Source{"gpt2-bpe"}, Source{"llama3-bpe"}, Source{"llama2-spm"},
                                         Source{"t5-unigram"}, Source{"bert-wordpiece"},
                                         Source{"gpt2-bpe", "gpt2", "gpt-2"}, Source{"llama3-bpe", "gpt2", "llama-bpe"},
                                         Source{"llama2-spm", "llama"}, Source{"t5-unigram", "t5"},
                                         Source{"bert-wordpiece", "bert"}),
                         [](const auto &info) {
                           std::string name = std::string(info.param.folder) + (info.param.ggufModel ? "_gguf" : "");
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// ---- where files, patterns and Unicode have their edges

std::vector<std::string> split(const Json &json, const std::string &text) {
  std::vector<std::string> pieces;
  PreTokenizer::fromJson(json)->apply({text, true}, [&](const Piece &piece) { pieces.emplace_back(piece.text); });
  return pieces;
}

/// Kept, as loops go over its parts.
const Json &edges() {
  static const Json all = readJson(dataPath("tokenizers/edges.json"));
  return all;
}

TEST(TokenizerEdges, PatternsSplitAsTheLibrarysDo) {
  const std::string text = "hello, world x1 \u0903\u24b6中 ²x_‿y\u200dz\n12345678 AbC\tdéß 。、";
  for (const Json &one : edges()["splits"])
    EXPECT_EQ(split(one["pre_tokenizer"], text), one["pieces"].get<std::vector<std::string>>()) << one["pre_tokenizer"];
}

TEST(TokenizerEdges, ReplacesAsTheLibraryDoes) {
  for (const Json &one : edges()["replacements"])
    EXPECT_EQ(Normalizer::fromJson(one["normalizer"])->apply(one["text"]), one["result"].get<std::string>())
        << one["normalizer"];
}

TEST(TokenizerEdges, NormalizedAddedTokensDecodeNormalized) {
  for (const Json &one : edges()["added"]) {
    Tokenizer tokenizer = Tokenizer::parse(one["tokenizer"].dump(), "edges");
    EXPECT_EQ(tokenizer.encode(one["text"].get<std::string>(), false), one["ids"].get<std::vector<int>>());
    EXPECT_EQ(tokenizer.decode(one["ids"], false), one["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.decode(one["ids"], true), one["skipped"].get<std::string>());
  }
}

TEST(TokenizerEdges, EveryDecoderStreamsToTheWholeText) {
  for (const Json &one : edges()["streams"]) {
    Json vocabulary = Json::object();
    std::vector<int> ids;
    for (const std::string &token : one["tokens"].get<std::vector<std::string>>())
      ids.push_back(vocabulary.emplace(token, vocabulary.size()).first->get<int>());
    Json file = {{"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "cat"}}},
                 {"decoder", one["decoder"]}};
    Tokenizer tokenizer = Tokenizer::parse(file.dump(), "edges");
    EXPECT_EQ(tokenizer.decode(ids, false), one["text"].get<std::string>()) << one["decoder"];
    TextStream stream(tokenizer);
    std::string joined;
    for (int id : ids)
      joined += stream.push(id);
    EXPECT_EQ(joined + stream.finish(), one["text"].get<std::string>()) << one["decoder"];
  }
}

TEST(TokenizerEdges, RefusesPatternsThatMeanSomethingElseHere) {
  for (const char *pattern :
       {"[a[^bc]]", "[a[b-]c]", "[a[b&&c]]", "[^a&&[b]]", "[[:print:]]", "a{2,3}+", "[\\W]", "[abc", "\\p{L"}) {
    try {
      PreTokenizer::fromJson({{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}});
      ADD_FAILURE() << pattern;
    } catch (const UserError &error) {
      EXPECT_NE(std::string(error.what()).find("pattern"), std::string::npos) << error.what();
    }
  }
}

TEST(TokenizerEdges, EveryCharacterIsWhatTheLibraryTakesItFor) {
  Json want = readJson(dataPath("tokenizers/unicode.json"));
  auto marked = [&](const std::string &name) { // "20-2f 41": a character in each place
    std::vector<bool> set(0x110000);
    std::string text = want[name];
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.find(' ', at), text.size()), dash = text.find('-', at);
      size_t first = std::stoul(text.substr(at), nullptr, 16),
             last = dash < end ? std::stoul(text.substr(dash + 1), nullptr, 16) : first;
      std::fill(set.begin() + long(first), set.begin() + long(last) + 1, true);
      at = end + 1;
    }
    return set;
  };
  auto check = [&](const std::string &name, auto is) {
    std::vector<bool> set = marked(name);
    size_t wrong = 0;
    std::string first;
    for (char32_t c = 1; c < 0x110000; ++c)
      if ((c < 0xd800 || c >= 0xe000) && is(c) != set[c] && !wrong++)
        first = format("U+%04x", unsigned(c));
    EXPECT_EQ(wrong, 0u) << name << ", first at " << first;
  };
  auto utf8 = [](char32_t c) { return toUtf8({c}); };
  auto bert = [](bool clean, bool strip) {
    return Normalizer::fromJson({{"type", "BertNormalizer"},
                                 {"clean_text", clean},
                                 {"handle_chinese_chars", false},
                                 {"strip_accents", strip},
                                 {"lowercase", false}});
  };
  std::unique_ptr<Normalizer> clean = bert(true, false), strip = bert(false, true),
                              marks = Normalizer::fromJson({{"type", "StripAccents"}});
  std::unique_ptr<PreTokenizer> punctuation = PreTokenizer::fromJson({{"type", "Punctuation"}}),
                                digits = PreTokenizer::fromJson({{"type", "Digits"}, {"individual_digits", true}}),
                                words = PreTokenizer::fromJson({{"type", "Whitespace"}});
  auto pieces = [&](const PreTokenizer &splitter, char32_t c) {
    size_t count = 0;
    splitter.apply({"a" + utf8(c) + "b", true}, [&](const Piece &) { ++count; });
    return count;
  };
  check("drop", [&](char32_t c) { return clean->apply(utf8(c)).empty(); });
  check("space", [&](char32_t c) { return clean->apply(utf8(c)) == " " && c != ' '; });
  check("strip", [&](char32_t c) { return strip->apply(utf8(c)).empty(); });
  check("sa", [&](char32_t c) { return marks->apply(utf8(c)).empty(); });
  check("punct", [&](char32_t c) { return pieces(*punctuation, c) == 3; });
  check("digit", [&](char32_t c) { return pieces(*digits, c) == 3; });
  check("word", [&](char32_t c) { return pieces(*words, c) == 1; });
}

TEST(TokenizerEdges, HostileFilesAreRefused) {
  auto refusal = [](const std::string &json, const std::string &text = "a") -> std::string {
    try {
      Tokenizer::parse(json, "x/tokenizer.json").encode(text, false);
      return "";
    } catch (const UserError &error) {
      return error.what();
    }
  };
  auto with = [](const std::string &normalizer) {
    return R"({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "normalizer": )" + normalizer + "}";
  };
  std::string nested;
  for (int i = 0; i < 30'000; ++i)
    nested += R"({"type": "Sequence", "normalizers": [)";
  for (int i = 0; i < 30'000; ++i)
    nested += "]}";
  EXPECT_NE(refusal(with(nested)).find("x/tokenizer.json is no valid JSON"), std::string::npos)
      << refusal(with(nested));
  std::string chain = R"({"type": "Sequence", "normalizers": [)", hundred(100, 'a');
  for (int i = 0; i < 8; ++i)
    chain +=
        std::string(i ? "," : "") + R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")" + hundred + "\"}";
  EXPECT_NE(refusal(with(chain + "]}")).find("times as long"), std::string::npos);
  std::string parts =
      R"({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [)";
  for (int i = 0; i < 200'000; ++i) // they would run inside of each other
    parts += std::string(i ? "," : "") + R"({"type": "WhitespaceSplit"})";
  EXPECT_NE(refusal(parts + "]}}").find("more than 100 parts"), std::string::npos);
  for (const char *file : {"", "[]", "{\"model\": 3}", "{\"model\": {\"type\": 3}}"}) {
    std::string message = refusal(file);
    EXPECT_NE(message.find("x/tokenizer.json"), std::string::npos) << file;
    EXPECT_EQ(message.find("json.exception"), std::string::npos) << message;
  }
}

} // namespace
