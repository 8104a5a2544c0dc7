// Takes: a checkpoint's tensors. Gives: views of single experts.
#include "runtime/weights/JoinedExperts.h"

#include <algorithm>

namespace quern::runtime {

namespace {

/// A matrix within a tensor, whose columns may lie next to each other instead of its rows.
class MatrixReader : public TensorReader {
public:
  MatrixReader(const StoredTensor &whole, int64_t start, int64_t columns, int64_t rowStride, int64_t columnStride,
               std::shared_ptr<const MatrixReader> lying)
      : whole(whole), start(start), columns(columns), rowStride(rowStride), columnStride(columnStride),
        lying(std::move(lying)) {}
  const char *type() const override { return dtypeName(whole.dtype); }
  void read(int64_t first, int64_t count, float *to) const override {
    while (count > 0) {
      const int64_t column = first % columns, some = columnStride == 1 ? std::min(count, columns - column) : 1;
      toFloat(whole, start + first / columns * rowStride + column * columnStride, some, to);
      first += some, count -= some, to += some;
    }
  }
  const TensorReader *transposed() const override { return lying.get(); }

private:
  const StoredTensor whole;
  const int64_t start, columns, rowStride, columnStride;
  const std::shared_ptr<const MatrixReader> lying; // the same, transposed: its rows are in one piece
};

/// A matrix [rows, columns] that is stored as [columns, rows], `stride` apart, from element `start` of a tensor.
StoredTensor transposedPiece(const StoredTensor &whole, int64_t start, int64_t rows, int64_t columns, int64_t stride) {
  auto lying = std::make_shared<MatrixReader>(whole, start, rows, stride, 1, nullptr);
  StoredTensor part = whole;
  part.data += uint64_t(start) * dtypeBytes(whole.dtype);
  part.bytes = uint64_t(rows * columns) * dtypeBytes(whole.dtype);
  part.readBy(std::make_shared<MatrixReader>(whole, start, columns, 1, stride, lying), {rows, columns});
  return part;
}

/// One of `count` equal pieces that lie one after the other.
StoredTensor piece(const StoredTensor &whole, int64_t number, int64_t count, std::vector<int64_t> shape) {
  StoredTensor part = whole;
  part.shape = std::move(shape);
  part.bytes = whole.bytes / uint64_t(count);
  part.data = whole.data + uint64_t(number) * part.bytes;
  return part;
}

} // namespace

std::map<std::string, StoredTensor> singleExperts(const std::map<std::string, StoredTensor> &tensors) {
  static const std::string inward = ".experts.gate_up_proj", outward = ".experts.down_proj";
  std::map<std::string, StoredTensor> result;
  for (const auto &[name, both] : tensors) {
    if (!name.ends_with(inward))
      continue;
    const std::string stem = name.substr(0, name.size() - inward.size());
    auto found = tensors.find(stem + outward);
    if (found == tensors.end() || both.reader || found->second.reader || both.shape.size() != 3 ||
        found->second.shape.size() != 3)
      continue;
    const StoredTensor &down = found->second;
    const bool inputsFirst = both.shape[1] == down.shape[2];
    const size_t in = inputsFirst ? 1 : 2, out = inputsFirst ? 2 : 1; // which dimension
    const int64_t experts = both.shape[0], inputs = both.shape[in], inner = down.shape[in];
    if (experts == 0 || down.shape[0] != experts || down.shape[out] != inputs || both.shape[out] != 2 * inner)
      continue;
    if (inputsFirst && (!isReal(both.dtype) || !isReal(down.dtype) || tensors.count(name + "_bias")))
      continue;
    for (int64_t e = 0; e < experts; ++e) {
      const std::string expert = stem + ".experts." + std::to_string(e);
      auto add = [&](const char *part, StoredTensor tensor) {
        result.emplace(expert + "." + part + "_proj.weight", std::move(tensor));
      };
      if (inputsFirst) {
        add("gate", transposedPiece(both, e * 2 * inner * inputs, inner, inputs, 2 * inner));
        add("up", transposedPiece(both, e * 2 * inner * inputs + inner, inner, inputs, 2 * inner));
        add("down", transposedPiece(down, e * inputs * inner, inputs, inner, inputs));
      } else {
        add("gate", piece(both, 2 * e, 2 * experts, {inner, inputs}));
        add("up", piece(both, 2 * e + 1, 2 * experts, {inner, inputs}));
        add("down", piece(down, e, experts, {inputs, inner}));
      }
    }
  }
  return result;
}

} // namespace quern::runtime
