// What `quern quantize` stores: numbers by hand, blocks, parts that do not fit each other, damaged files.
#include "runtime/formats/GroupedCodes.h"
#include "runtime/Error.h"
#include "runtime/formats/BlockFormat.h"
#include "runtime/formats/PackedTensors.h"
#include "support/numbers/SmallFloats.h"
#include "tests/runtime/Damage.h"

#include <gmock/gmock.h>

#include <cstring>

using namespace quern::runtime;
using namespace quern::runtime::test;
using testing::HasSubstr;

namespace {

using Tensors = std::map<std::string, StoredTensor>;

std::string fileOf(const std::vector<OutputTensor> &tensors) {
  std::string file = safetensorsHeader(tensors);
  for (const OutputTensor &tensor : tensors)
    file.append(static_cast<const char *>(tensor.data), tensor.bytes());
  return file;
}

Tensors tablesOf(const std::string &file) {
  Tensors tensors = readSafetensors(MappedFile::copy(file, "x.safetensors"));
  joinPackedTensors(tensors);
  return tensors;
}

/// [2, 40] in int8 along the second dimension: groups of 32 and of 8. [33, 3] in int4 along the first: of 32 and of 1.
struct Example {
  std::vector<int8_t> wide;
  std::vector<uint8_t> narrow;
  std::vector<uint16_t> wideScales, narrowScales;
  std::vector<int64_t> shape = {33, 3};

