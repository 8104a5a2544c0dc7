// What tensors are called in a GGUF file and on Hugging Face, and what the file did to them.
#ifndef QUERN_RUNTIME_GGUF_GGUFNAMES_H
#define QUERN_RUNTIME_GGUF_GGUFNAMES_H

#include "runtime/gguf/GgufFile.h"

#include <cstddef>
#include <string>

namespace quern::runtime {

/// What the file did to a tensor.
enum class Change {
  None,
  Transposed,
  Pairs,    // rows of each head in pairs (2j, 2j + 1), where the model has halves (j, j + d/2)
  KeyPairs, // the same for the heads of keys
  Thirds,   // all queries, all keys, all values, where the model has a query, key and value for each head
  KeyHeads, // the same, where the model has some queries, a key and a value for each head of keys
  PlusOne,
  MinusExp, // -exp(x): a recurrence's rates
  Tiled,    // heads of values in turns, one for each head of keys, where the model has those of a head of keys together
  TiledMinusExp,
  TiledColumns, // the same for columns
  Stacked       // one tensor for all experts (or heads); {} in the name counts them
};

/// The shape on Hugging Face, where it is another one than the file's.
enum class Form {
  AsStored,
  Vector,   // [n]
  Row,      // [1, n]
  Channels, // [n, 1, taps]: a convolution of each channel
  OfHeads   // [1, 1, n, 1]
};

/// A dot in front: in every layer. A name without an ending (".weight", ".bias") stands for all of them; one with its
/// ending is found first.
struct GgufName {
  const char *gguf, *published;
  Change change = Change::None;
  Form form = Form::AsStored;
};

/// A tensor that the file has in two parts.
struct GgufJoin {
  enum How {
    Halves,       // of each matrix the rows of the first, then those of the second
    TurnedHalves, // the same, and then each matrix transposed
    Alternating,  // rows in turns, each matrix transposed
    Elements,     // numbers in turns
    KeyHeads,     // for each head of keys: its query, key and values of the first, then its rows of the second
    KeysAndValues // for each head the columns of the first, then the rows of the second
  };
  const char *published, *first, *second;
  How how;
};

template <typename T> struct GgufRows {
  const T *rows = nullptr;
  size_t count = 0;
  template <size_t n> constexpr GgufRows(const T (&all)[n]) : rows(all), count(n) {}
  constexpr GgufRows() = default;
  const T *begin() const { return rows; }
  const T *end() const { return rows + count; }
};

/// Of several of one name the first holds whose tensor `where` the file has; of its tables the first that has a name.
struct GgufArchitecture {
  const char *name, *layers, *where;
  GgufRows<GgufName> tables[4];
  GgufRows<GgufJoin> joins;
};

/// Throws UserError for an architecture that has no names here.
const GgufArchitecture &namesOf(const GgufFile &file);

} // namespace quern::runtime
#endif
