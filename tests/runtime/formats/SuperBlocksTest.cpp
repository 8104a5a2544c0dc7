// Codes in super-blocks: what is moved from a file's K-quants stands for the same bits of f32; what is encoded.
#include "runtime/Error.h"
#include "runtime/formats/PackedTensors.h"
#include "runtime/formats/SuperWords.h"
#include "runtime/weights/Weights.h"
#include "support/numbers/SmallFloats.h"
#include "tests/runtime/GgufBuilder.h"
#include "tests/runtime/TestData.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

using namespace quern::runtime;
using namespace quern::runtime::test;
using quern::support::SuperBlocks;
using quern::support::superBlocksOf;

namespace {

constexpr int64_t rows = 21, depth = 768, tile = 16;
const char name[] = "model.layers.0.mlp.down_proj.weight";

/// The number at a place of a packed tile, as support/CodedGroups.h says where it is.
float packedNumber(const SuperBlocks &form, const void *packed, int64_t row, int64_t column) {
  auto word = [&](int at) {
    uint32_t value;
    const int64_t blocks = (depth + form.length - 1) / form.length, block = row / tile * blocks + column / form.length;
    std::memcpy(&value, static_cast<const char *>(packed) + ((block * form.words() + at) * tile + row % tile) * 4, 4);
    return value;
  };
  const int within = int(column % form.length), g = within / form.group, i = within % form.group;
  const uint32_t levels = word(1 + g / 2) >> g % 2 * 16;
  const float scale = quern::support::halfToFloat(uint16_t(word(0))) * float(int8_t(levels)),
              minimum = quern::support::halfToFloat(uint16_t(word(0) >> 16)) * float(uint8_t(levels >> 8));
  // Written out anew, not by SuperWords.h: four codes beside each other in the bytes of a word.
  const int group = form.headWords() + g * form.wordsOfGroup(), byte = i % 4 * 8;
  int code = int(word(group + i / 8) >> (byte + i % 8 / 4 * 4) & 15);
  if (form.bits == 8) // high halves are stored as the low ones
    code |= int(word(group + form.lowWords() + i / 8) >> (byte + i % 8 / 4 * 4) & 15) << 4;
  else if (form.highBits())
    code |= int(word(group + form.lowWords()) >> (byte + i / 4 * form.highBits()) & ((1u << form.highBits()) - 1)) << 4;
  if (code > form.most())
    code -= 1 << form.bits;
  return scale * float(code) - minimum;
}

Description described(Storage storage) {
  Description d;
  d.parameters.resize(1);
  d.parameters[0].names = {name};
  d.parameters[0].shape = {rows, depth};
  PackedLayout layout{rows, depth, depth, 1, tile, 0};
  layout.storage = storage;
  d.slots = {{{{0}}, {WeightLayout(layout)}}};
  return d;
}

} // namespace

TEST(SuperBlocks, TakeTheBytesThatTheySay) {
  EXPECT_EQ(quern::support::bytesOf(Storage::Q4K, 256), 148);
  EXPECT_EQ(quern::support::bytesOf(Storage::Q5K, 256), 180);
  EXPECT_EQ(quern::support::bytesOf(Storage::Q6K, 257), 2 * 228) << "the last super-block is filled up";
  EXPECT_EQ(quern::support::bytesOf(Storage::Q8K, 256), 276);
  EXPECT_EQ(quern::support::bytesOf(Storage::Q41, 256), 8 * 24);
  EXPECT_EQ(quern::support::bytesOf(Storage::Q51, 33), 2 * 28);
  EXPECT_EQ(quern::support::bytesOf(Storage::Q4Z, 256), 2 * 76);
}

