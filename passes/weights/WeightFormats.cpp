// Takes: the text of --quantize. Gives: the format of a parameter, by its name in checkpoints.
#include "passes/weights/WeightFormats.h"

#include "ir/Attributes.h"
#include "support/Glob.h"

#include "llvm/ADT/StringSwitch.h"

#include <stdexcept>

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

static WeightFormat formatOf(StringRef word) {
  std::optional<WeightFormat> format = llvm::StringSwitch<std::optional<WeightFormat>>(word)
                                           .Case("int4", WeightFormat::Int4)
                                           .Case("int8", WeightFormat::Int8)
                                           .Case("bf16", WeightFormat::BF16)
                                           .Case("f32", WeightFormat::F32)
                                           .Default(std::nullopt);
  if (!format)
    throw std::runtime_error("--quantize: '" + word.str() + "' is no format; int8, int4, bf16 or f32 is needed");
  return *format;
}

WeightFormats WeightFormats::parse(StringRef quantize, StringRef precision) {
  WeightFormats result;
  result.precision = result.usual = formatOf(precision);
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

WeightFormat WeightFormats::of(ArrayRef<ParamOp> params, bool sensitive) const {
  WeightFormat start = usual == WeightFormat::Int4 && sensitive ? WeightFormat::Int8 : usual;
  std::optional<WeightFormat> most;
  for (ParamOp param : params)
    for (Attribute turn : param.getPaths()) {
      WeightFormat own = start;
      for (const Rule &rule : rules)
        if (llvm::any_of(cast<ArrayAttr>(turn), [&](Attribute name) {
              return support::matchGlob(rule.glob, cast<StringAttr>(name).getValue());
            }))
          own = rule.format;
      most = std::max(most.value_or(own), own);
    }
  return most.value_or(start);
}
