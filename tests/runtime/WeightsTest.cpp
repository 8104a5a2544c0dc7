// Matching a checkpoint with a model's parameters, and packing.
#include "runtime/weights/Weights.h"
#include "runtime/Error.h"
#include "runtime/weights/Adapter.h"
#include "support/numbers/SmallFloats.h"
#include "tests/runtime/TestData.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace quern::runtime;
using namespace quern::runtime::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

struct Stored {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

std::unique_ptr<TensorSource> checkpoint(const std::vector<Stored> &tensors) {
  std::vector<OutputTensor> outputs;
  for (const Stored &tensor : tensors)
    outputs.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.values.data()});
  std::string path = temporaryPath("weights.safetensors");
  writeSafetensors(path, outputs);
  return TensorSource::open(path);
}

ParameterInfo parameter(std::vector<std::string> names, std::vector<int64_t> shape, std::string at) {
  ParameterInfo info;
  info.names = std::move(names);
  info.shape = std::move(shape);
  info.at = std::move(at);
  return info;
}

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = float(i) + 1;
  return values;
}

TEST(Matching, TellsAllThatIsWrongAtOnce) {
  Description d;
  d.model = "m";
  d.parameters = {parameter({"a.weight", "a.gamma"}, {2, 3}, "m.quern:1:2"),
                  parameter({"layer.0.weight"}, {4}, "m.quern:2:2"), parameter({"shape"}, {2, 3}, "m.quern:3:2"),
                  parameter({"gone"}, {7}, "m.quern:4:2")};
  d.ignore = {"*.inv_freq"};
  std::unique_ptr<TensorSource> c = checkpoint({{"a.gamma", Dtype::F32, {2, 3}, counting(6)},
                                                {"layer_0.weight", Dtype::F32, {4}, counting(4)},
                                                {"shape", Dtype::F32, {3, 2}, counting(6)},
                                                {"copy", Dtype::F32, {2, 3}, counting(6)},
                                                {"rotary.inv_freq", Dtype::F32, {1}, {1}},
                                                {"stranger", Dtype::F32, {1}, {1}}});
  try {
    matchParameters(d, *c);
    FAIL();
  } catch (const UserError &error) {
    std::string text = error.what();
    EXPECT_THAT(text, HasSubstr("missing tensors (2)"));
    EXPECT_THAT(text, HasSubstr("layer.0.weight [4]  (m.quern:2:2); did you mean layer_0.weight?"));
    EXPECT_THAT(text, HasSubstr("gone [7]  (m.quern:4:2)\n"));
    EXPECT_THAT(text, HasSubstr("shape is [3, 2], the model needs [2, 3]  (m.quern:3:2)"));
    EXPECT_THAT(text, HasSubstr("stranger F32[1]"));
    EXPECT_THAT(text, HasSubstr("does not use (2)"));
    EXPECT_THAT(text, Not(HasSubstr("copy")));
    EXPECT_THAT(text, Not(HasSubstr("inv_freq")));
  }
}

TEST(Matching, TextPartOfAMultimodalCheckpoint) {
  Description d;
  d.model = "m";
  d.parameters = {parameter({"model.norm.weight"}, {2}, ""), parameter({"lm_head.weight"}, {3}, "")};
  auto isRead = [&](const std::vector<std::string> &names) { // norm, head, and what else there is
    std::vector<Stored> tensors;
    for (size_t i = 0; i < names.size(); ++i)
      tensors.push_back({names[i], Dtype::F32, {std::min<int64_t>(int64_t(i) + 2, 4)}, counting(4)});
    std::unique_ptr<TensorSource> c = checkpoint(tensors);
    std::vector<const StoredTensor *> found = matchParameters(d, *c);
    return found[0]->data == c->find(names[0])->data && found[1]->data == c->find(names[1])->data;
  };
  EXPECT_TRUE(isRead({"model.language_model.norm.weight", "lm_head.weight", "model.visual.w", "mtp.norm"}));
  EXPECT_TRUE(isRead({"language_model.model.norm.weight", "language_model.lm_head.weight", "vision_tower.w"}));
  EXPECT_TRUE(isRead({"model.text_model.norm.weight", "lm_head.weight", "model.connector.w"}));
  EXPECT_THROW(isRead({"model.norm.weight", "lm_head.weight", "visual.w"}), UserError)
      << "nothing says that it has parts";
  EXPECT_THROW(isRead({"model.language_model.norm.weight", "lm_head.weight", "model.language_model.other"}), UserError);
  // A model of both parts, by the names of the file: what it leaves out is named, of either part.
  d.parameters = {parameter({"language_model.model.norm.weight"}, {2}, ""), parameter({"tower.a"}, {3}, "")};
  EXPECT_TRUE(isRead({"language_model.model.norm.weight", "tower.a"}));
  EXPECT_THROW(isRead({"language_model.model.norm.weight", "tower.a", "tower.b"}), UserError);
}

