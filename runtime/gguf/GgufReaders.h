// Tensors of a GGUF file read in the order of rows that they have on Hugging Face. Whole rows move, so blocks of codes
// survive, but for keys of latents, whose matrices are stored transposed.
#ifndef QUERN_RUNTIME_GGUF_GGUFREADERS_H
#define QUERN_RUNTIME_GGUF_GGUFREADERS_H

#include "runtime/gguf/GgufNames.h"

#include <algorithm>
#include <atomic>

namespace quern::runtime {

/// Where rows are stored.
struct RowOrder {
  enum Kind {
    AsStored,
    Pairs,       // halves of each head, stored in pairs
    KeyHeads,    // for each head of keys its queries, its key and its values, stored one kind after the other
    Halves,      // of each matrix first the one part, then the other
    Alternating, // of each matrix the parts' rows in turns
    Linear,      // for each head of keys its query, key and values of the first part, then its rows of the second
    Tiled        // of each matrix `first` rows as stored, then for each head of keys its heads, stored in turns
  };
  Kind kind = AsStored;
  int64_t first = 0; // of a part of a tensor: its stored row; or how many rows stay
  int64_t heads = 1, keyHeads = 1;
  int64_t matrices = 1;     // that lie behind each other
  int64_t rows[2] = {0, 0}; // of the parts

  struct Place {
    int part;
    int64_t row;
  };
  Place operator()(int64_t row) const;
};

/// Numbers of rows of `columns` each, in another order.
class RowReader : public TensorReader {
public:
  std::vector<GgufTensor> parts; // one or two, alike
  int64_t columns = 1;
  RowOrder order;
  Change change = Change::None; // PlusOne, MinusExp, or nothing

  int64_t rows() const { return order.rows[0] + order.rows[1]; }
  const char *type() const override { return parts[0].type(); }
  void read(int64_t first, int64_t count, float *to) const override;
  const uint8_t *block(std::string_view format, int64_t first, int64_t stride, int64_t count,
                       uint8_t *room) const override;
  const char *heldBy() const override;
};

/// Matrices [rows, columns] read as [columns, rows], each by itself.
class TransposedReader : public TensorReader {
public:
  explicit TransposedReader(std::shared_ptr<const RowReader> lying)
      : lying(std::move(lying)), rows(this->lying->rows() / this->lying->order.matrices) {}
  const char *type() const override { return lying->type(); }
  void read(int64_t first, int64_t count, float *to) const override;
  const TensorReader *transposed() const override { return lying.get(); }
  const uint8_t *block(std::string_view format, int64_t first, int64_t stride, int64_t count,
                       uint8_t *room) const override {
    return stride == rows ? lying->block(format, placeOf(first), 1, count, room) : nullptr;
  }
  const char *heldBy() const override { return lying->heldBy(); }

private:
  std::shared_ptr<const RowReader> lying;
  int64_t rows;

  int64_t placeOf(int64_t at) const {
    const int64_t each = rows * lying->columns;
    return at / each * each + at % rows * lying->columns + at % each / rows;
  }
};

/// DeepSeek's kv_b_proj [heads * (keys + values), rank] from k_b [heads, rank, keys] and v_b [heads, values, rank].
class LatentReader : public TensorReader {
public:
  GgufTensor keys, values;

  const char *type() const override { return values.type(); }
  void read(int64_t first, int64_t count, float *to) const override;
  /// Blocks of codes lie along the keys, not along the rank.
  const char *heldBy() const override { return keys.format || values.format ? "F32" : nullptr; }

private:
  static std::atomic<uint64_t> made;
  const uint64_t number = ++made; // addresses come again
};

/// Numbers that the file has among its values.
class ListReader : public TensorReader {
public:
  explicit ListReader(std::vector<float> numbers) : numbers(std::move(numbers)) {}
  const char *type() const override { return "F32"; }
  void read(int64_t first, int64_t count, float *to) const override { std::copy_n(numbers.begin() + first, count, to); }
  const uint8_t *data() const { return reinterpret_cast<const uint8_t *>(numbers.data()); }

private:
  std::vector<float> numbers;
};

} // namespace quern::runtime
#endif
