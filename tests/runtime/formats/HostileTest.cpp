// Checkpoints in few bits as strangers may send them: of every type every truncation, and 1,000 damages, half of them in what says how
// the codes are read. A program that loads such a file, whatever its kernels want, ends in an error or has other numbers.
#include "runtime/Error.h"
#include "runtime/formats/BlockFormat.h"
#include "runtime/formats/ByteFloats.h"
#include "runtime/weights/Weights.h"
#include "tests/runtime/Damage.h"
#include "tests/runtime/GgufBuilder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

using namespace quern::runtime;
using namespace quern::runtime::test;

namespace {

constexpr char name[] = "model.layers.0.mlp.down_proj.weight", stem[] = "model.layers.0.mlp.down_proj";

/// A file of one matrix, and the matrix's shape.
struct Hostile {
  std::string kind;
  std::function<std::string()> file;
  std::vector<int64_t> shape;
  bool gguf = false;
};
void PrintTo(const Hostile &hostile, std::ostream *out) {
  *out << hostile.kind;
}

std::mt19937 &random() {
  static std::mt19937 source(6);
  return source;
}

std::string bytes(size_t count) {
  std::string result(count, '\0');
  for (char &byte : result)
    byte = char(random()());
  return result;
}

/// Bytes in which each half is between 0.001 and 2.
std::string halves(size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i)
    result += {char(random()()), char(0x14 + random()() % 44)};
  return result;
}

std::string floats(const std::vector<float> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * 4};
}

std::string longs(const std::vector<int64_t> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * 8};
}

struct Part {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  std::string data;
};

std::string safetensors(const std::vector<Part> &parts) {
  std::vector<OutputTensor> tensors;
  for (const Part &part : parts)
    tensors.push_back({part.name, part.dtype, part.shape, part.data.data()});
  std::string file = safetensorsHeader(tensors);
  for (const Part &part : parts)
    file += part.data;
  return file;
}

Hostile blocksOf(const BlockFormat &format) {
  return {format.name,
          [&format] {
            GgufBuilder builder("qwen2");
            builder.tensor("blk.0.ffn_down.weight", format.ggml, {256, 3},
                           bytes(size_t(3 * 256 / format.elements * format.bytes)));
            return builder.file();
          },
          {3, 256},
          true};
}

/// As `quern quantize` writes it. Two rows of a depth whose last group or super-block is short.
Hostile written(Storage storage) {
  const int64_t depth = 300;
  auto file = [=]() -> std::string {
    if (const quern::support::SuperBlocks *form = quern::support::superBlocksOf(storage)) {
      const int64_t words = (depth + form->length - 1) / form->length * form->words();
      std::vector<int64_t> shape = {2, depth, 1};
      if (form->length != quern::support::longestSuperBlock)
        shape.push_back(form->length);
      return safetensors({{name, Dtype::U32, {2, words}, bytes(size_t(8 * words))},
                          {std::string(name) + ".shape", Dtype::I64, {int64_t(shape.size())}, longs(shape)}});
    }
    if (floatCodesOf(storage))
      return safetensors({{name, dtypeOfCodes(storage), {2, depth}, bytes(size_t(2 * depth))},
                          {std::string(name) + "_scale", Dtype::F32, {2, 3}, floats({1, 0.5f, 0.037f, 2, -1, 1e-3f})}});
    const int64_t groups = (depth + 31) / 32;
    const bool wide = bitsOfCode(storage) == 8;
    std::vector<Part> parts = {
        {name, wide ? Dtype::I8 : Dtype::U8, {2, wide ? depth : depth / 2}, bytes(size_t(wide ? 2 * depth : depth))},
        {std::string(name) + ".scales", Dtype::F16, {2, groups}, halves(size_t(2 * groups))}};
    if (!wide)
      parts.push_back({std::string(name) + ".shape", Dtype::I64, {2}, longs({2, depth})});
    return safetensors(parts);
  };
  return {quern::support::storageName(storage), file, {2, depth}};
}

/// [16, 128] of GPTQ or AWQ. `zero`: the byte that zeros are made of; any at 0.
Hostile integers(const std::string &kind, bool awq, int bits, int64_t group, char zero, bool order = false) {
  auto file = [=] {
    const int64_t outer = 16, inner = 128, per = 32 / bits, count = inner / group;
    std::vector<Part> parts = {
        {std::string(stem) + ".qweight", Dtype::I32,
         awq ? std::vector{inner, outer / per} : std::vector{inner / per, outer},
         bytes(size_t(inner * outer * bits / 8))},
        {std::string(stem) + ".qzeros",
         Dtype::I32,
         {count, outer / per},
         zero ? std::string(size_t(count * outer * bits / 8), zero) : bytes(size_t(count * outer * bits / 8))},
        {std::string(stem) + ".scales", Dtype::F16, {count, outer}, halves(size_t(count * outer))}};
    if (order) {
      std::string groups;
      for (int32_t i = 0; i < inner; ++i) {
        const int32_t of = int32_t(random()() % size_t(count));
        groups.append(reinterpret_cast<const char *>(&of), 4);
      }
      parts.push_back({std::string(stem) + ".g_idx", Dtype::I32, {inner}, groups});
    }
    return safetensors(parts);
  };
  return {kind, file, {16, 128}};
}

