// Floats of one byte: every code, as ml_dtypes has it (tests/data/generate/make_quants.py); scales of every published shape; groups that
// kernels read, of a file's codes and of numbers.
#include "runtime/formats/ByteFloats.h"
#include "runtime/Error.h"
#include "runtime/formats/PackedTensors.h"
#include "runtime/weights/Weights.h"
#include "support/numbers/SmallFloats.h"
#include "tests/runtime/TestData.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace quern::runtime;
using namespace quern::runtime::test;
using quern::support::FloatCodes;
using quern::support::floatCodesOf;
using testing::HasSubstr;

namespace {

using Tensors = std::map<std::string, StoredTensor>;

constexpr int64_t rows = 260, depth = 300, tile = 16;
const char name[] = "model.layers.0.mlp.down_proj.weight";
constexpr Storage kinds[] = {Storage::F8E4M3, Storage::F8E5M2};

/// What each code is.
std::vector<float> tableOf(Storage storage) {
  const auto tensors = readSafetensors(MappedFile::open(dataPath("formats/ggml-quants.safetensors")));
  return numbersOf(tensors.at(storage == Storage::F8E4M3 ? "decode.F8_E4M3.values" : "decode.F8_E5M2.values"));
}

std::vector<uint8_t> anyCodes(size_t count, Storage storage, unsigned seed) {
  std::mt19937 random(seed);
  const std::vector<float> table = tableOf(storage);
  std::vector<uint8_t> codes(count);
  for (uint8_t &code : codes)
    do
      code = uint8_t(random());
    while (!std::isfinite(table[code]));
  return codes;
}

std::vector<float> anyScales(size_t count) {
  std::mt19937 random(4);
  std::uniform_real_distribution<float> spread(-0.02f, 0.02f);
  std::vector<float> scales(count);
  for (float &scale : scales)
    scale = spread(random);
  return scales;
}

int64_t countOf(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t length : shape)
    count *= length;
  return count;
}

/// A file of one tensor of that shape, with scales of that one.
struct Example {
  Storage storage;
  std::vector<int64_t> shape, ofScales;
  std::vector<uint8_t> codes;
  std::vector<float> scales;

  Example(Storage storage, std::vector<int64_t> shape, std::vector<int64_t> ofScales)
      : storage(storage), shape(std::move(shape)), ofScales(std::move(ofScales)),
        codes(anyCodes(size_t(countOf(this->shape)), storage, 3)), scales(anyScales(size_t(countOf(this->ofScales)))) {}
  std::string write(const char *ending = "_scale_inv") const {
    const std::string path = temporaryPath("floats.safetensors"), scaleName = name + std::string(ending);
    writeSafetensors(
        path, {{name, dtypeOfCodes(storage), shape, codes.data()}, {scaleName, Dtype::F32, ofScales, scales.data()}});
    return path;
  }
  Tensors open(const char *ending = "_scale_inv") const {
    Tensors tensors = readSafetensors(MappedFile::open(write(ending)));
    joinPackedTensors(tensors);
    return tensors;
  }
};

Description described(Storage storage, const std::vector<int64_t> &shape, const PackedLayout &layout) {
  Description d;
  d.parameters.resize(1);
  d.parameters[0].names = {name};
  d.parameters[0].shape = shape;
  d.slots = {{{{0}}, {WeightLayout(layout)}}};
  std::get<PackedLayout>(d.slots[0].layouts[0]).storage = storage;
  return d;
}

/// What stands at a place of a packed tile, as support/CodedGroups.h says where it is: the scale times the unit, the code.
std::pair<float, uint8_t> packedAt(const void *packed, int64_t inner, int64_t row, int64_t column) {
  const int64_t groups = (inner + 127) / 128;
  const uint8_t *group = static_cast<const uint8_t *>(packed) + (row / tile * groups + column / 128) * 132 * tile;
  uint8_t bytes[4];
  for (int i = 0; i < 4; ++i)
    bytes[i] = group[i * tile + row % tile];
  float scale;
  std::memcpy(&scale, bytes, 4);
  return {scale, group[(4 + column % 128) * tile + row % tile]};
}

} // namespace