/// As Qwen3.5 is published, alone and with images; specs name each expert.
TEST(Matching, ExpertsThatAreStoredTogether) {
  const int64_t experts = 2, inner = 3, width = 4;
  for (const std::string outer : {"model.", "model.language_model."}) {
    const std::string stem = outer + "mlp.experts.";
    std::unique_ptr<TensorSource> c =
        checkpoint({{stem + "gate_up_proj", Dtype::F32, {experts, 2 * inner, width}, counting(48)},
                    {stem + "down_proj", Dtype::F32, {experts, width, inner}, counting(24)}});
    Description d;
    d.model = "m";
    for (const std::string expert : {"0", "1"})
      for (const auto &[name, shape] : {std::pair("gate_proj", std::vector{inner, width}),
                                        {"up_proj", {inner, width}},
                                        {"down_proj", {width, inner}}})
        d.parameters.push_back(parameter({"model.mlp.experts." + expert + "." + name + ".weight"}, shape, ""));
    std::vector<const StoredTensor *> found = matchParameters(d, *c);
    EXPECT_THAT(numbersOf(*found[0]), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    EXPECT_EQ(numbersOf(*found[1]).front(), 13);
    EXPECT_EQ(numbersOf(*found[3]).front(), 25) << "the second expert's gate";
    EXPECT_THAT(numbersOf(*found[5]), ElementsAre(13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24));
    d.parameters = {parameter({stem + "gate_up_proj"}, {experts, 2 * inner, width}, "")}; // a spec that names the whole
    EXPECT_THROW(matchParameters(d, *c), UserError) << "down_proj is not used";
    d.parameters.push_back(parameter({stem + "down_proj"}, {experts, width, inner}, ""));
    EXPECT_EQ(matchParameters(d, *c)[1], c->find(stem + "down_proj"));
  }
}

TEST(Matching, WhatMayBeAbsentIsItsInitialValue) {
  Description d;
  d.model = "m";
  d.parameters = {parameter({"a"}, {4}, ""), parameter({"b"}, {3}, "")};
  d.parameters[1].mayBeAbsent = true;
  std::unique_ptr<TensorSource> c = checkpoint({{"a", Dtype::F32, {4}, counting(4)}});
  std::vector<const StoredTensor *> found = matchParameters(d, *c);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0]);
  EXPECT_FALSE(found[1]);
  // What is there counts, and must fit.
  std::unique_ptr<TensorSource> wrong =
      checkpoint({{"a", Dtype::F32, {4}, counting(4)}, {"b", Dtype::F32, {2}, counting(2)}});
  EXPECT_THROW(matchParameters(d, *wrong), UserError);
}

SlotInfo packed(std::vector<std::vector<int>> iterations, int64_t outer, int64_t inner, int64_t outerStride,
                int64_t innerStride, int64_t tile) {
  return {std::move(iterations), {PackedLayout{outer, inner, outerStride, innerStride, tile, 0}}};
}

/// A matrix [O, I] that is stored in both orders, "w" and "wt".
struct BothOrders {
  static constexpr int64_t O = 37, I = 75, tile = 16, tiles = 3;
  Description description;
  std::vector<float> w = std::vector<float>(O * I), wt = w;