/// [9, 260] in bytes that are floats, with scales of this shape.
Hostile byteFloats(const std::string &kind, Dtype dtype, const std::vector<int64_t> &scales) {
  auto file = [=] {
    std::vector<Part> parts = {{name, dtype, {9, 260}, bytes(9 * 260)}};
    int64_t count = 1;
    for (int64_t length : scales)
      count *= length;
    if (count)
      parts.push_back(
          {std::string(name) + "_scale_inv", Dtype::F32, scales, floats(std::vector<float>(size_t(count), 0.037f))});
    return safetensors(parts);
  };
  return {kind, file, {9, 260}};
}

std::vector<Hostile> every() {
  std::vector<Hostile> all;
  for (uint32_t type = 0; type < 64; ++type)
    if (const BlockFormat *format = findBlockFormat(type))
      all.push_back(blocksOf(*format));
  for (const quern::support::StorageForm &form : quern::support::storageForms)
    if (form.coded)
      all.push_back(written(*quern::support::storageByName(form.name)));
  all.push_back(integers("GPTQ", false, 4, 32, '\x77'));
  all.push_back(integers("GPTQ_zeros", false, 4, 32, 0));
  all.push_back(integers("GPTQ_long_zeros", false, 4, 128, 0));
  all.push_back(integers("GPTQ_order", false, 4, 32, 0, true));
  all.push_back(integers("GPTQ_2", false, 2, 64, 0));
  all.push_back(integers("GPTQ_8", false, 8, 64, '\x7f'));
  all.push_back(integers("AWQ", true, 4, 32, '\x88'));
  all.push_back(integers("AWQ_zeros", true, 4, 32, 0));
  all.push_back(integers("AWQ_long_zeros", true, 4, 128, 0));
  all.push_back(byteFloats("F8_E4M3", Dtype::F8_E4M3, {0}));
  all.push_back(byteFloats("F8_E4M3_blocks", Dtype::F8_E4M3, {1, 3}));
  all.push_back(byteFloats("F8_E4M3_rows", Dtype::F8_E4M3, {9, 1}));
  all.push_back(byteFloats("F8_E5M2_one", Dtype::F8_E5M2, {1}));
  all.push_back({"experts", // of gpt-oss: MXFP4
                 [] {
                   std::string exponents = bytes(2 * 4 * 3);
                   for (char &exponent : exponents)
                     exponent = char(115 + uint8_t(exponent) % 20);
                   return safetensors({{"experts_blocks", Dtype::U8, {2, 4, 3, 16}, bytes(2 * 4 * 3 * 16)},
                                       {"experts_scales", Dtype::U8, {2, 4, 3}, exponents}});
                 },
                 {2, 96, 4}});
  return all;
}

/// What kernels may want of the matrix.
std::vector<WeightLayout> layoutsOf(const std::vector<int64_t> &shape) {
  const size_t rank = shape.size();
  PackedLayout packed{shape[rank - 2], shape[rank - 1], shape[rank - 1], 1, 4, 0};
  if (rank == 3) // of the first expert, whose depth comes first
    packed = {shape[2], shape[1], 1, shape[2], 4, 0};
  std::vector<WeightLayout> layouts = {DenseLayout(), NarrowLayout()};
  for (const quern::support::StorageForm &form : quern::support::storageForms)
    if (form.kind == Kind::Real) {
      packed.storage = *quern::support::storageByName(form.name);
      layouts.emplace_back(packed);
    }
  return layouts;
}

class HostileFiles : public testing::TestWithParam<Hostile> {
protected:
  /// Loads the file for all layouts: what was wrong with it.
  std::string load(const std::string &bytes) {
    const Hostile &hostile = GetParam();
    try {
      auto open = [&] {
        return TensorSource::open(
            "hostile", {{hostile.gguf ? "model.gguf" : "model.safetensors", MappedFile::copy(bytes, "hostile")}});
      };
      const auto source = open();
      for (const std::string &tensor : source->names())
        if (const StoredTensor &stored = *source->find(tensor); stored.reader)
          stored.reader->heldBy();
      Description d;
      d.parameters.resize(1);
      d.parameters[0].names = {hostile.shape.size() == 3 ? "experts" : name};
      d.parameters[0].shape = hostile.shape;
      for (const WeightLayout &layout : layoutsOf(hostile.shape))
        d.slots.push_back({{{0}}, {layout}});
      Weights::load(d, open());
      return "";
    } catch (const UserError &error) {
      return error.what();
    }
  }
};

TEST_P(HostileFiles, EndInAnErrorOrNumbers) {
  const std::string whole = GetParam().file();
  ASSERT_EQ(load(whole), "");
  size_t header = 8;
  if (GetParam().gguf) {
    header = whole.find("blk.0.ffn_down.weight") + 64;
  } else {
    uint64_t length;
    std::memcpy(&length, whole.data(), 8);
    header += length;
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string complaint = load(whole.substr(0, size));
    if (whole.find_first_not_of('\0', size) != std::string::npos) { // not the zeros that GGUF's data ends with
      ASSERT_NE(complaint, "") << size;
    }
  }
  const auto use = [this](const std::string &file) { load(file); };
  useDamaged(whole, use, 1, 500);
  useDamaged(whole, use, 1, 500, header);
}

INSTANTIATE_TEST_SUITE_P(Every, HostileFiles, testing::ValuesIn(every()),
                         [](const auto &info) { return info.param.kind; });

} // namespace
