// Byte-level byte-pair encoding by its fast ways against its definition, normal form C against the whole of it, and words
// that came before against the same without.
#include "runtime/tokenizer/model/ByteWords.h"
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/tokenizer/model/WordCache.h"
#include "runtime/tokenizer/text/ByteChars.h"
#include "runtime/tokenizer/text/Pattern.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "runtime/tokenizer/text/WordScanner.h"
#include "runtime/weights/Checkpoint.h"
#include "tests/runtime/TestData.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <random>
#include <thread>

using namespace quern::runtime;
using namespace quern::runtime::test;
using Json = nlohmann::json;

namespace {

/// Some bytes' vocabulary with merges at random, of which many have parts in common.
struct RandomMerges {
  Vocabulary words;
  MergeTable merges;
  explicit RandomMerges(std::mt19937 &random, int count) {
    for (int byte = 0; byte < 256; ++byte) {
      const char c = char(byte);
      words.add(toByteChars({&c, 1}), byte);
    }
    merges.reserve(size_t(count));
    const std::string letters = "abcd\xe2\x82\xac";
    const auto any = [&] {
      return words.size() > 256 && random() % 3 ? 256 + int(random() % unsigned(words.size() - 256))
                                                : int(static_cast<uint8_t>(letters[random() % letters.size()]));
    };
    for (int rank = 0; rank < count; ++rank) {
      const int left = any(), right = any();
      const std::string text = *words.text(left) + *words.text(right);
      if (text.size() > 40 || words.find(text) >= 0)
        continue;
      merges.add(left, right, {rank, words.size()});
      words.add(text, words.size());
    }
  }
};

/// By the definition: again and again the pair of lowest rank, of equal ones the leftmost.
std::vector<int> joinedSlowly(const MergeTable &merges, std::vector<int> ids) {
  for (;;) {
    size_t best = 0;
    Merge least;
    for (size_t i = 0; i + 1 < ids.size(); ++i)
      if (const Merge merge = merges.find(ids[i], ids[i + 1]); merge.rank < least.rank) {
        least = merge;
        best = i;
      }
    if (least.rank == Merge::none)
      return ids;
    ids[best] = least.id;
    ids.erase(ids.begin() + std::ptrdiff_t(best) + 1);
  }
}

TEST(ByteWords, AreJoinedAsDefined) {
  std::mt19937 random(1);
  for (int iteration = 0; iteration < 40; ++iteration) {
    const RandomMerges made(random, 1 + int(random() % 300));
    const ByteWords byBytes(made.words, made.merges);
    ASSERT_TRUE(byBytes.usable());
    for (int word = 0; word < 60; ++word) {
      const size_t most = word % 20 == 19 ? 400 : word % 2 ? 60 : 12; // few symbols, many, and around the border
      std::string text(1 + random() % most, ' ');
      for (char &c : text)
        c = random() % 40 ? "abcd\xe2\x82\xac"[random() % 7] : char(random());
      std::vector<int> bytes, got{7};
      for (char c : text)
        bytes.push_back(static_cast<uint8_t>(c));
      byBytes.encode(text, got);
      got.erase(got.begin());
      const std::vector<int> want = joinedSlowly(made.merges, bytes);
      ASSERT_EQ(got, want) << iteration << " " << word;
      joinSymbols(made.merges, bytes, 0);
      ASSERT_EQ(bytes, want) << iteration << " " << word;
    }
  }
}

/// More than the 4,096 symbols from which a list for each rank takes the place of a heap.
TEST(ByteWords, LongOnesToo) {
  std::mt19937 random(2);
  const RandomMerges made(random, 200);
  const ByteWords byBytes(made.words, made.merges);
  std::string text;
  while (text.size() < 5000)
    text += random() % 8 ? "ab" : "c";
  std::vector<int> bytes(text.begin(), text.end()), got;
  byBytes.encode(text, got);
  EXPECT_EQ(got, joinedSlowly(made.merges, bytes));
}

TEST(ByteWords, AreOfNoUseWhereAByteHasNoToken) {
  Vocabulary words;
  words.add("a", 0);
  EXPECT_FALSE(ByteWords(words, MergeTable()).usable());
}

TEST(WordCache, GivesBackWhatItWasGiven) {
  WordCache cache;
  std::mt19937 random(3);
  size_t known = 0;
  for (int iteration = 0; iteration < 200'000; ++iteration) {
    // Words and their tokens follow from a number, so that what comes back can be checked.
    const uint32_t number = random() % 3 ? random() % 500 : random() % 100'000;
    std::mt19937 of(number);
    std::string word(1 + of() % WordCache::longest, ' ');
    for (char &c : word)
      c = char('a' + of() % 3);
    std::vector<int> want(1 + std::hash<std::string>()(word) % word.size(), int(std::hash<std::string>()(word) % 1000));
    std::vector<int> got{5};
    uint64_t hash = 0;
    if (cache.find(word, got, hash)) {
      ++known;
      got.erase(got.begin());
      ASSERT_EQ(got, want) << word;
    } else {
      ASSERT_EQ(got.size(), 1u);
      cache.add(word, hash, want, 0);
    }
  }
  EXPECT_GT(known, 100'000u);
}

TEST(WordCache, ThreadsShareATokenizer) {
  const std::string path = dataPath("tokenizers/gpt2-bpe/tokenizer.json");
  const Tokenizer tokenizer = Tokenizer::parse(readFile(path), path);
  const std::vector<std::string> texts = readJson(dataPath("tokenizers/mixed.json"))["texts"];
  std::vector<std::vector<int>> want;
  for (const std::string &text : texts)
    want.push_back(Tokenizer::parse(readFile(path), path).encode(text, false)); // nothing came before
  std::vector<size_t> wrong(4);
  std::vector<std::thread> threads;
  for (size_t &count : wrong)
    threads.emplace_back([&] {
      for (int iteration = 0; iteration < 2; ++iteration)
        for (size_t i = 0; i < texts.size(); ++i)
          count += tokenizer.encode(texts[i], false) != want[i];
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, std::vector<size_t>(4));
}

std::string wholly(const std::string &text) {
  return toUtf8(compose(decompose(toChars(text), false)));
}

/// What is only looked at must be what the whole way gives: each character behind a letter, between marks, behind Hangul,
/// and each that has a decomposition in its parts.
TEST(NormalFormC, OfEachCharacterInItsPlaces) {
  size_t wrong = 0;
  const auto check = [&](const std::vector<char32_t> &chars) {
    const std::string text = toUtf8(chars);
    if (composed(text) != wholly(text) && !wrong++)
      ADD_FAILURE() << "U+" << std::hex << unsigned(chars[chars.size() / 2]);
  };
  for (char32_t c = 1; c < 0x30000; ++c) {
    if (c >= 0xd800 && c < 0xe000)
      continue;
    for (char32_t before : {U'a', U'\u0327', U'\u1100', U'\uac00', U'\u094d'})
      for (char32_t behind : {U'\n', U'\u0301', U'\u11a8', U'\u0323'})
        check({'x', before, c, behind});
    if (const std::vector<char32_t> parts = decompose({c}, false); parts.size() > 1)
      check(parts);
  }
  EXPECT_EQ(wrong, 0u);
}

/// The library's results; utf8proc would drop U+11A7.
TEST(NormalFormC, KeepsWhatIsNoConsonantBehindASyllable) {
  for (const char *form : {"NFC", "NFKC"}) {
    const std::unique_ptr<Normalizer> normalizer = Normalizer::fromJson({{"type", form}});
    EXPECT_EQ(normalizer->apply("x\xea\xb0\x80\xe1\x86\xa7\xcc\x81"), "x\xea\xb0\x80\xe1\x86\xa7\xcc\x81") << form;
    EXPECT_EQ(normalizer->apply("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa7"), "\xea\xb0\x80\xe1\x86\xa7") << form;
  }
}

/// Characters that texts are made of here: all scripts, each white space, marks, what patterns name, unassigned ones.
char32_t anyChar(std::mt19937 &random) {
  static const std::u32string named =
      U"'''sStTdDmMlLrReEvV\u017f  "
      U"\t\r\n\n/09aAzZ\u01c5\u02b0\u4e00\u0301\u0903\u2028\u00a0\u3000\u0085\u0660\u00b2\u2167";
  switch (random() % 4) {
  case 0:
    return char32_t(1 + random() % 0x7f);
  case 1: {
    const char32_t c = 0x80 + random() % (random() % 2 ? 0x3000 : 0x20000);
    return c >= 0xd800 && c < 0xe000 ? U'x' : c;
  }
  default:
    return named[random() % named.size()];
  }
}

TEST(WordScanner, CutsRandomTextAsTheMatcherDoes) {
  std::mt19937 random(4);
  for (const char *words : {gpt2Words, llama3Words, qwen2Words, o200kWords, tekkenWords}) {
    const std::optional<WordScanner> scanner = WordScanner::of(words);
    ASSERT_TRUE(scanner);
    const Pattern pattern = Pattern::regex(words);
    for (int iteration = 0; iteration < 400; ++iteration) {
      std::vector<char32_t> chars(1 + random() % 60);
      for (char32_t &c : chars)
        c = anyChar(random);
      std::string text = toUtf8(chars);
      if (iteration % 8 == 0) { // bytes that are no characters, as encode repairs them
        text[random() % text.size()] = char(random());
        text = repairUtf8(text);
      }
      std::vector<size_t> scanned, matched;
      for (size_t at = 0; at < text.size();)
        scanned.push_back(at = scanner->end(text, at));
      for (const Pattern::Range &range : pattern.split(text))
        matched.push_back(range.end);
      ASSERT_EQ(scanned, matched) << words << "\n" << Json(text).dump();
    }
  }
}

} // namespace