  template <typename Value> BothOrders(Storage storage, Value value) {
    for (int64_t o = 0; o < O; ++o)
      for (int64_t i = 0; i < I; ++i)
        w[size_t(o * I + i)] = wt[size_t(i * O + o)] = value(o, i);
    description.parameters = {parameter({"w"}, {O, I}, ""), parameter({"wt"}, {I, O}, "")};
    description.slots = {packed({{0}}, O, I, I, 1, tile), packed({{1}}, O, I, 1, O, tile),
                         packed({{0, 1}, {0, 0}}, O, I, I, 1, tile)};
    for (SlotInfo &slot : description.slots)
      std::get<PackedLayout>(slot.layouts[0]).storage = storage;
  }
  std::unique_ptr<Weights> load() const {
    return Weights::load(description, checkpoint({{"w", Dtype::F32, {O, I}, w}, {"wt", Dtype::F32, {I, O}, wt}}));
  }
};

TEST(Packing, BothOrdersGiveTheSameLayout) {
  BothOrders both(Storage::F32, [](int64_t o, int64_t i) { return float(o * 100 + i); });
  constexpr int64_t O = both.O, I = both.I, tile = both.tile;
  std::unique_ptr<Weights> weights = both.load();
  int64_t size = both.tiles * tile * I;
  auto slot = [&](int s, int iteration) { return static_cast<const float *>(weights->slots()[s][iteration]); };
  for (int64_t o = 0; o < both.tiles * tile; ++o)
    for (int64_t i = 0; i < I; ++i) {
      float expected = o < O ? float(o * 100 + i) : 0;
      int64_t at = (o / tile * I + i) * tile + o % tile;
      ASSERT_EQ(slot(0, 0)[at], expected);
      ASSERT_EQ(slot(1, 0)[at], expected);
      ASSERT_EQ(slot(2, 0)[at], expected);
      ASSERT_EQ(slot(2, 1)[size + at], expected);
    }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(slot(0, 0)) % 64, 0u);
}

TEST(Packing, InTwoBytes) {
  for (Storage storage : {Storage::BF16, Storage::F16}) {
    BothOrders both(storage, [](int64_t o, int64_t i) { return 1 + float(o * 100 + i) / 4096; });
    constexpr int64_t O = both.O, I = both.I, tile = both.tile;
    both.description.slots.pop_back();
    std::unique_ptr<Weights> weights = both.load();
    EXPECT_LT(weights->packedBytes(), uint64_t(both.tiles * tile * I * 2 * 3)); // two of them
    for (int slot : {0, 1})
      for (int64_t o = 0; o < both.tiles * tile; ++o)
        for (int64_t i = 0; i < I; ++i)
          ASSERT_EQ(static_cast<const uint16_t *>(weights->slots()[slot][0])[(o / tile * I + i) * tile + o % tile],
                    o >= O                     ? 0
                    : storage == Storage::BF16 ? quern::support::floatToBF16(both.w[size_t(o * I + i)])
                                               : quern::support::floatToHalf(both.w[size_t(o * I + i)]));
  }
}

