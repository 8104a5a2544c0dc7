// Takes: dimensions and numbers. Gives: arrays and their rearrangements. Why sharing: renames, splits and merges then
// cost nothing, so the interpreter can follow the IR literally.
#include "ir/reference/Array.h"

using namespace quern::ir;

int64_t quern::ir::countOf(const std::vector<NamedSize> &dims) {
  int64_t total = 1;
  for (const NamedSize &dim : dims)
    total *= dim.size;
  return total;
}

std::string quern::ir::describe(const std::vector<NamedSize> &dims) {
  std::string text = "[";
  for (const NamedSize &dim : dims)
    text += (text.size() > 1 ? ", " : "") + dim.name + " = " + std::to_string(dim.size);
  return text + "]";
}

Array::Array(Kind kind, std::vector<NamedSize> dims) : kind(kind), dims(std::move(dims)) {
  if (isReal())
    real = std::make_shared<std::vector<double>>(getCount());
  else
    integer = std::make_shared<std::vector<int64_t>>(getCount());
}

Array::Array(std::vector<NamedSize> dims, std::vector<double> numbers)
    : dims(std::move(dims)), real(std::make_shared<std::vector<double>>(std::move(numbers))) {
  assert(static_cast<int64_t>(real->size()) == getCount() && "numbers fill the dimensions");
}

Array::Array(Kind kind, std::vector<NamedSize> dims, std::vector<int64_t> numbers)
    : kind(kind), dims(std::move(dims)), integer(std::make_shared<std::vector<int64_t>>(std::move(numbers))) {
  assert(!isReal() && static_cast<int64_t>(integer->size()) == getCount() && "numbers fill the dimensions");
}

int64_t Array::getCount() const {
  return countOf(dims);
}

int Array::find(llvm::StringRef name) const {
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i].name == name)
      return i;
  return -1;
}

Array Array::relabelled(std::vector<NamedSize> to) const {
  assert(countOf(to) == getCount() && "relabelling keeps the number of elements");
  Array copy = *this;
  copy.dims = std::move(to);
  return copy;
}

std::vector<int64_t> Array::stridesIn(const std::vector<NamedSize> &loop) const {
  std::vector<int64_t> own(dims.size()), strides;
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step *= dims[i].size)
    own[i] = step;
  for (const NamedSize &dim : loop) {
    int at = find(dim.name);
    assert((at < 0 || dims[at].size == dim.size) && "one name, one size");
    strides.push_back(at < 0 ? 0 : own[at]);
  }
  return strides;
}

Array Array::aligned(const std::vector<NamedSize> &to) const {
  assert(llvm::all_of(dims, [&](const NamedSize &dim) { return llvm::is_contained(to, dim); }) &&
         "a dimension is lost");
  if (to == dims)
    return *this;
  Array result(kind, to);
  if (isReal()) {
    double *out = result.writeReals();
    forEachPosition<1>(to, {stridesIn(to)}, [&](int64_t i, const auto &at) { out[i] = (*real)[at[0]]; });
  } else {
    int64_t *out = result.writeInts();
    forEachPosition<1>(to, {stridesIn(to)}, [&](int64_t i, const auto &at) { out[i] = (*integer)[at[0]]; });
  }
  return result;
}

Array Array::asReal() const {
  if (isReal())
    return *this;
  return Array(dims, std::vector<double>(integer->begin(), integer->end()));
}
