// Numbers in few bits, bit for bit as the package gguf and ml_dtypes decode them (tests/data/generate/make_quants.py).
#include "runtime/Error.h"
#include "runtime/formats/BlockFormat.h"
#include "runtime/formats/PackedTensors.h"
#include "runtime/formats/SuperWords.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/Weights.h"
#include "support/numbers/SmallFloats.h"
#include "tests/runtime/Damage.h"
#include "tests/runtime/TestData.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

using namespace quern::runtime;
using namespace quern::runtime::test;

namespace {

using Tensors = std::map<std::string, StoredTensor>;

Tensors file(const std::string &name) {
  return readSafetensors(MappedFile::open(dataPath("formats/" + name + "-quants.safetensors")));
}

TEST(BlockFormat, DecodesEveryTypeBitForBit) {
  Tensors tensors = file("ggml");
  int types = 0;
  for (const auto &[name, bytes] : tensors) {
    if (!name.starts_with("decode.") || !name.ends_with(".bytes"))
      continue;
    ++types;
    std::string type = name.substr(7, name.size() - 13);
    const BlockFormat *format = findBlockFormat(type);
    ASSERT_TRUE(format) << type;
    EXPECT_EQ(findBlockFormat(format->ggml), format);
    EXPECT_THAT(blockFormatNames(), testing::HasSubstr(type));
    ASSERT_EQ(format->bytes, bytes.shape[1]) << type;
    std::vector<float> want = numbersOf(tensors.at("decode." + type + ".values")), got(want.size());
    ASSERT_EQ(int64_t(want.size()), bytes.shape[0] * format->elements) << type;
    decodeBlocks(*format, bytes.data, 0, int64_t(got.size()), got.data());
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(got[i], want[i]) << type << " element " << i;
    // Any stretch is what the whole has there.
    std::vector<float> part(got.size());
    std::mt19937 random(3);
    for (int k = 0; k < 50; ++k) {
      size_t first = random() % got.size(), count = 1 + random() % (got.size() - first);
      decodeBlocks(*format, bytes.data, int64_t(first), int64_t(count), part.data());
      ASSERT_EQ(std::memcmp(part.data(), got.data() + first, count * 4), 0) << type;
    }
  }
  EXPECT_EQ(types, 23);
  EXPECT_EQ(findBlockFormat("F32"), nullptr);
}

/// All points of all grids.
TEST(BlockFormat, DecodesEveryPointOfAGrid) {
  Tensors tensors = file("ggml");
  for (const char *type : {"IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S"}) {
    const StoredTensor &blocks = tensors.at("points." + std::string(type) + ".bytes");
    std::vector<float> values(size_t(blocks.shape[0] * 256));
    decodeBlocks(*findBlockFormat(type), blocks.data, 0, int64_t(values.size()), values.data());
    uint64_t hash = 0xcbf29ce484222325, want; // FNV-1a
    for (size_t i = 0; i < values.size() * 4; ++i)
      hash = (hash ^ reinterpret_cast<const uint8_t *>(values.data())[i]) * 0x100000001b3;
    std::memcpy(&want, tensors.at("points." + std::string(type) + ".hash").data, 8);
    EXPECT_EQ(hash, want) << type;
  }
}

/// Formats with one scale for 32 numbers or more are groups of Q8_0 or Q4_0 of the same numbers, bit for bit.
TEST(BlockFormat, OneScaleIsAGroupOfOwnCodes) {
  Tensors tensors = file("ggml");
  std::map<std::string, std::string> held;
  for (const auto &[name, bytes] : tensors) {
    if (!name.starts_with("decode.") || !name.ends_with(".bytes"))
      continue;
    const std::string type = name.substr(7, name.size() - 13);
    const BlockFormat &format = *findBlockFormat(type);
    const std::vector<float> want = numbersOf(tensors.at("decode." + type + ".values"));
    for (int bits : {8, 4}) {
      if (!fitsGroups(format, bits))
        continue;
      const char *own = bits == 8 ? "Q8_0" : "Q4_0";
      held[type] += own;
      int moved = 0;
      for (int64_t at = 0; at < int64_t(want.size()); at += 32) {
        uint8_t group[34];
        const uint8_t *block = bytes.data + at / format.elements * format.bytes;
        if (!regroup(format, block, int(at % format.elements), bits, group)) {
          EXPECT_EQ(type, "MXFP4") << "f16 has no such scale";
          continue;
        }
        ++moved;
        float got[32];
        decodeBlocks(*findBlockFormat(own), group, 0, 32, got);
        for (int i = 0; i < 32; ++i)
          ASSERT_EQ(got[i], want[size_t(at + i)]) << type << " as " << own << " element " << at + i;
      }
      EXPECT_GT(moved, 0) << type;
    }
  }
  EXPECT_THAT(held, testing::ElementsAre(testing::Pair("IQ4_NL", "Q8_0"), testing::Pair("MXFP4", "Q8_0"),
                                         testing::Pair("Q4_0", "Q8_0Q4_0"), testing::Pair("Q5_0", "Q8_0"),
                                         testing::Pair("Q8_0", "Q8_0"), testing::Pair("TQ1_0", "Q8_0Q4_0"),
                                         testing::Pair("TQ2_0", "Q8_0Q4_0")));
}

TEST(BlockFormat, EncodesAsGgmlDoes) {
  Tensors tensors = file("ggml");
  std::vector<float> rows = numbersOf(tensors.at("quantize.input"));
  for (auto [type, encode] : {std::pair{"Q8_0", &encodeQ8_0}, std::pair{"Q4_0", &encodeQ4_0}}) {
    const StoredTensor &want = tensors.at(std::string("quantize.") + type + ".bytes");
    std::vector<uint8_t> got(size_t(want.bytes));
    encode(rows.data(), int64_t(rows.size()), got.data());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(int(got[i]), int(want.data[i])) << type << " byte " << i;
  }
}

TEST(SmallFloats, HalvesComeBackAndRoundToTheNearest) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = quern::support::halfToFloat(uint16_t(bits));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(quern::support::halfToFloat(quern::support::floatToHalf(value))));
    else
      ASSERT_EQ(quern::support::floatToHalf(value), bits);
  }
  std::mt19937 random(5);
  for (int i = 0; i < 100000; ++i) {
    float value = std::bit_cast<float>(uint32_t(random()));
    if (!(std::fabs(value) < 70000))
      continue;
    uint16_t half = quern::support::floatToHalf(value);
    double near = std::fabs(double(quern::support::halfToFloat(half)) - double(value));
    if (std::isinf(quern::support::halfToFloat(half))) {
      EXPECT_GE(std::fabs(value), 65520);
      continue;
    }
    for (int step : {-1, 1}) // neither neighbour is nearer; of two as near, the even one
      if (float other = quern::support::halfToFloat(uint16_t(half + step)); std::isfinite(other)) {
        double far = std::fabs(double(other) - double(value));
        EXPECT_TRUE(near < far || (near == far && half % 2 == 0) || (half & 0x7fff) == 0) << value;
      }
  }
}

