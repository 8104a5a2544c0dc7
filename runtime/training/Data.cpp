// Takes: tokens, or a file of tensors. Gives: batch number n, without having given out those before it.
#include "runtime/training/Data.h"

#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/cli/GivenInputs.h"
#include "runtime/training/Training.h"

#include <algorithm>
#include <cstring>

namespace quern::runtime {

namespace {

uint64_t mix(uint64_t x) { // splitmix64 (Steele, Lea and Flood 2014)
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

class Stream : public Data {
public:
  Stream(std::vector<int32_t> tokens, std::string input, int64_t length, std::optional<uint64_t> seed)
      : tokens(std::move(tokens)), input(std::move(input)), length(length), seed(seed) {}

  Values batch(uint64_t number, int64_t rows) const override {
    Value text = Value::make(Storage::I32, {rows, length}), labels = text;
    for (int64_t row = 0; row < rows; ++row) {
      uint64_t window = number * uint64_t(rows) + uint64_t(row), pass = window / windows();
      uint64_t at = seed ? permuted(window % windows(), windows(), mix(*seed) ^ pass) : window % windows();
      // Tokens left over by whole windows are shared out: each pass begins at another one.
      uint64_t spare = uint64_t(tokens.size()) - 1 - windows() * uint64_t(length);
      uint64_t first = at * uint64_t(length) + (seed ? mix(mix(*seed) + pass) % (spare + 1) : 0);
      std::memcpy(text.ints() + row * length, tokens.data() + first, size_t(length) * 4);
      std::memcpy(labels.ints() + row * length, tokens.data() + first + 1, size_t(length) * 4);
    }
    Values inputs;
    inputs[input] = std::move(text);
    inputs["labels"] = std::move(labels);
    return inputs;
  }
  double batches(int64_t rows) const override { return double(windows()) / double(rows); }
  std::string describe() const override { return format("%zu tokens", tokens.size()); }

private:
  std::vector<int32_t> tokens;
  std::string input;
  int64_t length;
  std::optional<uint64_t> seed;

  /// Passes are one window short where nothing would be left over to move them by.
  uint64_t windows() const {
    uint64_t all = (tokens.size() - 1) / uint64_t(length);
    return seed && all > 1 && (tokens.size() - 1) % uint64_t(length) < uint64_t(length) / 2 ? all - 1 : all;
  }
};

class Examples : public Data {
public:
  Examples(std::map<std::string, Value> tensors, const FunctionInfo &function, bool shifts, bool whole,
           std::optional<uint64_t> seed)
      : tensors(std::move(tensors)), function(function), shifts(shifts), whole(whole), seed(seed),
        count(this->tensors.begin()->second.shape.at(0)) {}

  Values batch(uint64_t number, int64_t rows) const override {
    Values inputs;
    for (const auto &[name, tensor] : tensors) {
      std::vector<int64_t> shape = tensor.shape;
      size_t each = tensor.data.size() / size_t(count);
      if (whole)
        shape.erase(shape.begin());
      else
        shape[0] = std::min(rows, count);
      Value &value = inputs[name] = Value::make(tensor.storage, shape);
      for (int64_t row = 0; row < (whole ? 1 : shape[0]); ++row) {
        uint64_t at = whole ? number : number * uint64_t(shape[0]) + uint64_t(row), pass = at / uint64_t(count);
        at %= uint64_t(count);
        if (seed && !whole)
          at = permuted(at, uint64_t(count), mix(*seed) ^ pass);
        std::memcpy(value.data.data() + size_t(row) * each, tensor.data.data() + at * each, each);
      }
    }
    if (shifts)
      shiftToNextToken(inputs, function);
    return inputs;
  }
  double batches(int64_t rows) const override { return whole ? double(count) : double(count) / double(rows); }
  std::string describe() const override {
    return format("%lld %s", static_cast<long long>(count), whole ? "batches" : "rows");
  }
  bool hasRows() const override { return !whole; }

private:
  std::map<std::string, Value> tensors;
  const FunctionInfo &function;
  bool shifts, whole;
  std::optional<uint64_t> seed;
  int64_t count;
};

} // namespace

/// A Feistel network over the next power of four, walked until it lands inside (Black and Rogaway 2002).
uint64_t permuted(uint64_t place, uint64_t count, uint64_t seed) {
  int half = 1;
  while (uint64_t(1) << 2 * half < count)
    ++half;
  uint64_t mask = (uint64_t(1) << half) - 1;
  do {
    uint64_t left = place >> half, right = place & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t next = left ^ (mix(seed + round * 0x9e3779b97f4a7c15ull + right) & mask);
      left = right;
      right = next;
    }
    place = left << half | right;
  } while (place >= count);
  return place;
}

std::unique_ptr<Data> makeStream(std::vector<int32_t> tokens, std::string input, int64_t length,
                                 std::optional<uint64_t> seed) {
  return std::make_unique<Stream>(std::move(tokens), std::move(input), length, seed);
}

std::unique_ptr<Data> makeExamples(const std::string &path, const Description &description,
                                   const FunctionInfo &function, bool nextToken, std::optional<uint64_t> seed) {
  std::map<std::string, Value> tensors;
  std::optional<bool> whole;
  std::string first;
  for (const auto &[name, tensor] :
       readInputs(path, [&](const std::string &name) { return function.findInput(name); })) {
    const TensorInfo &wanted = lossInput(path, description, function, name);
    size_t rank = tensor.shape.size(), rows = wanted.dims.size();
    if (rank != rows && rank != rows + 1)
      throw UserError(path + ": " + describeTensor(wanted) + " has the shape " + shapeText(tensor.shape) +
                      "; a row each, or with one dimension more a batch each, is needed");
    if (tensor.shape.empty() || tensor.bytes == 0)
      throw UserError(path + ": " + quote(name) + " is empty");
    bool isWhole = rank == rows + 1;
    if (whole && (*whole != isWhole || tensor.shape[0] != tensors.begin()->second.shape[0]))
      throw UserError(path + ": " + quote(name) + " has the shape " + shapeText(tensor.shape) +
                      ", which does not go with " + quote(first) + " " + shapeText(tensors.begin()->second.shape));
    whole = isWhole;
    tensors[name] = convertInput(tensor, wanted);
    first = tensors.begin()->first;
  }
  for (const TensorInfo &input : function.inputs)
    if (!input.optional && !tensors.count(input.name) && !(nextToken && input.name == "labels"))
      throw UserError(path + " lacks " + quote(input.name) + "; the loss takes " +
                      describeInputs(description, function));
  if (tensors.empty())
    throw UserError(path + " holds no tensors");
  bool shifts = nextToken && !tensors.count("labels");
  return std::make_unique<Examples>(std::move(tensors), function, shifts, *whole, seed);
}

} // namespace quern::runtime