TEST(ByteFloats, EveryCodeIsItsNumber) {
  for (Storage storage : kinds) {
    const std::vector<float> want = tableOf(storage);
    const FloatCodes &form = *floatCodesOf(storage);
    for (int code = 0; code < 256; ++code) {
      const float got = numberOfCode(form, uint8_t(code));
      if (std::isnan(want[size_t(code)])) {
        EXPECT_TRUE(std::isnan(got)) << code;
        continue;
      }
      EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want[size_t(code)])) << code;
      if (std::isfinite(got)) {
        EXPECT_EQ(codeOfFloat(form, got), code);
      }
    }
  }
}

TEST(ByteFloats, NumbersAreRoundedToTheNearest) {
  for (Storage storage : kinds) {
    const FloatCodes &form = *floatCodesOf(storage);
    for (int code = 0; numberOfCode(form, uint8_t(code)) < form.most; ++code) {
      const float lower = numberOfCode(form, uint8_t(code)), upper = numberOfCode(form, uint8_t(code + 1)),
                  middle = (lower + upper) / 2;
      EXPECT_EQ(codeOfFloat(form, middle), code + code % 2) << "halves to the even one";
      EXPECT_EQ(codeOfFloat(form, std::nextafter(middle, 0.0f)), code);
      EXPECT_EQ(codeOfFloat(form, -std::nextafter(middle, form.most)), code + 1 + 128);
    }
    EXPECT_EQ(numberOfCode(form, codeOfFloat(form, 1e30f)), form.most);
    EXPECT_EQ(numberOfCode(form, codeOfFloat(form, -std::numeric_limits<float>::infinity())), -form.most);
  }
}

/// One scale, one a row, one for each 128 x 128, one for each 128 of a row; of experts one each, or blocks of each.
TEST(ByteFloats, HaveScalesOfEveryPublishedShape) {
  for (Storage storage : kinds) {
    const std::vector<float> table = tableOf(storage);
    for (const auto &[shape, scales] :
         std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{{{130, 132}, {}},
                                                                            {{130, 132}, {1}},
                                                                            {{130, 132}, {1, 1}},
                                                                            {{130, 132}, {130}},
                                                                            {{130, 132}, {130, 1}},
                                                                            {{130, 132}, {2, 2}},
                                                                            {{130, 132}, {130, 2}},
                                                                            {{130, 132}, {2, 132}},
                                                                            {{3, 130, 132}, {3}},
                                                                            {{3, 130, 132}, {3, 1, 1}},
                                                                            {{3, 130, 132}, {3, 130, 1}},
                                                                            {{3, 130, 132}, {3, 2, 2}}}) {
      const Example made(storage, shape, scales);
      const Tensors tensors = made.open(scales.size() % 2 ? "_scale" : "_scale_inv");
      const StoredTensor &tensor = tensors.at(name);
      EXPECT_EQ(tensor.shape, shape);
      EXPECT_STREQ(typeName(tensor), dtypeName(dtypeOfCodes(storage)));
      EXPECT_STREQ(tensor.reader->heldBy(), quern::support::storageName(storage));
      std::vector<int64_t> full = scales;
      full.resize(shape.size(), 1);
      const std::vector<float> got = numbersOf(tensor);
      for (size_t i = 0; i < got.size(); ++i) {
        int64_t rest = int64_t(i), index = 0, stride = 1;
        for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
          const int64_t at = rest % shape[d];
          index += (full[d] == 1 ? 0 : full[d] == shape[d] ? at : at / 128) * stride;
          stride *= full[d];
        }
        ASSERT_EQ(got[i], table[made.codes[i]] * made.scales[size_t(index)]) << shapeText(scales) << " " << i;
      }
      std::vector<float> stretch(200);
      toFloat(tensor, 77, 200, stretch.data());
      EXPECT_THAT(stretch, testing::ElementsAreArray(got.begin() + 77, got.begin() + 277)) << shapeText(scales);
    }
  }
}

