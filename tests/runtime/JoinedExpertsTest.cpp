// Experts that are stored together with inputs first, as Qwen3-VL is published; WeightsTest.cpp has those with outputs first.
#include "runtime/weights/JoinedExperts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

using namespace quern::runtime;
using testing::ElementsAre;

namespace {

/// Two experts of three numbers inside, two outside: 1, 2, 3 ... each.
class InputsFirst : public testing::Test {
protected:
  std::vector<float> both = std::vector<float>(24), down = std::vector<float>(12);
  std::map<std::string, StoredTensor> tensors;

  void SetUp() override {
    add("experts.gate_up_proj", both, {2, 2, 6});
    add("experts.down_proj", down, {2, 3, 2});
  }
  void add(const std::string &name, std::vector<float> &numbers, std::vector<int64_t> shape) {
    std::iota(numbers.begin(), numbers.end(), 1.0f);
    tensors["mlp." + name] = {Dtype::F32, std::move(shape), reinterpret_cast<const uint8_t *>(numbers.data()),
                              numbers.size() * 4, nullptr};
  }
};

TEST_F(InputsFirst, AreTransposed) {
  const std::map<std::string, StoredTensor> single = singleExperts(tensors);
  auto of = [&](const std::string &name) { return single.at("mlp.experts." + name + "_proj.weight"); };
  EXPECT_EQ(single.size(), 6u);
  EXPECT_THAT(of("0.gate").shape, ElementsAre(3, 2));
  EXPECT_THAT(of("0.down").shape, ElementsAre(2, 3));
  EXPECT_THAT(numbersOf(of("0.gate")), ElementsAre(1, 7, 2, 8, 3, 9));
  EXPECT_THAT(numbersOf(of("0.up")), ElementsAre(4, 10, 5, 11, 6, 12));
  EXPECT_THAT(numbersOf(of("0.down")), ElementsAre(1, 3, 5, 2, 4, 6));
  EXPECT_THAT(numbersOf(of("1.gate")), ElementsAre(13, 19, 14, 20, 15, 21));
  EXPECT_THAT(numbersOf(of("1.up")), ElementsAre(16, 22, 17, 23, 18, 24));
  EXPECT_THAT(numbersOf(of("1.down")), ElementsAre(7, 9, 11, 8, 10, 12));
  float lying[4];
  of("1.up").reader->transposed()->read(1, 4, lying);
  EXPECT_THAT(lying, ElementsAre(17, 18, 22, 23)) << "as it is stored";
  EXPECT_STREQ(typeName(of("1.up")), "F32");
}

TEST_F(InputsFirst, StayTogetherWithABias) {
  std::vector<float> bias(12);
  add("experts.gate_up_proj_bias", bias, {2, 6});
  EXPECT_TRUE(singleExperts(tensors).empty()) << "as of gpt-oss";
}

TEST_F(InputsFirst, StayTogetherIfTheShapesDiffer) {
  tensors["mlp.experts.down_proj"].shape = {2, 2, 3};
  EXPECT_TRUE(singleExperts(tensors).empty());
}

} // namespace
