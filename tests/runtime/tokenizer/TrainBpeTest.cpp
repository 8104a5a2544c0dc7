// Byte-pair encoding learnt from small texts, beside merges found by hand.
#include "runtime/tokenizer/model/TrainBpe.h"
#include "runtime/Error.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace quern::runtime;
using testing::ElementsAre;

namespace {

std::vector<std::string> mergesOf(const std::string &json) {
  nlohmann::json file = nlohmann::json::parse(json);
  std::vector<std::string> merges;
  for (const auto &pair : file["model"]["merges"])
    merges.push_back(pair[0].get<std::string>() + "+" + pair[1].get<std::string>());
  return merges;
}

TEST(TrainBpe, MergesTheMostFrequentPairFirst) {
  // "ab" four times, then "abc" three times; all else is there once.
  EXPECT_THAT(mergesOf(trainBpe({"abc abc,abc ab"}, 300, {})), ElementsAre("a+b", "ab+c"));
  // As frequent: the smaller numbers, and what stands for a space has a large one.
  EXPECT_THAT(mergesOf(trainBpe({"xy zw"}, 259, {}, 1)), ElementsAre("x+y", "z+w", "\xc4\xa0+zw"));
}

TEST(TrainBpe, CountsPairsThatOverlapOnce) {
  EXPECT_THAT(mergesOf(trainBpe({"aaaa aaaa"}, 258, {})), ElementsAre("a+a", "aa+aa"));
}

TEST(TrainBpe, ReadsBackEveryText) {
  std::string text = "To be, or not to be: that is the question.\n\n  Whether 't is nobler\t\xc3\xa4\xe2\x82\xac "
                     "\xf0\x9f\x99\x82\xff end";
  std::string json = trainBpe({text, text}, 290, {"<|endoftext|>"});
  Tokenizer tokenizer = Tokenizer::parse(json, "trained");
  EXPECT_EQ(tokenizer.size(), 290);
  EXPECT_EQ(tokenizer.findToken("<|endoftext|>"), 289);
  std::string valid = text;
  valid.replace(valid.find('\xff'), 1, "\xef\xbf\xbd");
  for (const std::string &sample :
       {std::string("not seen before \xe4\xb8\xad"), valid, valid + "<|endoftext|>" + valid})
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(sample, true), false), sample);
  EXPECT_LT(tokenizer.encode(text, true).size(), text.size());
}

TEST(TrainBpe, SpecialTokensAreNoWords) {
  std::string json = trainBpe({"<s>x<s>x<s>x"}, 400, {"<s>"});
  EXPECT_TRUE(mergesOf(json).empty());
}

TEST(TrainBpe, RefusesWhatCannotBe) {
  EXPECT_THROW(trainBpe({"x"}, 255, {}), UserError);
  EXPECT_THROW(trainBpe({"x"}, 256, {"<s>"}), UserError);
  EXPECT_THROW(trainBpe({"x"}, 300, {"<s>", "<s>"}), UserError);
  EXPECT_THROW(trainBpe({"x"}, 300, {""}), UserError);
  EXPECT_TRUE(mergesOf(trainBpe({""}, 300, {})).empty());
}

} // namespace
