// Takes: tensors. Gives: text that people read, and the other way round: tensors from JSON that people write.
#include "tools/interpret/TensorText.h"

#include "support/Json.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

using namespace quern::ir;
using namespace quern::tools;
using Json = nlohmann::json;

static constexpr int64_t mostNumbers = 2000;

// ---- reading

namespace {
struct Numbers {
  std::vector<int64_t> shape;
  std::vector<double> reals;
  std::vector<int64_t> ints;
  bool real = false, whole = false, truth = false;
};
} // namespace

/// Adds one number; false for anything that is none.
static bool addNumber(Numbers &numbers, const Json &value) {
  static const std::map<std::string, double> words = {{"inf", INFINITY}, {"-inf", -INFINITY}, {"nan", NAN}};
  double real = 0;
  int64_t whole = 0;
  if (value.is_boolean()) {
    numbers.truth = true;
    real = whole = value.get<bool>();
  } else if (value.is_number_integer()) {
    numbers.whole = true;
    real = static_cast<double>(whole = value.get<int64_t>());
  } else if (value.is_number()) {
    numbers.real = true;
    real = value.get<double>();
  } else if (value.is_string() && words.count(value.get<std::string>())) {
    numbers.real = true;
    real = words.at(value.get<std::string>());
  } else {
    return false;
  }
  numbers.reals.push_back(real);
  numbers.ints.push_back(whole);
  return true;
}

/// Collects a nested list row by row; what is wrong with it, or nothing.
static std::string collect(Numbers &numbers, const Json &value, size_t depth) {
  if (!value.is_array()) {
    if (depth != numbers.shape.size())
      return "has rows of different depths";
    return addNumber(numbers, value) ? "" : value.dump() + " is no number, true or false";
  }
  auto size = static_cast<int64_t>(value.size());
  if (depth == numbers.shape.size()) {
    if (!numbers.reals.empty())
      return "has rows of different depths";
    numbers.shape.push_back(size);
  } else if (numbers.shape[depth] != size) {
    return llvm::formatv("has rows of {0} and of {1}", numbers.shape[depth], size).str();
  }
  for (const Json &element : value)
    if (std::string wrong = collect(numbers, element, depth + 1); !wrong.empty())
      return wrong;
  return "";
}

template <class T> static std::string bytesOf(const std::vector<T> &numbers) {
  return std::string(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(T));
}

std::map<std::string, OutputTensor> quern::tools::tensorsFromJson(const std::string &path, llvm::StringRef text) {
  Json file = support::parseJson(text, path, /*comments=*/true);
  if (!file.is_object())
    throw support::UserError(path + ": tensors as text are a JSON object {\"NAME\": [[1.0, 2.0], ...], ...}");
  std::map<std::string, OutputTensor> tensors;
  for (const auto &[name, value] : file.items()) {
    Numbers numbers;
    std::string wrong = collect(numbers, value, 0);
    if (wrong.empty() && numbers.truth && (numbers.real || numbers.whole))
      wrong = "mixes truth and numbers";
    if (!wrong.empty())
      throw support::UserError(path + ": " + support::quote(name) + " " + wrong);
    OutputTensor &tensor = tensors[name];
    tensor.shape = numbers.shape;
    if (numbers.truth) {
      tensor.dtype = "BOOL";
      tensor.bytes.assign(numbers.ints.begin(), numbers.ints.end());
    } else if (numbers.whole && !numbers.real) {
      tensor.dtype = "I64";
      tensor.bytes = bytesOf(numbers.ints);
    } else {
      tensor.dtype = "F64";
      tensor.bytes = bytesOf(numbers.reals);
    }
  }
  return tensors;
}

// ---- writing

/// Nine digits; what rounding made of a zero is a zero.
static std::string numberText(double x, double largest) {
  if (x == 0 || std::fabs(x) < 1e-15 * largest)
    return "0";
  char text[40];
  std::snprintf(text, sizeof(text), "%.9g", x);
  return text;
}

template <class Number>
static std::string matrices(const std::vector<int64_t> &shape, const std::vector<std::string> &labels, int64_t count,
                            bool real, Number number) {
  int64_t width = shape.empty() ? 1 : shape.back(), height = shape.size() < 2 ? 1 : shape[shape.size() - 2];
  int64_t shown = std::min(count, mostNumbers);
  double largest = 0;
  for (int64_t i = 0; i < shown; ++i)
    if (std::isfinite(number(i)))
      largest = std::max(largest, std::fabs(number(i)));
  std::vector<std::string> cells(shown);
  size_t column = 0;
  for (int64_t i = 0; i < shown; ++i) {
    cells[i] = real ? numberText(number(i), largest) : std::to_string(static_cast<int64_t>(number(i)));
    column = std::max(column, cells[i].size());
  }
  std::string text;
  for (int64_t i = 0; i < shown; ++i) {
    // Each matrix of several is headed by its place in the outer dimensions, of those that have more than one.
    if (i % (width * height) == 0) {
      std::string place;
      int64_t rest = i / (width * height);
      for (int64_t d = static_cast<int64_t>(shape.size()) - 3; d >= 0; rest /= shape[d--])
        if (shape[d] > 1)
          place = (labels[d].empty() ? "[" + std::to_string(d) + "]" : labels[d]) + " = " +
                  std::to_string(rest % shape[d]) + (place.empty() ? "" : ", ") + place;
      if (!place.empty())
        text += "  " + place + "\n";
    }
    text += (i % width == 0 ? "    " : "  ") + std::string(column - cells[i].size(), ' ') + cells[i];
    if ((i + 1) % width == 0 || i + 1 == shown)
      text += "\n";
  }
  if (shown < count)
    text += "    ... " + std::to_string(count) + " numbers in all\n";
  return text;
}

std::string quern::tools::tensorText(const std::string &name, const Array &array) {
  std::string text = name + ": " + std::string(quern::support::kindName(array.getKind())) + " [";
  std::vector<int64_t> shape;
  std::vector<std::string> labels;
  for (const NamedSize &dim : array.getDims()) {
    text += (shape.empty() ? "" : ", ") + dim.name.substr(0, dim.name.find('.')) + " " + std::to_string(dim.size);
    shape.push_back(dim.size);
    labels.push_back(dim.name.substr(0, dim.name.find('.')));
  }
  return text + "]\n" +
         matrices(shape, labels, array.getCount(), array.isReal(), [&](int64_t i) { return array.number(i); });
}

std::string quern::tools::tensorText(const std::string &name, const StoredTensor &tensor) {
  std::string text = support::printable(name) + ": " + tensor.dtype + " [";
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(tensor.shape[i]);
  std::vector<double> numbers = tensor.asDoubles();
  return text + "]\n" +
         matrices(tensor.shape, std::vector<std::string>(tensor.shape.size()), tensor.count, tensor.isFloat(),
                  [&](int64_t i) { return numbers[i]; });
}
