// Takes: the tensors that stand for one weight. Gives: that weight.
//
// Formats: https://github.com/vllm-project/compressed-tensors; NVFP4: numbers of 4 bits (E2M1), 16 with a scale of F8, all
// with one of f32.
#include "runtime/formats/CompressedTensors.h"

#include "runtime/Error.h"
#include "runtime/formats/IntegerCodes.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace quern::runtime {

namespace {

using Tensors = std::map<std::string, StoredTensor>;

/// Numbers of four bits along each row, the lower half of a byte first.
struct FourBitFloats : TensorReader {
  StoredTensor codes;
  std::vector<float> scales; // [outer, groups]
  int64_t inner = 0, groups = 0;
  bool powers = false; // scales are powers of two

  const char *type() const override { return powers ? "MXFP4" : "NVFP4"; }
  void read(int64_t first, int64_t count, float *to) const override {
    for (int64_t at = first; at < first + count; ++at) {
      const unsigned code = unsigned(codes.data[at / 2]) >> at % 2 * 4 & 15;
      *to++ = support::numberOfFourBits(code) * scales[size_t(at / inner * groups + at % inner / (inner / groups))];
    }
  }
  const char *heldBy() const override { return powers ? "BF16" : "F32"; }
};

class Joiner {
public:
  Joiner(Tensors &tensors, std::string name) : tensors(tensors), name(std::move(name)) {}

  void run() {
    const size_t dot = name.rfind('.');
    stem = name.substr(0, dot);
    codes = *take(name);
    if (codes.dtype == Dtype::I32)
      packedIntegers();
    else if (codes.dtype == Dtype::I8)
      bytes();
    else
      floats();
  }

private:
  Tensors &tensors;
  std::string name, stem;
  StoredTensor codes;

  [[noreturn]] void misfit(const std::string &reason) const {
    throw UserError(codes.file->name() + ": tensor " + quote(name) + " " + reason);
  }

  std::optional<StoredTensor> take(const std::string &which) {
    auto node = tensors.extract(which);
    return node.empty() ? std::nullopt : std::optional(std::move(node.mapped()));
  }

  StoredTensor scaleOf(const char *ending) {
    std::optional<StoredTensor> scale = take(stem + ending);
    if (!scale || scale->elements() == 0)
      misfit("has no " + std::string(ending) + " beside it");
    return *scale;
  }

  void put(std::shared_ptr<const TensorReader> reader, std::vector<int64_t> shape) {
    tensors[stem + ".weight"] = {Dtype::Coded, std::move(shape), codes.data,
                                 codes.bytes,  codes.file,       std::move(reader)};
  }

  void packedIntegers() {
    std::optional<StoredTensor> shape = take(stem + ".weight_shape");
    if (!shape || shape->elements() != 2 || codes.shape.size() != 2)
      misfit("has no .weight_shape of a matrix beside it");
    int64_t sizes[2];
    toLong(*shape, 0, 2, sizes);
    const int64_t words = codes.shape[1];
    if (sizes[0] != codes.shape[0] || sizes[1] < 1 || sizes[1] > words * 32)
      misfit("does not fit its .weight_shape");
    auto reader = std::make_shared<RowCodes>();
    reader->bits = 0;
    for (int bits : {4, 8, 2, 3, 5, 6, 7, 1}) // of a short row several may fit
      if (!reader->bits && (sizes[1] * bits + 31) / 32 == words)
        reader->bits = bits;
    if (!reader->bits)
      misfit("does not fit its .weight_shape");
    integers(reader, sizes[0], sizes[1]);
  }

  void bytes() {
    if (codes.shape.size() != 2)
      misfit("of 8 bits is no matrix");
    auto reader = std::make_shared<RowCodes>();
    reader->bits = 8;
    reader->words = false;
    integers(reader, codes.shape[0], codes.shape[1]);
  }