/// Two neighbours along the depth are a word, whichever way the matrix is stored and whatever its numbers are; a packed file is for
/// this layout alone.
TEST(Packing, InPairs) {
  constexpr int64_t O = 21, I = 150, tile = 8, tiles = 3;
  std::vector<float> w(size_t(O * I)), wt(w.size());
  std::vector<uint16_t> bits(w.size());
  for (int64_t o = 0; o < O; ++o)
    for (int64_t i = 0; i < I; ++i) {
      w[size_t(o * I + i)] = wt[size_t(i * O + o)] = 1 + float(o * 200 + i) / 4096;
      bits[size_t(o * I + i)] = quern::support::floatToBF16(w[size_t(o * I + i)]);
    }
  Description d;
  d.parameters = {parameter({"w"}, {O, I}, ""), parameter({"wt"}, {I, O}, ""), parameter({"narrow"}, {O, I}, "")};
  const PackedLayout along{O, I, I, 1, tile, 0, Storage::BF16, 2}, across{O, I, 1, O, tile, 0, Storage::BF16, 2};
  d.slots = {{{{0}}, {along}}, {{{1}}, {across}}, {{{2}}, {along}}};
  const std::string path = temporaryPath("pairs.safetensors");
  writeSafetensors(path, {{"w", Dtype::F32, {O, I}, w.data()},
                          {"wt", Dtype::F32, {I, O}, wt.data()},
                          {"narrow", Dtype::BF16, {O, I}, bits.data()}});
  std::unique_ptr<Weights> weights = Weights::load(d, TensorSource::open(path));
  for (int slot : {0, 1, 2})
    for (int64_t o = 0; o < tiles * tile; ++o)
      for (int64_t i = 0; i < I; ++i)
        ASSERT_EQ(static_cast<const uint16_t *>(
                      weights->slots()[slot][0])[((o / tile * (I / 2) + i / 2) * tile + o % tile) * 2 + i % 2],
                  o < O ? bits[size_t(o * I + i)] : 0)
            << slot << " " << o << " " << i;
  const std::string packed = temporaryPath("pairs-packed.safetensors");
  writePacked(packed, weights->pieces());
  EXPECT_EQ(Weights::load(d, TensorSource::open(packed))->packedBytes(), 0u);
  std::get<PackedLayout>(d.slots[0].layouts[0]).beside = 1;
  EXPECT_THAT([&] { Weights::load(d, TensorSource::open(packed)); },
              testing::ThrowsMessage<UserError>(HasSubstr("packed for a program with other layouts")));
}

/// What a file has in two bytes goes through no rounding, and is used where it is stored.
TEST(Packing, TwoBytesOfAFile) {
  std::vector<uint16_t> bits(64);
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] = uint16_t(0x7c01 + i * 331); // NaNs with a payload first
  const std::string path = temporaryPath("halves.safetensors");
  for (auto [dtype, storage] : {std::pair(Dtype::BF16, Storage::BF16), std::pair(Dtype::F16, Storage::F16)}) {
    writeSafetensors(path, {{"w", dtype, {4, 16}, bits.data()}});
    Description d;
    d.parameters = {parameter({"w"}, {4, 16}, "")};
    PackedLayout packed;
    packed.outer = 4, packed.inner = 16, packed.outerStride = 16, packed.innerStride = 1, packed.tile = 4,
    packed.storage = storage;
    d.slots = {{{{0}}, {NarrowLayout{storage}}}, {{{0}}, {packed}}};
    std::unique_ptr<Weights> weights = Weights::load(d, TensorSource::open(path));
    EXPECT_EQ(weights->packedBytes(), bits.size() * 2);
    EXPECT_EQ(std::memcmp(weights->slots()[0][0], bits.data(), bits.size() * 2), 0);
    for (size_t i = 0; i < bits.size(); ++i)
      EXPECT_EQ(static_cast<const uint16_t *>(weights->slots()[1][0])[i % 16 * 4 + i / 16], bits[i]);
  }
}

/// For each group of a tile the scales' low bytes, their high bytes, then for each step four bytes of every row.
TEST(Packing, InCodes) {
  constexpr int64_t groups = 3;
  for (Storage storage : {Storage::Int8, Storage::Int4}) {
    BothOrders both(storage, [](int64_t o, int64_t i) { return float((o * 37 + i * 11) % 101 - 50) / 64; });
    constexpr int64_t O = both.O, I = both.I, tile = both.tile, tiles = both.tiles;
    std::unique_ptr<Weights> weights = both.load();
    const int bits = storage == Storage::Int8 ? 8 : 4, each = 32 / bits, bytes = 2 + 4 * bits;
    EXPECT_EQ(std::get<PackedLayout>(both.description.slots[0].layouts[0]).bytes(), tiles * groups * bytes * tile);
    const auto *codes = static_cast<const uint8_t *>(weights->slots()[0][0]);
    EXPECT_EQ(std::memcmp(codes, weights->slots()[1][0], size_t(tiles * groups * bytes * tile)), 0);
    for (int64_t o = 0; o < tiles * tile; ++o)
      for (int64_t i = 0; i < groups * 32; ++i) {
        const uint8_t *group = codes + (o / tile * groups + i / 32) * bytes * tile;
        const int byte = group[2 * tile + i % 32 / each * 4 * tile + o % tile * 4 + i % 4],
                  code = (byte >> (i % each / 4 * 4) & ((1 << bits) - 1)) - (1 << (bits - 1));
        const float scale = quern::support::halfToFloat(uint16_t(group[o % tile] | group[tile + o % tile] << 8)),
                    want = o < O && i < I ? both.w[size_t(o * I + i)] : 0;
        // Half a step, and what rounding the scale to f16 adds to the largest code.
        ASSERT_NEAR(scale * float(code), want, std::fabs(scale) * (bits == 8 ? 0.57f : 1.01f)) << o << " " << i;
        if (o >= O || i >= I) {
          ASSERT_EQ(scale * float(code), 0);
        }
      }
  }
}