/// Any bytes of any format that a storage holds: units in f16 that are no infinities aside.
TEST(SuperBlocks, BlocksOfAFileStandForTheSameBits) {
  std::mt19937 random(7);
  for (auto [type, storages] :
       {std::pair{"Q4_K", std::vector{Storage::Q4K, Storage::Q5K, Storage::Q6K, Storage::Q8K}},
        std::pair{"Q5_K", std::vector{Storage::Q5K, Storage::Q6K, Storage::Q8K}},
        std::pair{"IQ4_XS", std::vector{Storage::Q8K}}, std::pair{"IQ3_S", std::vector{Storage::Q6K, Storage::Q8K}},
        std::pair{"Q6_K", std::vector{Storage::Q6K}}, std::pair{"Q3_K", std::vector{Storage::Q6K}},
        std::pair{"Q2_K", std::vector{Storage::Q6K}}, std::pair{"Q4_1", std::vector{Storage::Q41, Storage::Q51}},
        std::pair{"Q5_1", std::vector{Storage::Q51}}}) {
    const BlockFormat &format = *findBlockFormat(type);
    std::string blocks(size_t(rows * depth / format.elements * format.bytes), '\0');
    for (char &byte : blocks)
      byte = char(random());
    for (size_t at = 0; at < blocks.size(); at += size_t(format.bytes))
      for (size_t unit : {size_t(format.scaleAt), size_t(format.minimumAt)})
        if (unit > 1 || format.scaleAt == 0) // a second byte of f16 with no exponent of 31
          blocks[at + unit + 1] = char(blocks[at + unit + 1] & 0xbb);
    const std::string path = temporaryPath("super.gguf");
    GgufBuilder builder("qwen2");
    builder.tensor("blk.0.ffn_down.weight", format.ggml, {uint64_t(depth), uint64_t(rows)}, blocks);
    writeText(path, builder.file());
    std::vector<float> want(size_t(rows * depth));
    decodeBlocks(format, reinterpret_cast<const uint8_t *>(blocks.data()), 0, rows * depth, want.data());
    for (Storage storage : storages) {
      auto weights = Weights::load(described(storage), TensorSource::open(path));
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < depth; ++i) {
          const float got = packedNumber(*superBlocksOf(storage), weights->slots()[0][0], row, i);
          ASSERT_EQ(got, want[size_t(row * depth + i)]) << type << " " << row << " " << i;
        }
    }
  }
}

/// Numbers of a file in f32, within about half a step of their group; zeros, a last super-block that is shorter, numbers of
/// one sign.
TEST(SuperBlocks, NumbersAreRoundedToTheNearest) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  for (Storage storage :
       {Storage::Q4K, Storage::Q5K, Storage::Q6K, Storage::Q8K, Storage::Q41, Storage::Q51, Storage::Q4Z}) {
    const SuperBlocks &form = *superBlocksOf(storage);
    for (int trial = 0; trial < 200; ++trial) {
      const int64_t count = trial % 3 ? form.length : 1 + int64_t(random() % form.length);
      std::vector<float> numbers(256);
      for (int64_t i = 0; i < count; ++i)
        numbers[size_t(i)] = trial % 7 == 0            ? 0
                             : i / form.group % 5 == 3 ? 3 + normal(random) / 8
                             : i / form.group % 5 == 4 ? -3 + normal(random) / 8
                                                       : normal(random);
      SuperCodes codes = encodeSuperBlock(form, numbers.data(), count);
      auto number = [&](const SuperCodes &from, int64_t i) {
        const int64_t g = i / form.group;
        return quern::support::halfToFloat(from.unit) * float(from.scales[g]) * float(from.codes[i]) -
               quern::support::halfToFloat(from.unitOfMinimums) * float(from.minimums[g]);
      };
      std::vector<float> rounded(256);
      for (int64_t i = 0; i < form.length; ++i) {
        ASSERT_GE(codes.codes[i], form.least());
        ASSERT_LE(codes.codes[i], form.most());
        if (i >= count) {
          ASSERT_EQ(codes.codes[i], 0);
          continue;
        }
        rounded[size_t(i)] = number(codes, i);
        const float step = std::fabs(quern::support::halfToFloat(codes.unit) * float(codes.scales[i / form.group]));
        // A scale that was rounded down leaves the ends out; by one unit for each code at most.
        const float unit = quern::support::halfToFloat(codes.unit) * 1.1f * float(1 << form.bits),
                    minimum = quern::support::halfToFloat(codes.unitOfMinimums) * 1.1f;
        ASSERT_NEAR(rounded[size_t(i)], numbers[size_t(i)], step / 2 + unit + minimum) << trial << " " << i;
      }
      SuperCodes again = encodeSuperBlock(form, rounded.data(), count);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(number(again, i), rounded[size_t(i)]) << trial << " " << i << ": what was rounded changes";
    }
  }
}