  void integers(const std::shared_ptr<RowCodes> &reader, int64_t outer, int64_t inner) {
    const StoredTensor scale = scaleOf(".weight_scale");
    std::optional<StoredTensor> zeros = take(stem + ".weight_zero_point"), order = take(stem + ".weight_g_idx");
    const bool each = scale.elements() != 1;
    const int64_t groups = scale.shape.size() == 2 ? scale.shape[1] : 1;
    if (!isReal(scale.dtype) || (each && scale.shape[0] != outer) || scale.shape.size() > 2 || inner % groups ||
        outer < 1)
      misfit("does not fit its .weight_scale of shape " + shapeText(scale.shape));
    reader->outer = outer;
    reader->inner = inner;
    reader->codes = codes;
    const std::vector<float> stored = numbersOf(scale);
    reader->scales.resize(size_t(groups * outer));
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t g = 0; g < groups; ++g)
        reader->scales[size_t(g * outer + o)] = stored[size_t(each ? o * groups + g : 0)];
    if (zeros) {
      const int64_t lines = reader->words ? (outer * reader->bits + 31) / 32 : outer;
      if (zeros->dtype != codes.dtype || zeros->shape != std::vector{lines, groups})
        misfit("does not fit its .weight_zero_point of shape " + shapeText(zeros->shape));
      reader->zeros = *zeros;
    }
    reader->groupOf.resize(size_t(inner));
    for (int64_t i = 0; i < inner; ++i)
      reader->groupOf[size_t(i)] = int32_t(i / (inner / groups));
    if (order && order->elements() == inner) {
      toInt(*order, 0, inner, reader->groupOf.data());
      if (std::any_of(reader->groupOf.begin(), reader->groupOf.end(), [&](int g) { return g < 0 || g >= groups; }))
        misfit("has a .weight_g_idx beyond its groups");
    }
    put(reader, {outer, inner});
  }

  void floats() {
    const StoredTensor scale = scaleOf(".weight_scale");
    const bool powers = scale.dtype == Dtype::U8, eighths = scale.dtype == Dtype::F8_E4M3;
    if (codes.shape.size() != 2 || scale.shape.size() != 2 || scale.shape[0] != codes.shape[0] ||
        (!powers && !eighths && !isReal(scale.dtype)) || codes.shape[1] * 2 % scale.shape[1])
      misfit("does not fit its .weight_scale of shape " + shapeText(scale.shape));
    auto reader = std::make_shared<FourBitFloats>();
    reader->codes = codes;
    reader->inner = codes.shape[1] * 2;
    reader->groups = scale.shape[1];
    reader->powers = powers;
    if (powers) {
      for (int64_t i = 0; i < scale.elements(); ++i)
        reader->scales.push_back(std::ldexp(1.0f, int(scale.data[i]) - 127));
    } else {
      const support::FloatCodes &form = *support::floatCodesOf(support::Storage::F8E4M3);
      if (eighths)
        for (int64_t i = 0; i < scale.elements(); ++i)
          reader->scales.push_back(support::numberOfCode(form, scale.data[i]));
      else
        reader->scales = numbersOf(scale);
      if (std::optional<StoredTensor> all = take(stem + ".weight_global_scale"))
        scaleAll(*all, [](float scale, float by) { return scale / by; }, reader->scales);
      if (std::optional<StoredTensor> all = take(stem + ".weight_scale_2"))
        scaleAll(*all, [](float scale, float by) { return scale * by; }, reader->scales);
    }
    put(reader, {codes.shape[0], reader->inner});
  }

  template <typename Change> void scaleAll(const StoredTensor &by, Change change, std::vector<float> &scales) const {
    if (!isReal(by.dtype) || by.elements() != 1)
      misfit("has more than one scale for all");
    const float factor = numbersOf(by)[0];
    for (float &scale : scales)
      scale = change(scale, factor);
  }
};

} // namespace

bool isCompressed(const Tensors &tensors, const std::string &name) {
  auto found = tensors.find(name);
  if (found == tensors.end())
    return false;
  const Dtype dtype = found->second.dtype;
  if (name.ends_with(".weight_packed"))
    return dtype == Dtype::I32 || dtype == Dtype::U8;
  if (!name.ends_with(".weight") || !tensors.count(name + "_scale"))
    return false;
  return dtype == Dtype::I8 || (dtype == Dtype::U8 && tensors.count(name + "_scale_2"));
}

void joinCompressed(Tensors &tensors, const std::string &name) {
  Joiner(tensors, name).run();
}

void dropActivationScales(Tensors &tensors) {
  static constexpr std::array endings = {
      ".input_scale", ".input_zero_point", ".input_global_scale", ".output_scale", ".output_zero_point", ".k_scale",
      ".v_scale",     ".q_scale"};
  std::erase_if(tensors, [](const auto &entry) {
    return std::any_of(endings.begin(), endings.end(), [&](const char *end) { return entry.first.ends_with(end); });
  });
}

} // namespace quern::runtime