/// What a packed file gives is what was laid out, in its place in the file; other layouts and adapters are refused.
TEST(PackedFile, IsUsedWhereItLies) {
  for (Storage storage : {Storage::F32, Storage::BF16, Storage::F16, Storage::Int8, Storage::Int4}) {
    BothOrders both(storage, [](int64_t o, int64_t i) { return float((o * 37 + i * 11) % 101 - 50) / 64; });
    both.description.slots.push_back({{{0}}, {DenseLayout{}}});
    both.description.slots.push_back({{{1}}, {NarrowLayout{}}});
    both.description.slots.push_back({{{1}}, {NarrowLayout{Storage::F16}}});
    std::unique_ptr<Weights> weights = both.load();
    const std::string path = temporaryPath("packed.safetensors");
    writePacked(path, weights->pieces());
    std::unique_ptr<Weights> again = Weights::load(both.description, TensorSource::open(path));
    EXPECT_EQ(again->packedBytes(), 0u);
    EXPECT_EQ(again->totalBytes(), weights->totalBytes());
    ASSERT_EQ(again->pieces().size(), weights->pieces().size());
    for (size_t i = 0; i < weights->pieces().size(); ++i) {
      const WeightPiece &want = weights->pieces()[i], &got = again->pieces()[i];
      EXPECT_EQ(got.name, want.name);
      ASSERT_EQ(got.bytes, want.bytes);
      EXPECT_EQ(std::memcmp(got.data, want.data, want.bytes), 0) << want.name;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(got.data) % 64, 0u);
    }
    for (size_t slot = 0; slot < both.description.slots.size(); ++slot)
      for (size_t iteration = 0; iteration < both.description.slots[slot].iterations.size(); ++iteration)
        EXPECT_EQ(*static_cast<const uint32_t *>(again->slots()[slot][iteration]),
                  *static_cast<const uint32_t *>(weights->slots()[slot][iteration]));

    Description other = both.description;
    std::get<PackedLayout>(other.slots[1].layouts[0]).tile = 8;
    EXPECT_THAT([&] { Weights::load(other, TensorSource::open(path)); },
                testing::ThrowsMessage<UserError>(HasSubstr("packed for a program with other layouts")));
    EXPECT_THAT([&] { matchParameters(both.description, *TensorSource::open(path)); },
                testing::ThrowsMessage<UserError>(HasSubstr("give the checkpoint")));
    EXPECT_THAT([&] { withAdapter(TensorSource::open(path), "adapter", both.description); },
                testing::ThrowsMessage<UserError>(HasSubstr("no adapter can be added")));
  }
}

TEST(Packing, JoinedWeightsFollowEachOther) {
  // Queries of 16 rows stored [rows, depth], keys of 8 stored [depth, rows]: one slot of three tiles.
  Description d;
  constexpr int64_t I = 5, tile = 8;
  d.parameters = {parameter({"q"}, {16, I}, ""), parameter({"k"}, {I, 8}, "")};
  d.slots = {{{{0, 1}}, {PackedLayout{16, I, I, 1, tile, 0}, PackedLayout{8, I, 1, 8, tile, 0}}}};
  auto weights = Weights::load(
      d, checkpoint({{"q", Dtype::F32, {16, I}, counting(16 * I)}, {"k", Dtype::F32, {I, 8}, counting(I * 8)}}));
  const float *packed = static_cast<const float *>(weights->slots()[0][0]);
  for (int64_t o = 0; o < 24; ++o)
    for (int64_t i = 0; i < I; ++i)
      EXPECT_EQ(packed[(o / tile * I + i) * tile + o % tile],
                counting(80)[size_t(o < 16 ? o * I + i : i * 8 + o - 16)]);
}

