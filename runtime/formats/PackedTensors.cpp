// Takes: a checkpoint's table of tensors. Gives: the same, with one tensor for each group of codes, scales and zeros.
#include "runtime/formats/PackedTensors.h"

#include "runtime/Error.h"
#include "runtime/formats/BlockFormat.h"
#include "runtime/formats/ByteFloats.h"
#include "runtime/formats/CompressedTensors.h"
#include "runtime/formats/GroupedCodes.h"
#include "runtime/formats/IntegerCodes.h"
#include "runtime/formats/SuperWords.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

namespace quern::runtime {

namespace {

using Tensors = std::map<std::string, StoredTensor>;

[[noreturn]] void misfit(const StoredTensor &tensor, const std::string &name, const std::string &reason) {
  throw UserError(tensor.file->name() + ": tensor " + quote(name) + " " + reason);
}

/// gpt-oss: codes [expert, output, group, 16 bytes] and exponents [expert, output, group] as a tensor [expert, input,
/// output]; the lower four bits of a byte come first.
struct ExpertFloats : TensorReader {
  StoredTensor codes, exponents;
  int64_t outputs = 0, inputs = 0;

  const char *type() const override { return "MXFP4"; }

  void read(int64_t first, int64_t count, float *to) const override {
    for (int64_t at = first; at < first + count; ++at) {
      const int64_t o = at % outputs, i = at / outputs % inputs, expert = at / (outputs * inputs);
      const int64_t code = (expert * outputs + o) * inputs + i;
      const unsigned bits = unsigned(codes.data[code / 2]) >> i % 2 * 4 & 15;
      *to++ = std::ldexp(support::numberOfFourBits(bits), exponents.data[code / 32] - 127);
    }
  }

  /// The groups of GGUF's format of the same name, but for the order in a block.
  const uint8_t *block(std::string_view format, int64_t first, int64_t stride, int64_t count,
                       uint8_t *room) const override {
    const int64_t o = first % outputs, i = first / outputs % inputs, expert = first / (outputs * inputs);
    if (format != "Q8_0" || stride != outputs || count != 32 || i % 32)
      return nullptr;
    constexpr int doubled[8] = {0, 1, 2, 3, 4, 6, 8, 12};
    const int64_t code = (expert * outputs + o) * inputs + i;
    const int exponent = exponents.data[code / 32];
    if (!inHalf(exponent))
      return nullptr;
    joinGroup(
        support::floatToHalf(std::ldexp(1.0f, exponent - 128)), 8,
        [&](int k) {
          const unsigned bits = unsigned(codes.data[(code + k) / 2]) >> k % 2 * 4 & 15;
          return bits & 8 ? -doubled[bits & 7] : doubled[bits & 7];
        },
        room);
    return room;
  }

  const char *heldBy() const override {
    return std::all_of(exponents.data, exponents.data + exponents.bytes, inHalf) ? "Q8_0" : nullptr;
  }

