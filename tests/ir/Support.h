// A module from text with its diagnostics kept, and short ways to make and read arrays.
#ifndef QUERN_TESTS_IR_SUPPORT_H
#define QUERN_TESTS_IR_SUPPORT_H

#include "ir/reference/Interpreter.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace quern::ir::test {

constexpr double inf = std::numeric_limits<double>::infinity();
const double notANumber = std::numeric_limits<double>::quiet_NaN();

struct Module {
  explicit Module(llvm::StringRef text)
      : context(mlir::DialectRegistry(), mlir::MLIRContext::Threading::DISABLED),
        handler(&context, [this](mlir::Diagnostic &diagnostic) { said += diagnostic.str() + "\n"; }) {
    context.loadDialect<QuernDialect, mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }
  mlir::func::FuncOp function(llvm::StringRef name = "f") { return module->lookupSymbol<mlir::func::FuncOp>(name); }

  mlir::MLIRContext context;
  std::string said;
  mlir::ScopedDiagnosticHandler handler;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

inline Array reals(std::vector<NamedSize> dims, std::vector<double> numbers) {
  return Array(dims, numbers);
}
inline Array ints(std::vector<NamedSize> dims, std::vector<int64_t> numbers) {
  return Array(Kind::Int, dims, numbers);
}
inline Array bools(std::vector<NamedSize> dims, std::vector<int64_t> numbers) {
  return Array(Kind::Bool, dims, numbers);
}
inline std::vector<double> numbersOf(const Array &array) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < array.getCount(); ++i)
    numbers.push_back(array.number(i));
  return numbers;
}

/// `func @f` with arguments named a, b, c ... of the types given, whose body is `text` and ends by returning %r.
/// Returns %r's numbers for `arguments`, or nothing after a diagnostic (then `said` has it).
struct Evaluated {
  std::vector<double> numbers;
  std::string said;
};
inline Evaluated evaluate(std::vector<std::pair<std::string, Array>> arguments, llvm::StringRef body,
                          llvm::StringRef resultType, std::map<std::string, int64_t> bound = {}) {
  std::string text = "func.func @f(";
  Interpreter::Inputs inputs;
  char name = 'a';
  for (const auto &[type, array] : arguments) {
    text += (name == 'a' ? "" : ", ") + std::string("%") + name + ": !quern.tensor<" + type + "> {quern.name = \"" +
            name + "\"}";
    inputs[std::string(1, name++)] = array;
  }
  text += ") -> !quern.tensor<" + resultType.str() + "> {\n" + body.str() + "\nreturn %r : !quern.tensor<" +
          resultType.str() + ">\n}";
  Module module(text);
  if (!module.module)
    return {{}, module.said + text};
  Interpreter interpreter(*module.module);
  for (const auto &[symbol, value] : bound)
    interpreter.bind(symbol, value);
  auto results = interpreter.run(module.function(), inputs);
  if (failed(results))
    return {{}, module.said};
  return {numbersOf(results->at(0)), module.said};
}

} // namespace quern::ir::test
#endif