TEST(Packing, DenseFloatsStayWhereTheyAreMapped) {
  Description d;
  d.parameters = {parameter({"a"}, {4}, ""), parameter({"b"}, {4}, "")};
  WeightLayout dense = DenseLayout();
  d.slots = {{{{0}, {1}}, {dense}}, {{{0, 1}}, {dense}}, {{{0}}, {dense}}};
  std::unique_ptr<TensorSource> c =
      checkpoint({{"a", Dtype::F32, {4}, counting(4)}, {"b", Dtype::F32, {4}, {5, 6, 7, 8}}});
  const void *mapped = c->find("b")->data;
  auto weights = Weights::load(d, std::move(c));
  EXPECT_EQ(weights->slots()[0][1], mapped);
  EXPECT_EQ(weights->slots()[0][0], weights->slots()[2][0]);
  EXPECT_EQ(std::memcmp(weights->slots()[1][0], counting(8).data(), 32), 0); // stacked
}

TEST(Packing, ReadsNarrowTypes) {
  Description d;
  d.parameters = {parameter({"a"}, {2, 3}, "")};
  d.slots = {packed({{0}}, 2, 3, 3, 1, 2), {{{0}}, {DenseLayout()}}};
  uint16_t bits[] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0}; // 1 to 6 in bfloat16
  std::string path = temporaryPath("bf16.safetensors");
  writeSafetensors(path, {{"a", Dtype::BF16, {2, 3}, bits}});
  auto weights = Weights::load(d, TensorSource::open(path));
  float expected[] = {1, 4, 2, 5, 3, 6};
  EXPECT_EQ(std::memcmp(weights->slots()[0][0], expected, 24), 0);
  EXPECT_EQ(std::memcmp(weights->slots()[1][0], counting(6).data(), 24), 0);
}

TEST(Random, FollowsInitAndSeed) {
  Description d;
  d.parameters = {parameter({"n"}, {100, 1000}, ""), parameter({"u"}, {1000}, ""), parameter({"z"}, {3}, ""),
                  parameter({"o"}, {3}, "")};
  d.parameters[0].initValue = 0.5;
  d.parameters[1].init = Init::Uniform;
  d.parameters[1].initValue = 2;
  d.parameters[2].init = Init::Zeros;
  d.parameters[3].init = Init::Ones;
  for (int i = 0; i < 4; ++i)
    d.slots.push_back({{{i}}, {DenseLayout()}});
  auto a = Weights::random(d, 1), b = Weights::random(d, 1), c = Weights::random(d, 2);
  auto slot = [](const auto &weights, int s) { return static_cast<const float *>(weights->slots()[s][0]); };
  EXPECT_EQ(std::memcmp(slot(a, 0), slot(b, 0), 400000), 0);
  EXPECT_NE(std::memcmp(slot(a, 0), slot(c, 0), 400000), 0);
  double sum = 0, squares = 0;
  for (int i = 0; i < 100000; ++i) {
    sum += slot(a, 0)[i];
    squares += double(slot(a, 0)[i]) * slot(a, 0)[i];
  }
  EXPECT_NEAR(sum / 100000, 0, 0.01);
  EXPECT_NEAR(std::sqrt(squares / 100000), 0.5, 0.01);
  for (int i = 0; i < 1000; ++i)
    EXPECT_LE(std::abs(slot(a, 1)[i]), 2);
  EXPECT_EQ(slot(a, 2)[2], 0);
  EXPECT_EQ(slot(a, 3)[2], 1);
}