  Example() {
    for (int i = 0; i < 80; ++i)
      wide.push_back(int8_t(i * 7 % 255 - 127));
    for (float scale : {0.5f, 0.25f, 2.0f, 1.0f})
      wideScales.push_back(quern::support::floatToHalf(scale));
    for (int i = 0; i < 17 * 3; ++i)
      narrow.push_back(uint8_t(i * 37));
    for (float scale : {0.5f, -0.25f, 2.0f, 1.0f, -4.0f, 0.125f})
      narrowScales.push_back(quern::support::floatToHalf(scale));
  }
  std::vector<OutputTensor> parts() const {
    return {{"a", Dtype::I8, {2, 40}, wide.data()},     {"a.scales", Dtype::F16, {2, 2}, wideScales.data()},
            {"b", Dtype::U8, {17, 3}, narrow.data()},   {"b.scales", Dtype::F16, {2, 3}, narrowScales.data()},
            {"b.shape", Dtype::I64, {2}, shape.data()}, {"c.scales", Dtype::F16, {2, 2}, wideScales.data()}};
  }
  float a(int row, int column) const {
    return quern::support::halfToFloat(wideScales[size_t(row * 2 + column / 32)]) *
           float(wide[size_t(row * 40 + column)]);
  }
  int code(int row, int column) const { return (narrow[size_t(row / 2 * 3 + column)] >> row % 2 * 4 & 15) - 8; }
  float b(int row, int column) const {
    return quern::support::halfToFloat(narrowScales[size_t(row / 32 * 3 + column)]) * float(code(row, column));
  }
};

TEST(GroupedCodes, AreTheNumbersOfTheirFormula) {
  Example example;
  Tensors tensors = tablesOf(fileOf(example.parts()));
  ASSERT_EQ(tensors.size(), 3u); // c.scales has no codes beside it: a tensor like any other
  EXPECT_EQ(tensors.at("a").shape, (std::vector<int64_t>{2, 40}));
  EXPECT_EQ(tensors.at("b").shape, (std::vector<int64_t>{33, 3}));
  EXPECT_STREQ(typeName(tensors.at("a")), "int8");
  EXPECT_STREQ(typeName(tensors.at("b")), "int4");
  std::vector<float> a(80), b(99), part(10);
  toFloat(tensors.at("a"), 0, 80, a.data());
  toFloat(tensors.at("b"), 0, 99, b.data());
  for (int i = 0; i < 80; ++i)
    EXPECT_EQ(a[size_t(i)], example.a(i / 40, i % 40)) << i;
  for (int i = 0; i < 99; ++i)
    EXPECT_EQ(b[size_t(i)], example.b(i / 3, i % 3)) << i;
  toFloat(tensors.at("b"), 41, 10, part.data());
  EXPECT_EQ(std::memcmp(part.data(), b.data() + 41, 40), 0);
}

TEST(GroupedCodes, AreBlocksAlongTheirDimensionAlone) {
  Example example;
  Tensors tensors = tablesOf(fileOf(example.parts()));
  const TensorReader &a = *tensors.at("a").reader, &b = *tensors.at("b").reader;
  uint8_t room[34];
  EXPECT_EQ(a.block("Q4_0", 0, 1, 32, room), nullptr);
  EXPECT_EQ(a.block("Q8_0", 1, 1, 32, room), nullptr);  // not where a group begins
  EXPECT_EQ(a.block("Q8_0", 0, 40, 2, room), nullptr);  // along the other dimension
  EXPECT_EQ(a.block("Q8_0", 32, 1, 32, room), nullptr); // longer than the group
  EXPECT_EQ(b.block("Q4_0", 0, 1, 32, room), nullptr);
  float values[32];
  const BlockFormat &wide = *findBlockFormat("Q8_0"), &narrow = *findBlockFormat("Q4_0");
  ASSERT_TRUE(a.block("Q8_0", 40 + 32, 1, 8, room));
  decodeBlocks(wide, room, 0, 32, values);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(values[i], i < 8 ? example.a(1, 32 + i) : 0) << i;
  for (int column = 0; column < 3; ++column) {
    ASSERT_TRUE(b.block("Q4_0", column, 3, 32, room));
    decodeBlocks(narrow, room, 0, 32, values);
    for (int i = 0; i < 32; ++i)
      EXPECT_EQ(values[i], example.b(i, column)) << i;
    ASSERT_TRUE(b.block("Q4_0", 32 * 3 + column, 3, 1, room));
    decodeBlocks(narrow, room, 0, 32, values);
    EXPECT_EQ(values[0], example.b(32, column));
    EXPECT_EQ(values[1], 0);
    EXPECT_EQ(values[31], 0);
  }
}

/// Of 128: their length follows from the number of scales. A part of a group is a group of Q8_0, no longer one is there.
TEST(GroupedCodes, MayBeLong) {
  constexpr int length = 200;
  std::vector<int8_t> codes(2 * length);
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = int8_t(i * 11 % 255 - 127);
  const std::vector<float> steps = {0.5f, 0.25f, 2.0f, 1.0f};
  std::vector<uint16_t> scales;
  for (float step : steps)
    scales.push_back(quern::support::floatToHalf(step));
  Tensors tensors =
      tablesOf(fileOf({{"a", Dtype::I8, {2, length}, codes.data()}, {"a.scales", Dtype::F16, {2, 2}, scales.data()}}));
  EXPECT_STREQ(typeName(tensors.at("a")), "int8_g128");
  std::vector<float> numbers(2 * length);
  toFloat(tensors.at("a"), 0, 2 * length, numbers.data());
  for (int i = 0; i < 2 * length; ++i)
    EXPECT_EQ(numbers[size_t(i)], steps[size_t(i / length * 2 + i % length / 128)] * float(codes[size_t(i)])) << i;
  const TensorReader &a = *tensors.at("a").reader;
  uint8_t room[2 + 128];
  ASSERT_TRUE(a.block("int8_g128", length + 128, 1, length - 128, room));
  uint16_t scale;
  std::memcpy(&scale, room, 2);
  EXPECT_EQ(scale, scales[3]);
  for (int i = 0; i < 128; ++i)
    EXPECT_EQ(int8_t(room[2 + i]), i < length - 128 ? codes[size_t(length + 128 + i)] : 0) << i;
  EXPECT_EQ(a.block("int8_g128", 64, 1, 128, room), nullptr);
  ASSERT_TRUE(a.block("Q8_0", 96, 1, 32, room));
  EXPECT_EQ(int8_t(room[2]), codes[96]);
  Example example;
  Tensors usual = tablesOf(fileOf(example.parts()));
  EXPECT_EQ(usual.at("a").reader->block("int8_g128", 0, 1, 40, room), nullptr) << "it has two scales";
}

TEST(GroupedCodes, SayWhatDoesNotFit) {
  Example example;
  auto refusal = [&](auto change) {
    std::vector<OutputTensor> parts = example.parts();
    change(parts);
    try {
      tablesOf(fileOf(parts));
    } catch (const UserError &error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([](auto &) {}), "");
  EXPECT_THAT(refusal([](auto &parts) { parts[1].shape = {1, 4}; }),
              AllOf(HasSubstr("x.safetensors"), HasSubstr("'a'"), HasSubstr("does not fit its .scales")));
  EXPECT_THAT(refusal([](auto &parts) { parts[1].dtype = Dtype::BF16; }), HasSubstr("does not fit its .scales"));
  EXPECT_THAT(refusal([](auto &parts) { parts.erase(parts.begin() + 4); }), HasSubstr("no .shape"));
  std::vector<int64_t> wrong = {34, 3};
  for (std::vector<int64_t> shape : {std::vector<int64_t>{35, 3}, {33, 4}, {-33, 3}, {0, 0}, {INT64_MAX, INT64_MAX}}) {
    wrong = shape;
    EXPECT_THAT(refusal([&](auto &parts) { parts[4].data = wrong.data(); }), HasSubstr("does not fit its .scales"));
  }
}

TEST(GroupedCodes, DamagedFilesEndInAnErrorOrNumbers) {
  auto use = readingAll(tablesOf, [](const StoredTensor &tensor, int64_t at) {
    uint8_t room[34];
    for (int64_t stride : {1, 3, 40})
      for (const char *format : {"Q8_0", "Q4_0"})
        tensor.reader->block(format, at, stride, std::min<int64_t>(32, tensor.elements() - at), room);
  });
  useDamaged(fileOf(Example().parts()), use, 1000, 2000);
}

} // namespace