TEST(ByteFloats, ScalesThatDoNotFitAreNamed) {
  for (const std::vector<int64_t> &scales :
       std::vector<std::vector<int64_t>>{{4, 1}, {3}, {1, 1, 2}, {130, 3}, {132}}) {
    const std::string path = Example(Storage::F8E4M3, {130, 132}, scales).write();
    Tensors tensors = readSafetensors(MappedFile::open(path));
    try {
      joinPackedTensors(tensors);
      FAIL() << shapeText(scales);
    } catch (const UserError &error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(name), HasSubstr("has scales of shape"), HasSubstr("one for each 128")));
    }
  }
}

/// Kernels get the file's codes, and scales of the same bits but for the unit: along rows, and along columns where 128 of them share one.
TEST(ByteFloats, CodesOfAFileAreMoved) {
  struct Case {
    std::vector<int64_t> scales;
    bool rows, columns;
  };
  for (Storage storage : kinds)
    for (const Case &one : {Case{{}, true, true}, Case{{rows, 1}, true, false}, Case{{3, 3}, true, true},
                            Case{{rows, 3}, true, false}, Case{{3, depth}, false, true}}) {
      const Example made(storage, {rows, depth}, one.scales);
      const std::string path = made.write();
      const FloatCodes &form = *floatCodesOf(storage);
      const std::vector<float> table = tableOf(storage), want = numbersOf(made.open().at(name));
      for (bool along : {false, true}) {
        if (!(along ? one.columns : one.rows))
          continue; // each number of a group has its own scale
        const PackedLayout layout =
            along ? PackedLayout{depth, rows, 1, depth, tile, 0} : PackedLayout{rows, depth, depth, 1, tile, 0};
        auto weights = Weights::load(described(storage, {rows, depth}, layout), TensorSource::open(path));
        const void *packed = weights->slots()[0][0];
        for (int64_t o = 0; o < layout.outer; ++o)
          for (int64_t i = 0; i < layout.inner; ++i) {
            const int64_t element = o * layout.outerStride + i * layout.innerStride;
            const auto [scale, code] = packedAt(packed, layout.inner, o, i);
            ASSERT_EQ(code, made.codes[size_t(element)]) << o << " " << i;
            ASSERT_EQ(table[code] * (scale / form.unit), want[size_t(element)]) << o << " " << i;
          }
      }
    }
}

/// A code of NaN makes its group one, so that what it is summed with is NaN as ever; infinities of E5M2 stay.
TEST(ByteFloats, NaNStaysNaN) {
  for (Storage storage : kinds) {
    Example made(storage, {rows, depth}, {rows, 1});
    made.codes[5 * depth + 130] = 0x7f;
    made.codes[7 * depth + 1] = 0xff;
    const std::string path = made.write();
    auto weights =
        Weights::load(described(storage, {rows, depth}, {rows, depth, depth, 1, tile, 0}), TensorSource::open(path));
    const FloatCodes &form = *floatCodesOf(storage);
    auto isNaN = [&](int64_t row, int64_t column) {
      const auto [scale, code] = packedAt(weights->slots()[0][0], depth, row, column);
      return std::isnan(scale * quern::support::halfToFloat(halfOfCode(form, code)));
    };
    EXPECT_TRUE(isNaN(5, 130));
    EXPECT_EQ(isNaN(5, 131), form.nan != 0) << "of its group";
    EXPECT_FALSE(isNaN(5, 127));
    EXPECT_TRUE(isNaN(7, 1));
    EXPECT_FALSE(isNaN(7, 128));
    const Tensors tensors = made.open();
    float read[2];
    toFloat(tensors.at(name), 5 * depth + 130, 2, read);
    EXPECT_TRUE(std::isnan(read[0]));
    EXPECT_FALSE(std::isnan(read[1]));
  }
}