class Packed : public testing::Test {
protected:
  Tensors tensors = file("packed");
  Tensors expected = tensors;
  void SetUp() override { joinPackedTensors(tensors); }
};

TEST_F(Packed, IntegersAndExpertsReadAsTheNumbersThatWerePacked) {
  for (const char *name : {"gptq", "gptq_act", "awq", "experts"}) {
    std::string joined = std::string(name) == "experts" ? name : std::string(name) + ".weight";
    const StoredTensor &got = tensors.at(joined), &want = expected.at(std::string("expected.") + name);
    EXPECT_EQ(got.shape, want.shape) << name;
    EXPECT_THAT(numbersOf(got), testing::ElementsAreArray(numbersOf(want))) << name;
    std::vector<float> stretch(30), all = numbersOf(want);
    toFloat(got, 50, 30, stretch.data());
    EXPECT_THAT(stretch, testing::ElementsAreArray(all.begin() + 50, all.begin() + 80)) << name;
  }
  for (const auto &[name, tensor] : tensors) // the parts are gone
    EXPECT_TRUE(name.starts_with("expected.") || tensor.reader) << name;
}

/// The numbers of a block: of a type of GGUF, or words of super-blocks.
std::vector<float> numbersOf(const char *type, const uint8_t *block, int64_t count) {
  std::vector<float> result(static_cast<size_t>(count));
  std::optional<Storage> storage = quern::support::storageByName(type);
  if (!storage) {
    decodeBlocks(*findBlockFormat(type), block, 0, count, result.data());
    return result;
  }
  if (const quern::support::FloatCodes *floats = floatCodesOf(*storage)) {
    float scale;
    std::memcpy(&scale, block, 4);
    for (int64_t i = 0; i < count; ++i)
      result[size_t(i)] = scale / floats->unit * numberOfCode(*floats, block[4 + i]);
    return result;
  }
  const quern::support::SuperBlocks &form = *superBlocksOf(*storage);
  uint32_t words[quern::support::longestSuperBlock];
  std::memcpy(words, block, size_t(form.words()) * 4);
  const SuperCodes codes = unpackWords(form, words);
  for (int64_t i = 0; i < count; ++i)
    result[size_t(i)] = quern::support::halfToFloat(codes.unit) * float(codes.scales[i / form.group] * codes.codes[i]) -
                        quern::support::halfToFloat(codes.unitOfMinimums) * float(codes.minimums[i / form.group]);
  return result;
}

