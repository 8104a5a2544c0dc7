// Checkpoints of compressed-tensors and ModelOpt, number by number as the package compressed-tensors decodes them
// (tests/data/generate/make_compressed.py).
#include "runtime/Error.h"
#include "runtime/files/MappedFile.h"
#include "runtime/formats/BlockFormat.h"
#include "runtime/formats/PackedTensors.h"
#include "tests/runtime/Damage.h"
#include "tests/runtime/TestData.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace quern::runtime;
using namespace quern::runtime::test;

namespace {

using Tensors = std::map<std::string, StoredTensor>;

Tensors read(const std::string &bytes) {
  Tensors tensors = readSafetensors(MappedFile::copy(bytes, "model.safetensors"));
  joinPackedTensors(tensors);
  return tensors;
}

std::string file() {
  return std::string(MappedFile::open(dataPath("formats/compressed.safetensors"))->text());
}

TEST(Compressed, NumbersAreThoseOfThePackage) {
  Tensors tensors = read(file());
  size_t cases = 0;
  for (const auto &[name, expected] : tensors) {
    if (!name.starts_with("expected."))
      continue;
    const std::string stored = name.substr(std::string("expected.").size()) + ".weight";
    ASSERT_TRUE(tensors.count(stored)) << stored;
    EXPECT_EQ(tensors.at(stored).shape, expected.shape) << stored;
    EXPECT_EQ(numbersOf(tensors.at(stored)), numbersOf(expected)) << stored;
    ++cases;
  }
  EXPECT_EQ(cases, 13u);
  const std::vector<float> optimised = numbersOf(tensors.at("modelopt.weight")),
                           expected = numbersOf(tensors.at("expected.nvfp4"));
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(optimised[i], expected[i], 1e-6 * std::fabs(expected[i])) << i; // one divides, the other multiplies
  for (const auto &[name, tensor] : tensors) // scales of activations and all parts are gone
    EXPECT_TRUE(name.starts_with("expected.") || name.ends_with(".weight")) << name;
}

/// Groups move into the blocks that hold them, without another rounding.
TEST(Compressed, BlocksHoldTheSameNumbers) {
  Tensors tensors = read(file());
  size_t blocks = 0;
  for (const auto &[name, tensor] : tensors) {
    const char *held = tensor.reader ? tensor.reader->heldBy() : nullptr;
    const BlockFormat *format = held ? findBlockFormat(held) : nullptr;
    if (!format)
      continue;
    const std::vector<float> all = numbersOf(tensor);
    std::vector<uint8_t> room(1024);
    std::vector<float> decoded(static_cast<size_t>(format->elements));
    for (int64_t at = 0; at < tensor.elements(); at += format->elements, ++blocks) {
      const uint8_t *block = tensor.reader->block(held, at, 1, format->elements, room.data());
      ASSERT_TRUE(block) << name << " at " << at;
      decodeBlocks(*format, block, 0, format->elements, decoded.data());
      EXPECT_EQ(decoded, std::vector<float>(all.begin() + at, all.begin() + at + format->elements)) << name;
    }
  }
  EXPECT_GT(blocks, 100u);
  EXPECT_STREQ(tensors.at("int4_groups.weight").reader->heldBy(), "Q4_0");
  EXPECT_STREQ(tensors.at("int8_rows.weight").reader->heldBy(), "Q8_0");
  EXPECT_STREQ(tensors.at("mxfp4.weight").reader->heldBy(), "BF16");
}

TEST(Compressed, SurvivesDamage) {
  const std::string whole = file();
  uint64_t table = 0;
  std::memcpy(&table, whole.data(), 8);
  const auto use = readingAll(read, [](const StoredTensor &tensor, int64_t at) {
    uint8_t room[1024];
    if (const char *held = at % 32 == 0 ? tensor.reader->heldBy() : nullptr)
      tensor.reader->block(held, at, 1, 32, room);
  });
  useDamaged(whole, use, 100, 400, size_t(table) + 8);
  useDamaged(whole, use, 0, 100);
}

TEST(Compressed, SaysWhatDoesNotFit) {
  const auto complaint = [](const std::string &missing, const std::string &name) {
    Tensors tensors = readSafetensors(MappedFile::copy(file(), "model.safetensors"));
    if (!name.empty())
      tensors[missing] = tensors.at(name);
    else
      tensors.erase(missing);
    try {
      joinPackedTensors(tensors);
      return std::string();
    } catch (const UserError &error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(complaint("int4_groups.weight_scale", ""),
              testing::HasSubstr("'int4_groups.weight_packed' has no .weight_scale"));
  EXPECT_THAT(complaint("int4_groups.weight_shape", ""), testing::HasSubstr("weight_shape"));
  EXPECT_THAT(complaint("int4_groups.weight_scale", "int4_rows.weight_scale"), testing::IsEmpty()) << "one group a row";
  EXPECT_THAT(complaint("int4_zeros.weight_zero_point", "int6_zeros.weight_zero_point"),
              testing::HasSubstr("weight_zero_point"));
  EXPECT_THAT(complaint("nvfp4.weight_scale", "int8_zeros.weight_scale"), testing::IsEmpty());
  EXPECT_THAT(complaint("nvfp4.weight_scale", "int3_groups.weight_scale"),
              testing::HasSubstr("does not fit its .weight_scale"));
}

} // namespace
