// The activations that config.json names, in double precision, against transformers' (tests/data/activations.json).
#include "Support.h"

#include "frontend/Frontend.h"
#include "ir/reference/Interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <nlohmann/json.hpp>

using namespace quern;
using namespace quern::frontend;
using namespace quern::frontend::testing;

TEST(Activations, AreThoseOfTransformers) {
  nlohmann::json golden = nlohmann::json::parse(read(dataDir() / "activations.json"));
  std::vector<double> x = golden["x"];
  std::string text = "quern 1\nmodel m {\n  config { hidden_act = \"\" }\n  loss(x: [N]) -> [N] {\n"
                     "    return activation(x, hidden_act)\n  }\n}\n";
  ASSERT_GE(golden["values"].size(), 20u);
  for (const auto &[name, wanted] : golden["values"].items()) {
    mlir::MLIRContext context;
    SpecInput input;
    input.name = "case.quern";
    input.text = text;
    input.settings = {{"hidden_act", name}};
    Diagnostics diagnostics;
    auto module = elaborate(context, input, diagnostics);
    ASSERT_TRUE(module) << name << outcomeOf(diagnostics).text;
    ir::Interpreter interpreter(*module);
    auto out = interpreter.run(module->lookupSymbol<mlir::func::FuncOp>("loss"),
                               {{"x", ir::Array({{"N", int64_t(x.size())}}, x)}});
    ASSERT_TRUE(mlir::succeeded(out)) << name;
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR((*out)[0].number(int64_t(i)), wanted[i].get<double>(), 1e-9) << name << " of " << x[i];
  }
}