/// What a reader says holds its numbers does: each group along the depth is a block of that type, bit for bit.
TEST_F(Packed, CodesWithAScaleForGroupsAreKept) {
  std::map<std::string, std::string> held;
  for (const auto &[name, tensor] : tensors) {
    if (!tensor.reader)
      continue;
    const char *type = tensor.reader->heldBy();
    held[name] = type ? type : "";
    if (!type)
      continue;
    const bool experts = tensor.shape.size() == 3; // [expert, depth, output]
    const int64_t depth = tensor.shape[1], outputs = experts ? tensor.shape[2] : tensor.shape[0],
                  stride = experts ? outputs : 1;
    const std::vector<float> want = numbersOf(tensor);
    const std::optional<Storage> storage = quern::support::storageByName(type);
    const int64_t each = storage ? blockOf(*storage) : 32;
    for (int64_t expert = 0; expert < (experts ? tensor.shape[0] : 1); ++expert)
      for (int64_t o = 0; o < outputs; ++o)
        for (int64_t i = 0; i < depth; i += each) {
          const int64_t first = experts ? (expert * depth + i) * outputs + o : o * depth + i,
                        count = std::min(each, depth - i);
          uint8_t room[1024];
          const uint8_t *block = tensor.reader->block(type, first, stride, count, room);
          ASSERT_TRUE(block) << name;
          const std::vector<float> got = numbersOf(type, block, count);
          for (int64_t k = 0; k < count; ++k)
            ASSERT_EQ(got[size_t(k)], want[size_t(first + k * stride)]) << name << " " << first;
        }
  }
  EXPECT_EQ(held.at("gptq_act.weight"), "") << "groups are not of neighbours";
  EXPECT_EQ(held.at("gptq.weight"), "q4_1");
  EXPECT_EQ(held.at("awq.weight"), "q4_1");
  EXPECT_EQ(held.at("experts"), "Q8_0");
  EXPECT_EQ(held.at("f8.weight"), "f8_e4m3");
}

/// Zeros in the middle, as symmetric quantisation has them: codes of four bits.
TEST_F(Packed, ZerosInTheMiddleMakeCodesOfFourBits) {
  Tensors middle = expected;
  StoredTensor &zeros = middle.at("gptq.qzeros");
  const std::string bytes(size_t(zeros.bytes), '\x77'); // stored less 1
  zeros.file = MappedFile::copy(bytes, "zeros");
  zeros.data = zeros.file->data();
  joinPackedTensors(middle);
  const StoredTensor &tensor = middle.at("gptq.weight");
  ASSERT_STREQ(tensor.reader->heldBy(), "Q4_0");
  const std::vector<float> want = numbersOf(tensor);
  uint8_t room[34];
  for (int64_t first = 0; first < int64_t(want.size()); first += 32)
    for (const char *type : {"Q4_0", "Q8_0"}) {
      const uint8_t *block = tensor.reader->block(type, first, 1, 32, room);
      ASSERT_TRUE(block) << first;
      float got[32];
      decodeBlocks(*findBlockFormat(type), block, 0, 32, got);
      EXPECT_TRUE(std::equal(got, got + 32, want.begin() + first)) << type << " " << first;
    }
}