  /// 2^(exponent - 128) is one of f16's numbers.
  static bool inHalf(int exponent) { return exponent >= 128 - 24 && exponent <= 128 + 15; }
};

StoredTensor coded(const StoredTensor &codes, std::vector<int64_t> shape, std::shared_ptr<const TensorReader> reader) {
  return {Dtype::Coded, std::move(shape), codes.data, codes.bytes, codes.file, std::move(reader)};
}

/// Moves the tensor out of the table; nothing if there is none.
std::optional<StoredTensor> take(Tensors &tensors, const std::string &name) {
  auto node = tensors.extract(name);
  return node.empty() ? std::nullopt : std::optional(std::move(node.mapped()));
}

void joinIntegers(Tensors &tensors, const std::string &name) {
  auto reader = std::make_shared<ColumnCodes>();
  const StoredTensor codes = *take(tensors, name + ".qweight");
  auto fail = [&](const char *reason) { misfit(codes, name + ".qweight", reason); };
  std::optional<StoredTensor> zeros = take(tensors, name + ".qzeros"), scales = take(tensors, name + ".scales"),
                              groups = take(tensors, name + ".g_idx");
  if (!zeros || !scales)
    fail("has no .qzeros and .scales beside it");
  auto isWords = [](const StoredTensor &t) { return t.dtype == Dtype::I32 && t.shape.size() == 2; };
  if (!isWords(codes) || !isWords(*zeros) || !isReal(scales->dtype) || scales->shape.size() != 2 ||
      scales->elements() == 0)
    fail("or its .qzeros or .scales have other types or shapes than GPTQ and AWQ have");
  reader->outer = scales->shape[1];
  reader->awq = codes.shape[1] != reader->outer;
  reader->bits = reader->awq ? 4 : int(zeros->shape[1] * 32 / reader->outer);
  if (reader->bits != 2 && reader->bits != 4 && reader->bits != 8)
    fail("has codes of neither 2, 4 nor 8 bits");
  const int64_t per = 32 / reader->bits;
  reader->inner = reader->awq ? codes.shape[0] : codes.shape[0] * per;
  const int64_t count = scales->shape[0];
  if (reader->outer % per || zeros->shape[1] != reader->outer / per || zeros->shape[0] != count ||
      (reader->awq && codes.shape[1] != reader->outer / per) || reader->inner == 0 || reader->inner % count)
    fail("does not fit its .qzeros and .scales");
  reader->groupOf.resize(size_t(reader->inner));
  for (int64_t i = 0; i < reader->inner; ++i)
    reader->groupOf[size_t(i)] = int32_t(i / (reader->inner / count));
  if (groups) {
    if (groups->elements() != reader->inner)
      fail("does not fit its .g_idx");
    toInt(*groups, 0, reader->inner, reader->groupOf.data());
    if (std::any_of(reader->groupOf.begin(), reader->groupOf.end(), [&](int g) { return g < 0 || g >= count; }))
      fail("has a .g_idx beyond its groups");
  }
  const std::vector<int64_t> shape = {reader->outer, reader->inner};
  reader->codes = codes;
  reader->zeros = *zeros;
  reader->scales = numbersOf(*scales);
  tensors[name + ".weight"] = coded(codes, shape, reader);
}

void joinExperts(Tensors &tensors, const std::string &name) {
  auto reader = std::make_shared<ExpertFloats>();
  reader->codes = *take(tensors, name + "_blocks");
  const std::vector<int64_t> blocks = reader->codes.shape;
  std::optional<StoredTensor> exponents = take(tensors, name + "_scales");
  if (reader->codes.dtype != Dtype::U8 || blocks.size() != 4 || blocks[3] != 16 || !exponents ||
      exponents->dtype != Dtype::U8 || exponents->shape != std::vector(blocks.begin(), blocks.end() - 1))
    misfit(reader->codes, name + "_blocks", "is no MXFP4 of 32 numbers a block with its _scales beside it");
  reader->exponents = *exponents;
  reader->outputs = blocks[1];
  reader->inputs = blocks[2] * 32;
  tensors[name] = coded(reader->codes, {blocks[0], reader->inputs, reader->outputs}, reader);
}

} // namespace

void joinPackedTensors(Tensors &tensors) {
  std::vector<std::string> names;
  for (const auto &[name, tensor] : tensors)
    names.push_back(name);
  auto stem = [](const std::string &name, const char *ending) {
    return name.substr(0, name.size() - std::strlen(ending));
  };
  bool joined = false; // with something that may have scales of activations
  for (const std::string &name : names) {
    auto found = tensors.find(name);
    if (found == tensors.end())
      continue;
    const Dtype dtype = found->second.dtype;
    const bool compressed = isCompressed(tensors, name);
    joined = joined || compressed || dtype == Dtype::F8_E4M3;
    if (compressed)
      joinCompressed(tensors, name);
    else if (name.ends_with(".qweight"))
      joinIntegers(tensors, stem(name, ".qweight"));
    else if (name.ends_with("_blocks") && tensors.count(stem(name, "_blocks") + "_scales"))
      joinExperts(tensors, stem(name, "_blocks"));
    else if (dtype == Dtype::F8_E4M3 || dtype == Dtype::F8_E5M2)
      joinByteFloats(tensors, name);
    else if (isScalesOfGroups(tensors, name))
      joinGroupedCodes(tensors, name);
    else if (isShapeOfWords(tensors, name))
      joinSuperWords(tensors, name);
  }
  if (joined)
    dropActivationScales(tensors);
}

} // namespace quern::runtime