TEST(Packing, FollowsTensorsThatChange) {
  for (int64_t outer : {1, 3, 8, 21})
    for (int64_t inner : {1, 5, 64, 131})
      for (bool transposed : {false, true}) {
        Description d;
        d.parameters = {parameter({"w"}, {transposed ? inner : outer, transposed ? outer : inner}, "")};
        PackedLayout layout;
        layout.outer = outer;
        layout.inner = inner;
        layout.outerStride = transposed ? 1 : inner;
        layout.innerStride = transposed ? outer : 1;
        layout.tile = 8;
        d.slots = {{{{0}}, {layout}}, {{{0}}, {DenseLayout()}}};
        std::vector<float> values = counting(size_t(outer * inner));
        std::unique_ptr<Weights> weights = Weights::over(d, {values.data()});
        for (int round = 0; round < 2; ++round) {
          const float *packed = static_cast<const float *>(weights->slots()[0][0]);
          for (int64_t o = 0; o < (outer + 7) / 8 * 8; ++o)
            for (int64_t i = 0; i < inner; ++i) {
              float want = o < outer ? values[size_t(o * layout.outerStride + i * layout.innerStride)] : 0;
              ASSERT_EQ(packed[(o / 8 * inner + i) * 8 + o % 8], want) << outer << " " << inner << " " << transposed;
            }
          EXPECT_EQ(weights->slots()[1][0], values.data()); // dense is used where it is stored
          for (float &value : values)
            value = -2 * value;
          weights->update();
        }
      }
}

TEST(Packing, SeveralAsOneAreUsedInPlace) { // experts, in f32 and in bf16: copied only if they are apart
  Description d;
  NarrowLayout narrow;
  for (const char *name : {"e.0", "e.1", "e.2"})
    d.parameters.push_back(parameter({name}, {2, 3}, ""));
  d.slots = {{{{0, 1, 2}}, {DenseLayout()}}, {{{0, 1, 2}}, {narrow}}};
  std::vector<float> values = counting(18);
  std::vector<uint16_t> own(18);
  std::vector<const float *> tensors = {values.data(), values.data() + 6, values.data() + 12};
  std::vector<const uint16_t *> copies = {own.data(), own.data() + 6, own.data() + 12};
  std::unique_ptr<Weights> weights = Weights::over(d, tensors, copies);
  EXPECT_EQ(weights->slots()[0][0], values.data());
  EXPECT_EQ(weights->slots()[1][0], own.data());
  EXPECT_FALSE(weights->copiesDense());
  EXPECT_EQ(weights->packedBytes(), 0u);

  std::swap(tensors[0], tensors[1]);
  weights = Weights::over(d, tensors); // no copies in bf16 given: these are made
  EXPECT_TRUE(weights->copiesDense());
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < values.size(); ++i) {
      float want = tensors[i / 6][i % 6];
      EXPECT_EQ(static_cast<const float *>(weights->slots()[0][0])[i], want) << i;
      EXPECT_EQ(static_cast<const uint16_t *>(weights->slots()[1][0])[i], quern::support::floatToBF16(want)) << i;
    }
    for (float &value : values)
      value = -2 * value;
    weights->update();
  }
}

TEST(Packing, CopiesInBF16) { // from a checkpoint, of tensors that change, and where somebody else keeps them
  Description d;
  d.parameters = {parameter({"w"}, {3, 700}, "")};
  NarrowLayout narrow;
  d.slots = {{{{0}}, {narrow}}, {{{0}}, {DenseLayout()}}};
  std::vector<float> values = counting(2100);
  values[5] = 1 + 0x1p-8f, values[6] = 1 + 3 * 0x1p-8f, values[7] = 3.4e38f, values[8] = NAN;
  std::unique_ptr<Weights> weights = Weights::over(d, {values.data()});
  EXPECT_EQ(weights->slots()[1][0], values.data());
  for (int round = 0; round < 2; ++round) {
    const uint16_t *copy = static_cast<const uint16_t *>(weights->slots()[0][0]);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(copy[i], quern::support::floatToBF16(values[i])) << i;
    for (float &value : values)
      value = -2 * value;
    weights->update();
  }
  EXPECT_EQ(quern::support::floatToBF16(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(quern::support::floatToBF16(1 + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(quern::support::floatToBF16(3.4028234e38f), 0x7f80);
  EXPECT_EQ(quern::support::floatToBF16(NAN) & 0x7fff, 0x7fc0);
  std::vector<uint16_t> own(values.size());
  EXPECT_EQ(Weights::over(d, {values.data()}, {own.data()})->slots()[0][0], own.data());
}

} // namespace
