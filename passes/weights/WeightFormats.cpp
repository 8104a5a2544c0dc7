// Takes: the text of --quantize. Gives: the format of a parameter, by its name in checkpoints.
#include "passes/weights/WeightFormats.h"

#include "support/Glob.h"

#include <stdexcept>

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

/// Any other is the name of a storage of reals, perhaps with what rows become.
constexpr std::pair<const char *, ProductFormat> namedFormats[] = {
    {"w4a8", {Storage::Int4, Storage::Int8}},   {"w8a8", {Storage::Int8, Storage::Int8}},
    {"w4a16", {Storage::Int4, Storage::BF16}},  {"w8a16", {Storage::Int8, Storage::BF16}},
    {"w16a16", {Storage::BF16, Storage::BF16}}, {"w8a8_g128", {Storage::Int8G128, Storage::Int8}},
};
constexpr std::pair<llvm::StringLiteral, Storage> rowSuffixes[] = {{"+a8", Storage::Int8}, {"+a16", Storage::BF16}};

static StringRef suffixOf(Storage rows) {
  for (const auto &[suffix, rounded] : rowSuffixes)
    if (rows == rounded)
      return suffix;
  return "";
}

/// Whether rows that a weight multiplies can become so: codes of integers are multiplied with integers.
static bool canRound(Storage weight, Storage rows) {
  const bool codes = bitsOfCode(weight);
  return rows == Storage::BF16 ? codes || weight == Storage::BF16 : codes && !quern::support::floatCodesOf(weight);
}

static std::optional<ProductFormat> findFormat(StringRef word) {
  for (const auto &[suffix, rows] : rowSuffixes)
    if (word.consume_back(suffix)) {
      std::optional<ProductFormat> format = findFormat(word);
      if (!format || format->rows != Storage::F32 || !canRound(format->weight, rows))
        return std::nullopt;
      return ProductFormat{format->weight, rows};
    }
  for (const auto &[name, format] : namedFormats)
    if (word == name)
      return format;
  std::optional<Storage> storage = quern::support::storageByName(word);
  return storage && kindOf(*storage) == Kind::Real ? std::optional(ProductFormat{*storage}) : std::nullopt;
}

std::string quern::passes::nameOf(ProductFormat format) {
  for (const auto &[name, known] : namedFormats)
    if (known == format)
      return name;
  return quern::support::storageName(format.weight) + suffixOf(format.rows).str();
}

bool quern::passes::isFormat(StringRef word) {
  return findFormat(word).has_value();
}

std::string quern::passes::withRows(StringRef quantize, Storage rows) {
  std::string result;
  SmallVector<StringRef> parts;
  quantize.split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  const StringRef suffix = suffixOf(rows);
  for (StringRef part : parts) {
    std::optional<ProductFormat> format = findFormat(part.contains('=') ? part.rsplit('=').second : part);
    const bool rounds = format && format->rows == Storage::F32 && canRound(format->weight, rows);
    result += (result.empty() ? "" : ",") + part.str() + (rounds ? suffix.str() : "");
  }
  return result;
}

static ProductFormat formatOf(StringRef word) {
  if (std::optional<ProductFormat> format = findFormat(word))
    return *format;
  throw std::runtime_error("--quantize: '" + word.str() + "' is no format; " + formatNames + " is needed");
}

WeightFormats WeightFormats::parse(StringRef quantize, Storage precision) {
  WeightFormats result;
  result.usual.weight = result.precision = precision;
  SmallVector<StringRef> parts;
  quantize.split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    auto [glob, word] = part.rsplit('=');
    if (part.contains('='))
      result.rules.push_back({glob.str(), formatOf(word)});
    else if (part == parts[0])
      result.usual = formatOf(part);
    else
      throw std::runtime_error("--quantize: '" + part.str() + "' is no GLOB=FORMAT; the format of all comes first");
  }
  return result;
}

/// What holds the numbers of both: f32 for bf16 and f16, as each lacks some of the other's, for codes that are floats beside
/// anything else, and for super-blocks beside anything but others of their length; of these the ones with more bits, unless their
/// groups are larger. Long groups of int8 are short ones with the same scales.
static Storage ofMostBits(Storage a, Storage b) {
  auto lengthOf = [](Storage storage) {
    const quern::support::SuperBlocks *form = quern::support::superBlocksOf(storage);
    return form ? form->length : 0;
  };
  auto isFloats = [](Storage storage) { return quern::support::floatCodesOf(storage) != nullptr; };
  if (lengthOf(a) != lengthOf(b) || (a != b && ((isNarrow(a) && isNarrow(b)) || isFloats(a) || isFloats(b))))
    return Storage::F32;
  if (a != b && bitsOfCode(a) && bitsOfCode(b) && (a == Storage::Int8G128 || b == Storage::Int8G128))
    return Storage::Int8;
  const auto [more, less] =
      quern::support::formOf(a).bits >= quern::support::formOf(b).bits ? std::pair(a, b) : std::pair(b, a);
  return groupOf(more) <= groupOf(less) ? more : Storage::F32;
}

bool quern::passes::fitsOneName(const std::string &glob, Attribute iteration) {
  return llvm::any_of(cast<ArrayAttr>(iteration), [&](Attribute name) {
    return quern::support::matchGlob(glob, cast<StringAttr>(name).getValue());
  });
}

bool WeightFormats::narrows() const {
  return usual.weight != Storage::F32 ||
         llvm::any_of(rules, [](const Rule &rule) { return rule.format.weight != Storage::F32; });
}

bool WeightFormats::roundsRows() const {
  return usual.rows != Storage::F32 ||
         llvm::any_of(rules, [](const Rule &rule) { return rule.format.rows != Storage::F32; });
}

std::optional<ProductFormat> WeightFormats::named(ParamOp table) const {
  std::optional<ProductFormat> format;
  for (Attribute iteration : table.getPaths())
    for (const Rule &rule : rules)
      if (rule.glob != "*" && fitsOneName(rule.glob, iteration))
        format = rule.format;
  return table.getIterations() == 1 ? format : std::nullopt;
}

ProductFormat WeightFormats::of(ArrayRef<ParamOp> params, bool sensitive) const {
  ProductFormat start = usual;
  if (int bits = bitsOfCode(start.weight); sensitive && bits && bits < 6)
    start.weight = quern::support::superBlocksOf(start.weight) ? Storage::Q6K : Storage::Int8;
  std::optional<ProductFormat> most;
  for (ParamOp param : params)
    for (Attribute iteration : param.getPaths()) {
      ProductFormat own = start;
      for (const Rule &rule : rules)
        if (fitsOneName(rule.glob, iteration))
          own = rule.format;
      if (!most)
        most = own;
      most->weight = ofMostBits(most->weight, own.weight);
      most->rows = ofMostBits(most->rows, own.rows);
    }
  return most.value_or(start);
}

ProductFormat WeightFormats::ofMatrix(ParamOp param) const {
  return typeOf(param.getResult()).getRank() > 1 ? of(param, /*sensitive=*/false) : ProductFormat();
}
