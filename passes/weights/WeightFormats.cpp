// Takes: the text of --quantize. Gives: the format of a parameter, by its name in checkpoints.
#include "passes/weights/WeightFormats.h"

#include "ir/Attributes.h"
#include "support/Glob.h"

#include "llvm/ADT/StringSwitch.h"

#include <stdexcept>

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

static ProductFormat formatOf(StringRef word) {
  std::optional<ProductFormat> format = llvm::StringSwitch<std::optional<ProductFormat>>(word)
                                            .Case("int4", ProductFormat{WeightFormat::Int4})
                                            .Case("int8", ProductFormat{WeightFormat::Int8})
                                            .Case("w4a8", ProductFormat{WeightFormat::Int4, RowFormat::Int8})
                                            .Case("w8a8", ProductFormat{WeightFormat::Int8, RowFormat::Int8})
                                            .Case("w16a16", ProductFormat{WeightFormat::BF16, RowFormat::BF16})
                                            .Case("bf16", ProductFormat{WeightFormat::BF16})
                                            .Case("f32", ProductFormat{WeightFormat::F32})
                                            .Default(std::nullopt);
  if (!format)
    throw std::runtime_error("--quantize: '" + word.str() +
                             "' is no format; int8, int4, w8a8, w4a8, w16a16, bf16 or f32 is needed");
  return *format;
}

WeightFormats WeightFormats::parse(StringRef quantize, StringRef precision) {
  WeightFormats result;
  result.usual = formatOf(precision);
  result.precision = result.usual.weight;
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

WeightFormats WeightFormats::of(ModuleOp module) {
  auto text = [&](StringRef name) {
    auto attr = module->getAttrOfType<StringAttr>(name);
    return attr ? attr.getValue() : StringRef();
  };
  StringRef precision = text(precisionAttr);
  return parse(text(quantizeAttr), precision.empty() ? "f32" : precision);
}

ProductFormat WeightFormats::of(ArrayRef<ParamOp> params, bool sensitive) const {
  ProductFormat start = usual;
  if (start.weight == WeightFormat::Int4 && sensitive)
    start.weight = WeightFormat::Int8;
  std::optional<ProductFormat> most;
  for (ParamOp param : params)
    for (Attribute turn : param.getPaths()) {
      ProductFormat own = start;
      for (const Rule &rule : rules)
        if (llvm::any_of(cast<ArrayAttr>(turn), [&](Attribute name) {
              return support::matchGlob(rule.glob, cast<StringAttr>(name).getValue());
            }))
          own = rule.format;
      if (!most)
        most = own;
      most->weight = std::max(most->weight, own.weight);
      most->rows = std::max(most->rows, own.rows);
    }
  return most.value_or(start);
}
