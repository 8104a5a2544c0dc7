// Takes: a module's attributes, which the verifier has looked at. Gives: options; and back.
#include "ir/analysis/Options.h"

#include "ir/Attributes.h"

using namespace mlir;
using namespace quern::ir;

ProgramOptions quern::ir::optionsOf(ModuleOp module) {
  ProgramOptions options;
  auto text = [&](StringRef name) {
    auto attr = module->getAttrOfType<StringAttr>(name);
    return attr ? attr.getValue() : StringRef();
  };
  auto storage = [&](StringRef name) { return quern::support::storageByName(text(name)).value_or(Storage::F32); };
  auto number = [&](StringRef name) {
    auto attr = module->getAttrOfType<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  };
  options.train = module->hasAttr(trainAttr);
  options.precision = storage(precisionAttr);
  options.caches = storage(cachePrecisionAttr);
  options.cachesOfSteps = module->hasAttr(cachesOfStepsAttr);
  options.quantize = text(quantizeAttr).str();
  options.lora = text(loraAttr).str();
  if (auto scale = module->getAttrOfType<FloatAttr>(loraScaleAttr))
    options.loraScale = scale.getValueAsDouble();
  if (auto price = module->getAttrOfType<FloatAttr>(priceAttr))
    options.savingPrice = price.getValueAsDouble();
  options.segmentIterations = number(segmentIterationsAttr);
  options.chunkRows = number(chunkRowsAttr);
  return options;
}

void quern::ir::setOptions(ModuleOp module, const ProgramOptions &options) {
  Builder builder(module.getContext());
  auto set = [&](StringRef name, bool asked, auto make) {
    if (asked)
      module->setAttr(name, make());
    else
      module->removeAttr(name);
  };
  auto storage = [&](StringRef name, Storage storage) {
    set(name, storage != Storage::F32, [&] { return builder.getStringAttr(quern::support::storageName(storage)); });
  };
  auto number = [&](StringRef name, int64_t number) {
    set(name, number != 0, [&] { return builder.getI64IntegerAttr(number); });
  };
  set(trainAttr, options.train, [&] { return builder.getUnitAttr(); });
  storage(precisionAttr, options.precision);
  storage(cachePrecisionAttr, options.caches);
  set(cachesOfStepsAttr, options.cachesOfSteps, [&] { return builder.getUnitAttr(); });
  set(quantizeAttr, !options.quantize.empty(), [&] { return builder.getStringAttr(options.quantize); });
  set(loraAttr, !options.lora.empty(), [&] { return builder.getStringAttr(options.lora); });
  set(loraScaleAttr, options.loraScale != 2, [&] { return builder.getF64FloatAttr(options.loraScale); });
  set(priceAttr, options.savingPrice != 0, [&] { return builder.getF64FloatAttr(options.savingPrice); });
  number(segmentIterationsAttr, options.segmentIterations);
  number(chunkRowsAttr, options.chunkRows);
}
