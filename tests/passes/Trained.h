// A spec compiled for training, and its loss and gradients by the interpreter.
#ifndef QUERN_TESTS_PASSES_TRAINED_H
#define QUERN_TESTS_PASSES_TRAINED_H

#include "ExampleSpecs.h"
#include "Support.h"

#include "ir/Chunk.h"
#include "passes/Phases.h"

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

namespace quern::passes::test {

/// Compiled as far as `to`, with attributes on the module that passes ask for.
class Trained {
public:
  Trained(const ExampleSpec &example, const std::map<std::string, int64_t> &attributes, const std::string &without = "",
          mlir::StringRef to = "")
      : Trained() {
    std::string root = std::getenv("QUERN_SOURCE");
    compile(example.name, textOf(root + "/examples/" + example.spec + ".quern"),
            example.config ? std::optional(textOf(root + "/tests/data/" + example.config + "/config.json"))
                           : std::nullopt,
            example.settings, attributes, without, to);
  }
  /// The text of a spec.
  Trained(const std::string &text, const std::string &without, mlir::StringRef to = "") : Trained() {
    compile("spec", text, std::nullopt, {}, {}, without, to);
  }

  mlir::func::FuncOp function(mlir::StringRef name) { return module->lookupSymbol<mlir::func::FuncOp>(name); }

  std::vector<double> evaluate(mlir::StringRef name, const Program::Inputs &inputs) {
    ir::Interpreter interpreter(*module);
    interpreter.setParameters([](mlir::ArrayRef<std::string> names, mlir::ArrayRef<int64_t> shape) {
      int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
      return std::optional(madeUp(names.front(), count, 0.4));
    });
    mlir::FailureOr<std::vector<ir::Array>> results = interpreter.run(function(name), inputs);
    EXPECT_TRUE(succeeded(results)) << name.str();
    std::vector<double> numbers;
    if (succeeded(results))
      for (const ir::Array &array : *results)
        for (int64_t i = 0; i < array.getCount(); ++i)
          numbers.push_back(array.number(i));
    return numbers;
  }

  int64_t chunkedLoops(mlir::StringRef name) {
    int64_t count = 0;
    function(name).walk([&](ir::RepeatOp loop) { count += ir::chunkOf(loop).has_value(); });
    return count;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;

private:
  Trained() : context(mlir::DialectRegistry(), mlir::MLIRContext::Threading::DISABLED) {
    context.loadDialect<ir::QuernDialect, mlir::func::FuncDialect>();
  }

  void compile(const std::string &name, const std::string &text, const std::optional<std::string> &config,
               const std::vector<std::string> &settings, const std::map<std::string, int64_t> &attributes,
               const std::string &without, mlir::StringRef to) {
    frontend::SpecInput input;
    input.name = name;
    input.text = text;
    input.configText = config;
    for (const std::string &setting : settings)
      input.settings.push_back(*frontend::parseSetting(setting));
    input.train = true;
    frontend::Diagnostics diagnostics;
    module = frontend::elaborate(context, input, diagnostics);
    if (!module)
      return;
    for (const auto &[attribute, number] : attributes)
      (*module)->setAttr(attribute, mlir::Builder(&context).getI64IntegerAttr(number));
    PassOptions options;
    options.without.add(without);
    EXPECT_TRUE(succeeded(runPhases(*module, options, "resolved", to)));
  }

  static std::string textOf(const std::string &path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
};

/// Of all slots of a planned function's arena.
inline int64_t arenaBytes(mlir::func::FuncOp function, int64_t texts, int64_t tokens) {
  int64_t bytes = 0;
  for (mlir::Attribute slot : function->getAttrOfType<mlir::ArrayAttr>("quern.arena")) {
    int64_t most = 0;
    for (mlir::Attribute size : mlir::cast<mlir::ArrayAttr>(slot))
      most = std::max(most, ir::Size::parse(mlir::cast<mlir::StringAttr>(size).getValue())
                                ->evaluate([&](const std::string &symbol) { return symbol == "B" ? texts : tokens; }));
    bytes += most;
  }
  return bytes;
}

inline std::string printed(mlir::func::FuncOp function) {
  std::string text;
  llvm::raw_string_ostream out(text);
  function.print(out);
  return text;
}

} // namespace quern::passes::test
#endif
