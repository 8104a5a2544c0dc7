// quern.h on a toy model: what a program that embeds one sees.
#include "runtime/quern.h"
#include "tests/runtime/TestData.h"
#include "tests/runtime/ToyProgram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <xmmintrin.h>

#include <cmath>
#include <thread>

using namespace quern::runtime::test;
using testing::HasSubstr;

namespace {

class LibraryTest : public testing::Test {
protected:
  std::string weights = writeToyWeights(), tokenizer = writeToyTokenizer();
  quern_engine *engine = nullptr;
  void SetUp() override { ASSERT_EQ(quern_open(weights.c_str(), nullptr, 0, &engine), QUERN_OK) << quern_message(); }
  void TearDown() override { quern_close(engine); }

  quern_sequence *begin(const std::vector<int> &tokens) {
    quern_sequence *text = nullptr;
    EXPECT_EQ(quern_begin(engine, &text), QUERN_OK);
    EXPECT_EQ(quern_prefill(text, tokens.data(), tokens.size()), QUERN_OK) << quern_message();
    return text;
  }
};

TEST_F(LibraryTest, WritesAsGenerateDoes) {
  EXPECT_EQ(quern_vocabulary(engine), 16);
  EXPECT_EQ(quern_context(engine), 24);
  quern_sequence *text = nullptr;
  ASSERT_EQ(quern_begin(engine, &text), QUERN_OK);
  ASSERT_EQ(quern_set(text, "most", 5), QUERN_OK);
  ASSERT_EQ(quern_set(text, "eos", 0), QUERN_OK);
  ASSERT_EQ(quern_prefill_text(text, "a b c", 5), QUERN_OK) << quern_message();
  std::vector<int> known = {0, 1, 2};
  std::string shown;
  quern_choice next = {};
  while (!next.done) {
    const float *logits;
    size_t count;
    ASSERT_EQ(quern_logits(text, &logits, &count), QUERN_OK);
    EXPECT_EQ(std::max_element(logits, logits + count) - logits, toyNext(known));
    ASSERT_EQ(quern_step(text, &next), QUERN_OK) << quern_message();
    EXPECT_EQ(next.token, toyNext(known));
    EXPECT_LT(next.log_probability, 0);
    known.push_back(next.token);
    shown.append(next.text, next.bytes);
  }
  EXPECT_EQ(known.size(), 8u);
  std::vector<int> made(known.begin() + 3, known.end());
  std::string want(100, '\0');
  size_t bytes = want.size();
  ASSERT_EQ(quern_detokenize(engine, known.data(), known.size(), want.data(), &bytes), QUERN_OK);
  want.resize(bytes);
  EXPECT_EQ("a b c" + shown, want);
  EXPECT_EQ(quern_step(text, &next), QUERN_INPUT);
  EXPECT_THAT(quern_message(), HasSubstr("has ended"));
  quern_end(text);
}

TEST_F(LibraryTest, SeveralSequencesStepTogetherAndAlone) {
  std::vector<std::vector<int>> known = {{3}, {1, 2, 3, 4}, {9, 9}};
  std::vector<quern_sequence *> texts;
  for (const std::vector<int> &tokens : known)
    texts.push_back(begin(tokens));
  auto check = [&](size_t i, const quern_choice &next) {
    EXPECT_EQ(next.token, toyNext(known[i]));
    known[i].push_back(next.token);
  };
  quern_choice next[3];
  for (std::vector<size_t> group : {std::vector<size_t>{0, 1, 2}, {0, 1, 2}, {2, 0}, {1}, {1, 2}, {0, 1, 2}}) {
    std::vector<quern_sequence *> now;
    for (size_t i : group)
      now.push_back(texts[i]);
    if (group.size() == 1)
      ASSERT_EQ(quern_step(now[0], next), QUERN_OK) << quern_message();
    else
      ASSERT_EQ(quern_step_batch(now.data(), now.size(), next), QUERN_OK) << quern_message();
    for (size_t k = 0; k < group.size(); ++k)
      check(group[k], next[k]);
  }
  quern_sequence *twice[] = {texts[0], texts[0]};
  EXPECT_EQ(quern_step_batch(twice, 2, next), QUERN_INPUT);
  for (quern_sequence *text : texts)
    quern_end(text);
}

TEST_F(LibraryTest, ThreadsWaitForEachOther) {
  std::vector<std::thread> threads;
  for (int first = 0; first < 4; ++first)
    threads.emplace_back([&, first] {
      std::vector<int> known = {first};
      quern_sequence *text = begin(known);
      for (int i = 0; i < 10; ++i) {
        quern_choice next;
        ASSERT_EQ(quern_step(text, &next), QUERN_OK);
        EXPECT_EQ(next.token, toyNext(known));
        known.push_back(next.token);
      }
      quern_end(text);
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(LibraryTest, ABiasForbidsAToken) {
  quern_sequence *text = nullptr;
  ASSERT_EQ(quern_begin(engine, &text), QUERN_OK);
  int usual = toyNext({0, 1, 2}), tokens[] = {0, 1, 2};
  EXPECT_EQ(quern_bias(text, 16, 1), QUERN_INPUT);
  EXPECT_EQ(quern_bias(text, usual, NAN), QUERN_INPUT);
  ASSERT_EQ(quern_bias(text, usual, -INFINITY), QUERN_OK) << quern_message();
  ASSERT_EQ(quern_prefill(text, tokens, 3), QUERN_OK);
  EXPECT_EQ(quern_bias(text, usual, 0), QUERN_INPUT); // too late
  quern_choice next;
  ASSERT_EQ(quern_step(text, &next), QUERN_OK);
  EXPECT_NE(next.token, usual);
  quern_end(text);
}

TEST_F(LibraryTest, FailsWithACodeAndASentence) {
  quern_engine *other = nullptr;
  EXPECT_EQ(quern_open("/nowhere.safetensors", nullptr, 0, &other), QUERN_INPUT);
  EXPECT_THAT(quern_message(), HasSubstr("/nowhere.safetensors"));
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(quern_open(nullptr, nullptr, 0, &other), QUERN_INPUT);
  quern_sequence *text = begin({1, 2});
  EXPECT_EQ(quern_set(text, "temp", 1), QUERN_INPUT);
  EXPECT_THAT(quern_message(), HasSubstr("before it is prefilled"));
  int bad = 16;
  EXPECT_EQ(quern_prefill(text, &bad, 1), QUERN_INPUT);
  EXPECT_THAT(quern_message(), HasSubstr("16"));
  std::vector<int> unlucky = {13, 13};
  EXPECT_EQ(quern_prefill(text, unlucky.data(), 2), QUERN_INPUT);
  EXPECT_THAT(quern_message(), HasSubstr("bad luck"));
  quern_end(text);
  text = nullptr;
  ASSERT_EQ(quern_begin(engine, &text), QUERN_OK);
  quern_choice next;
  EXPECT_EQ(quern_step(text, &next), QUERN_INPUT);
  EXPECT_EQ(quern_set(text, "temperature", 1), QUERN_INPUT);
  EXPECT_THAT(quern_message(), HasSubstr("temperature"));
  EXPECT_EQ(quern_set(text, "top-p", 2), QUERN_INPUT);
  quern_end(text);
  int32_t tokens[2];
  size_t count = 2;
  EXPECT_EQ(quern_tokenize(engine, "a b c", 5, tokens, &count), QUERN_INPUT);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(quern_embed(engine, "a", 1, nullptr, &count), QUERN_INPUT);
  EXPECT_THAT(quern_message(), HasSubstr("no vector"));
  quern_close(nullptr);
  quern_end(nullptr);
}

TEST_F(LibraryTest, LeavesTheFloatingPointModeAlone) {
  unsigned before = _mm_getcsr();
  quern_sequence *text = begin({1, 2});
  quern_end(text);
  EXPECT_EQ(_mm_getcsr(), before);
}

} // namespace