/// Codes of GPTQ, AWQ, MXFP4 and 8-bit floats: every truncation of the header, and of the rest some; 1,000 damages. An error or
/// numbers, whatever is read.
TEST(PackedFiles, SurviveDamage) {
  const std::string whole = readFile(dataPath("formats/packed-quants.safetensors"));
  uint64_t header;
  std::memcpy(&header, whole.data(), 8);
  auto use = [](const std::string &bytes) {
    try {
      Tensors tensors = readSafetensors(MappedFile::copy(bytes, "damaged"));
      joinPackedTensors(tensors);
      for (const auto &[name, tensor] : tensors) {
        if (!tensor.reader)
          continue;
        numbersOf(tensor);
        tensor.reader->heldBy();
        uint8_t room[1024];
        for (int64_t at = 0; at + 32 <= tensor.elements(); at += 32)
          for (const char *type : {"Q8_0", "Q4_0", "q4_1", "f8_e4m3"})
            tensor.reader->block(type, at, 1, 32, room);
      }
    } catch (const UserError &) { // NOLINT: either is right
    }
  };
  useDamaged(whole, use, 1000, 200);
  useDamaged(whole, use, 0, 1000, size_t(8 + header)); // what says how codes are read
  for (size_t size = 0; size < 8 + header; ++size)
    EXPECT_THROW(readSafetensors(MappedFile::copy(whole.substr(0, size), "cut")), UserError) << size;
}

TEST_F(Packed, PartsThatDoNotFitAreNamed) {
  Tensors broken = expected;
  broken.at("awq.qzeros").shape = {3, 2};
  EXPECT_THROW(joinPackedTensors(broken), UserError);
  broken = expected;
  broken.erase("gptq.scales");
  EXPECT_THROW(joinPackedTensors(broken), UserError);
}

/// What kernels get of a coded tensor is what they get of its numbers in f32, in every layout.
TEST_F(Packed, LaysOutAsTheSameNumbersInF32) {
  const std::string path = temporaryPath("plain.safetensors");
  const std::vector<float> values = numbersOf(tensors.at("gptq.weight"));
  writeSafetensors(path, {{"gptq.weight", Dtype::F32, {24, 64}, values.data()}});
  Description d;
  d.parameters.resize(1);
  d.parameters[0].names = {"gptq.weight"};
  d.parameters[0].shape = {24, 64};
  d.ignore = {"gptq_act*", "f8*", "awq*", "exp*"};
  PackedLayout rows{24, 64, 64, 1, 16, 0}, columns{64, 24, 1, 64, 16, 0}, odd{12, 32, 128, 2, 8, 64},
      pairs{24, 64, 64, 1, 16, 0, Storage::BF16, 2}, pairsAcross{64, 24, 1, 64, 16, 0, Storage::BF16, 2};
  for (const WeightLayout &layout :
       {WeightLayout(DenseLayout()), WeightLayout(NarrowLayout()), WeightLayout(rows), WeightLayout(columns),
        WeightLayout(odd), WeightLayout(pairs), WeightLayout(pairsAcross)}) {
    d.slots = {{{{0}}, {layout}}};
    auto want = Weights::load(d, TensorSource::open(path)),
         got = Weights::load(d, TensorSource::open(dataPath("formats/packed-quants.safetensors")));
    ASSERT_GT(got->packedBytes(), 0u);
    size_t bytes = std::holds_alternative<DenseLayout>(layout)    ? 24 * 64 * 4
                   : std::holds_alternative<NarrowLayout>(layout) ? 24 * 64 * 2
                                                                  : size_t(std::get<PackedLayout>(layout).bytes());
    EXPECT_EQ(std::memcmp(want->slots()[0][0], got->slots()[0][0], bytes), 0) << layout.index();
  }
}

} // namespace