/// A scale that has no room for the unit: such a tensor is no group of these codes.
TEST(ByteFloats, ScalesBeyondTheUnitAreNotHeld) {
  Example made(Storage::F8E4M3, {130, 132}, {130, 1});
  EXPECT_TRUE(made.open().at(name).reader->heldBy());
  made.scales[9] = 0x1p121f;
  const Tensors tensors = made.open();
  const TensorReader &reader = *tensors.at(name).reader;
  EXPECT_EQ(reader.heldBy(), nullptr);
  uint8_t room[bytesOfFloatGroup];
  EXPECT_EQ(reader.block("f8_e4m3", 9 * 132, 1, 128, room), nullptr);
  EXPECT_TRUE(reader.block("f8_e4m3", 8 * 132, 1, 128, room));
  EXPECT_EQ(reader.block("f8_e5m2", 8 * 132, 1, 128, room), nullptr);
  EXPECT_EQ(reader.block("f8_e4m3", 8 * 132, 132, 2, room), nullptr) << "of two rows";
  EXPECT_EQ(reader.block("f8_e4m3", 8 * 132 + 100, 1, 33, room), nullptr) << "beyond the row";
  EXPECT_EQ(reader.block("f8_e4m3", 8 * 132, 1, 129, room), nullptr);
}

/// Numbers of a file in f32: the scale is bf16's, codes are the nearest, and what they stand for is encoded as the same.
TEST(ByteFloats, NumbersAreEncoded) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  for (Storage storage : kinds) {
    const FloatCodes &form = *floatCodesOf(storage);
    for (int trial = 0; trial < 200; ++trial) {
      const int64_t count = trial % 3 ? 128 : 1 + int64_t(random() % 128);
      std::vector<float> numbers(128);
      for (int64_t i = 0; i < count; ++i)
        numbers[size_t(i)] = trial % 7 ? normal(random) * std::ldexp(1.0f, trial % 40 - 20) : 0;
      uint8_t group[bytesOfFloatGroup], again[bytesOfFloatGroup];
      encodeFloatGroup(storage, numbers.data(), count, group);
      float scale, largest = 0;
      std::memcpy(&scale, group, 4);
      scale /= form.unit;
      for (float number : numbers)
        largest = std::max(largest, std::fabs(number));
      if (count > 1) {
        ASSERT_NEAR(scale, largest / form.most, largest / form.most / 256);
      }
      std::vector<float> rounded(128);
      for (int64_t i = 0; i < 128; ++i) {
        rounded[size_t(i)] = scale * numberOfCode(form, group[4 + i]);
        ASSERT_EQ(group[4 + i], scale > 0 && i < count ? codeOfFloat(form, numbers[size_t(i)] / scale) : 0);
      }
      encodeFloatGroup(storage, rounded.data(), count, again);
      ASSERT_EQ(std::memcmp(group, again, sizeof group), 0) << trial << ": what was rounded changes";
    }
    for (int trial = 0; trial < 200; ++trial) { // codes times any scale, as files have them
      const std::vector<uint8_t> codes = anyCodes(128, storage, unsigned(trial));
      const float scale = anyScales(200)[size_t(trial)];
      std::vector<float> numbers(128);
      for (size_t i = 0; i < 128; ++i)
        numbers[i] = i < 100 || trial % 2 ? scale * numberOfCode(form, codes[i]) : 0;
      uint8_t group[bytesOfFloatGroup];
      encodeFloatGroup(storage, numbers.data(), 128, group);
      float own;
      std::memcpy(&own, group, 4);
      for (size_t i = 0; i < 128; ++i)
        ASSERT_EQ(own / form.unit * numberOfCode(form, group[4 + i]), numbers[i]) << trial << " " << i;
    }
    for (float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const std::vector<float> numbers = {1, odd, 2};
      uint8_t group[bytesOfFloatGroup];
      encodeFloatGroup(storage, numbers.data(), 3, group);
      float scale;
      std::memcpy(&scale, group, 4);
      EXPECT_TRUE(std::isnan(scale));
    }
  }
}