/// What a file has in other numbers is encoded as it is loaded, from rows and from columns alike.
TEST(SuperBlocks, NumbersOfAFileAreEncoded) {
  std::vector<float> numbers(size_t(rows * depth)), transposed(numbers.size());
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = normal(random);
    transposed[i % size_t(depth) * size_t(rows) + i / size_t(depth)] = numbers[i];
  }
  for (Storage storage : {Storage::Q4K, Storage::Q6K, Storage::Q8K}) {
    const SuperBlocks &form = *superBlocksOf(storage);
    for (bool byColumns : {false, true}) {
      Description d = described(storage);
      auto &layout = std::get<PackedLayout>(d.slots[0].layouts[0]);
      if (byColumns) {
        d.parameters[0].shape = {depth, rows};
        layout.outerStride = 1, layout.innerStride = rows;
      }
      const std::string path = temporaryPath("plain.safetensors");
      writeSafetensors(path, {{name, Dtype::F32, d.parameters[0].shape, (byColumns ? transposed : numbers).data()}});
      auto weights = Weights::load(d, TensorSource::open(path));
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t at = 0; at < depth; at += 256) {
          const SuperCodes codes = encodeSuperBlock(form, numbers.data() + row * depth + at, 256);
          for (int64_t i = 0; i < 256; ++i) {
            const int64_t g = i / form.group;
            ASSERT_EQ(packedNumber(form, weights->slots()[0][0], row, at + i),
                      quern::support::halfToFloat(codes.unit) * float(codes.scales[g]) * float(codes.codes[i]) -
                          quern::support::halfToFloat(codes.unitOfMinimums) * float(codes.minimums[g]));
          }
        }
    }
  }
}

namespace {

/// A tensor [300, 3] or [3, 300] with super-blocks along the dimension of 300, as `quern quantize` stores it.
struct Words {
  Storage storage;
  int64_t axis;
  int64_t blocks = 0;
  std::vector<SuperCodes> codes; ///< of three rows
  std::vector<uint32_t> words;
  std::vector<int64_t> shape;

  Words(Storage storage, int64_t axis) : storage(storage), axis(axis) {
    const SuperBlocks &form = *superBlocksOf(storage);
    std::mt19937 random(9);
    std::normal_distribution<float> normal;
    blocks = (300 + form.length - 1) / form.length;
    words.resize(size_t(3 * blocks * form.words()));
    for (int64_t row = 0; row < 3; ++row)
      for (int64_t block = 0; block < blocks; ++block) {
        float numbers[256] = {};
        const int64_t count = std::min<int64_t>(form.length, 300 - block * form.length);
        for (int64_t i = 0; i < count; ++i)
          numbers[i] = normal(random);
        codes.push_back(encodeSuperBlock(form, numbers, count));
        uint32_t packed[256];
        packWords(form, codes.back(), packed);
        for (int64_t w = 0; w < form.words(); ++w) {
          const int64_t at = block * form.words() + w;
          words[size_t(axis ? row * blocks * form.words() + at : at * 3 + row)] = packed[w];
        }
      }
    shape = shapeBesideWords(axis ? std::vector<int64_t>{3, 300} : std::vector<int64_t>{300, 3}, size_t(axis), storage);
  }
  std::string file() const {
    const int64_t along = blocks * superBlocksOf(storage)->words();
    std::vector<OutputTensor> parts = {
        {"a", Dtype::U32, axis ? std::vector<int64_t>{3, along} : std::vector<int64_t>{along, 3}, words.data()},
        {"a.shape", Dtype::I64, {int64_t(shape.size())}, shape.data()}};
    std::string all = safetensorsHeader(parts);
    for (const OutputTensor &part : parts)
      all.append(static_cast<const char *>(part.data), part.bytes());
    return all;
  }
};

std::map<std::string, StoredTensor> tablesOf(const std::string &file) {
  auto tensors = readSafetensors(MappedFile::copy(file, "x.safetensors"));
  joinPackedTensors(tensors);
  return tensors;
}

} // namespace

TEST(SuperBlocks, WordsOfAFileAreTheCodesThatWerePacked) {
  for (Storage storage :
       {Storage::Q4K, Storage::Q5K, Storage::Q6K, Storage::Q8K, Storage::Q41, Storage::Q51, Storage::Q4Z})
    for (int64_t axis : {0, 1}) {
      const Words made(storage, axis);
      const SuperBlocks &form = *superBlocksOf(storage);
      const auto tensors = tablesOf(made.file());
      ASSERT_EQ(tensors.size(), 1u);
      const StoredTensor &tensor = tensors.at("a");
      EXPECT_EQ(tensor.shape, (axis ? std::vector<int64_t>{3, 300} : std::vector<int64_t>{300, 3}));
      EXPECT_STREQ(typeName(tensor), quern::support::storageName(storage));
      std::vector<float> numbers(900);
      toFloat(tensor, 0, 900, numbers.data());
      for (int64_t row = 0; row < 3; ++row)
        for (int64_t i = 0; i < 300; ++i) {
          const SuperCodes &from = made.codes[size_t(row * made.blocks + i / form.length)];
          const int64_t g = i % form.length / form.group;
          const float want =
              quern::support::halfToFloat(from.unit) * float(from.scales[g]) * float(from.codes[i % form.length]) -
              quern::support::halfToFloat(from.unitOfMinimums) * float(from.minimums[g]);
          ASSERT_EQ(numbers[size_t(axis ? row * 300 + i : i * 3 + row)], want) << row << " " << i;
        }
      for (int64_t row = 0; row < 3; ++row) { // and the very words come back
        uint8_t room[1024];
        const int64_t first = axis ? row * 300 : row, stride = axis ? 1 : 3;
        const char *format = quern::support::storageName(storage);
        const int64_t last = (made.blocks - 1) * form.length;
        const uint8_t *block = tensor.reader->block(format, first, stride, form.length, room);
        ASSERT_TRUE(block);
        uint32_t words[256];
        std::memcpy(words, block, size_t(form.words()) * 4);
        const SuperCodes got = unpackWords(form, words), &want = made.codes[size_t(row * made.blocks)];
        EXPECT_TRUE(std::equal(got.codes, got.codes + form.length, want.codes));
        EXPECT_EQ(got.unit, want.unit);
        EXPECT_EQ(tensor.reader->block(format, first + stride, stride, form.length, room), nullptr);
        EXPECT_TRUE(tensor.reader->block(format, first + last * stride, stride, 300 - last, room));
      }
    }
}

TEST(SuperBlocks, WordsThatDoNotFitAreRefused) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{3, 800, 1},
                                     {4, 300, 1},
                                     {3, 300, 0},
                                     {3, 300, 2},
                                     {3, 300, -1},
                                     {-3, 300, 1},
                                     {3, INT64_MAX, 1},
                                     {3, 0, 1},
                                     {INT64_MIN, INT64_MIN, 1}}) {
    Words made(Storage::Q5K, 1);
    made.shape = shape;
    EXPECT_THROW(tablesOf(made.file()), UserError) << shape[0] << " " << shape[1] << " " << shape[2];
  }
}
