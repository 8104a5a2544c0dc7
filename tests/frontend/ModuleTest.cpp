// The module that comes out: functions, attributes, names, locations, loops.
#include "Support.h"

#include "frontend/Frontend.h"
#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <nlohmann/json.hpp>

using namespace quern;
using namespace quern::frontend;
using namespace quern::frontend::testing;

namespace {

struct Built {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  explicit Built(const std::string &text, std::optional<std::string> config = {}) {
    SpecInput input;
    input.name = "case.quern";
    input.text = text;
    input.configText = std::move(config);
    Diagnostics diagnostics;
    module = elaborate(context, input, diagnostics);
    EXPECT_TRUE(module) << outcomeOf(diagnostics).text;
  }
  std::string str() {
    std::string out;
    llvm::raw_string_ostream stream(out);
    module->print(stream);
    return out;
  }
  mlir::func::FuncOp function(llvm::StringRef name) { return module->lookupSymbol<mlir::func::FuncOp>(name); }
  template <typename Op> std::vector<Op> all() {
    std::vector<Op> ops;
    module->walk([&](Op op) { ops.push_back(op); });
    return ops;
  }
};

std::string example(const std::string &name) {
  return read(sourceDir() / "examples" / (name + ".quern"));
}

TEST(Module, EveryFixtureVerifiesAndRoundTrips) {
  for (const auto &[fixture, name] : fixtures())
    for (const char *config : {"config.json", "config.v4.json"}) {
      Built built(example(name), read(dataDir() / fixture / config));
      ASSERT_TRUE(built.module) << fixture;
      EXPECT_TRUE(mlir::succeeded(mlir::verify(*built.module)));
      std::string text = built.str();
      auto again = mlir::parseSourceString<mlir::ModuleOp>(text, &built.context);
      ASSERT_TRUE(again) << fixture;
      std::string printed;
      llvm::raw_string_ostream stream(printed);
      again->print(stream);
      EXPECT_EQ(printed, text) << fixture;
    }
}

TEST(Module, ArchitecturesBeyondTheExamplesVerify) {
  for (const auto &entry : std::filesystem::directory_iterator(sourceDir() / "tests/frontend/specs"))
    Built built(read(entry.path()));
}

TEST(Module, FunctionsCarryNamesDefaultsTimeAndBatch) {
  Built built(example("bert"));
  auto forward = built.function("forward");
  ASSERT_TRUE(forward);
  EXPECT_EQ(forward->getAttrOfType<ir::LabelAttr>("quern.time").getName(), "T");
  EXPECT_EQ(forward->getAttrOfType<ir::LabelAttr>("quern.batch").getName(), "B");
  EXPECT_EQ(forward.getArgAttrOfType<mlir::StringAttr>(1, "quern.name").str(), "mask");
  EXPECT_EQ(forward.getArgAttrOfType<mlir::FlatSymbolRefAttr>(1, "quern.default").getValue(), "forward.default.mask");
  EXPECT_FALSE(forward.getArgAttr(0, "quern.default"));
  EXPECT_EQ(forward.getResultAttrOfType<mlir::StringAttr>(0, "quern.name").str(), "logits");
  auto mask = built.function("forward.default.mask");
  ASSERT_TRUE(mask);
  EXPECT_EQ(mask.getNumArguments(), 0u);
  EXPECT_EQ(mask.getResultTypes()[0], forward.getArgumentTypes()[1]);
  EXPECT_TRUE(built.function("loss"));
}

TEST(Module, CarriesConfigAndIgnoredTensors) {
  Built built(example("gpt2"), read(dataDir() / "gpt2" / "config.json"));
  EXPECT_EQ((*built.module)->getAttrOfType<mlir::StringAttr>("quern.model").str(), "gpt2");
  auto config = nlohmann::json::parse((*built.module)->getAttrOfType<mlir::StringAttr>("quern.config").str());
  EXPECT_EQ(config["n_embd"], 48);
  EXPECT_EQ(config["n_inner"], 192);
  auto file = nlohmann::json::parse((*built.module)->getAttrOfType<mlir::StringAttr>("quern.file_config").str());
  EXPECT_EQ(file["model_type"], "gpt2");
  EXPECT_NE(built.str().find("*.attn.bias"), std::string::npos);
  EXPECT_NE(built.str().find("*.rotary_emb.inv_freq"), std::string::npos);
}

TEST(Module, NamesAreTriedInOrder) {
  Built built(example("gpt2"), read(dataDir() / "gpt2" / "config.json"));
  std::string text = built.str();
  EXPECT_NE(text.find(R"([["transformer.wte.weight", "wte.weight"]])"), std::string::npos);
  EXPECT_NE(
      text.find(
          R"([["transformer.h.1.ln_1.weight", "transformer.h.1.ln_1.gamma", "h.1.ln_1.weight", "h.1.ln_1.gamma"]])"),
      std::string::npos);
}

TEST(Module, EveryIterationIsALoopOfItsOwn) {
  Built built(example("mistral"), read(dataDir() / "mistral" / "config.json"));
  auto loops = built.all<ir::RepeatOp>();
  ASSERT_EQ(loops.size(), 3u);
  for (ir::RepeatOp loop : loops) {
    EXPECT_EQ(loop.getIterations(), 1);
    EXPECT_EQ(loop.getInits().size(), 1u);
  }
  // Equal iterations are equal text but for parameters' names: labels are counted alike.
  auto text = [](ir::RepeatOp loop) {
    std::string out;
    loop.getBlock().walk([&](mlir::Operation *op) {
      out += op->getName().getStringRef().str();
      for (mlir::Type type : op->getResultTypes()) {
        llvm::raw_string_ostream stream(out);
        stream << type;
      }
    });
    return out;
  };
  EXPECT_EQ(text(loops[0]), text(loops[1]));
}

TEST(Module, ExpertsLeadTheType) {
  Built built(example("mixtral"), read(dataDir() / "mixtral" / "config.json"));
  std::string text = built.str();
  EXPECT_NE(text.find(R"([["model.layers.0.block_sparse_moe.experts.{E}.w1.weight"]])"), std::string::npos);
  for (ir::ParamOp param : built.all<ir::ParamOp>())
    if (!param.getStacked().empty()) {
      EXPECT_EQ(param.getType().getDims()[0].getName(), "E");
    }
}

TEST(Module, LocationsLeadToTheAuthorsLine) {
  Built built(example("llama"), read(dataDir() / "llama" / "config.json"));
  built.module->walk([&](mlir::Operation *op) {
    EXPECT_FALSE(llvm::isa<mlir::UnknownLoc>(op->getLoc())) << op->getName().getStringRef().str();
    mlir::Location at = op->getLoc();
    if (auto named = llvm::dyn_cast<mlir::NameLoc>(at))
      at = named.getChildLoc();
    while (auto call = llvm::dyn_cast<mlir::CallSiteLoc>(at))
      at = call.getCaller();
    auto line = llvm::dyn_cast<mlir::FileLineColLoc>(at);
    ASSERT_TRUE(line);
    EXPECT_EQ(line.getFilename().str(), "case.quern");
  });
  auto params = built.all<ir::ParamOp>();
  auto named = llvm::dyn_cast<mlir::NameLoc>(params[1].getLoc());
  ASSERT_TRUE(named);
  EXPECT_EQ(named.getName().str(), "model.layers.0.input_layernorm.weight");
}

TEST(Module, ContractionsAreRecognised) {
  Built built(body("y = sum[D](x * x * e)\nx = x + sum[V](y * e)"));
  EXPECT_EQ(built.all<ir::ContractOp>().size(), 3u);
  EXPECT_EQ(built.all<ir::ReduceOp>().size(), 0u);
}

TEST(Module, ResultsAreStoredAsDeclared) {
  Built built("quern 1\nmodel m {\n  forward(x: [B, T]) -> [T, B] { return x }\n}\n");
  EXPECT_EQ(built.all<ir::PermuteOp>().size(), 1u);
}

TEST(Module, TimeGoesThroughBlocksUnrenamed) {
  // A mask can be compared with the caller's positions only if a block's formals are the caller's dimensions of time.
  for (const auto &[fixture, name] : fixtures()) {
    Built built(example(name), read(dataDir() / fixture / "config.json"));
    // In loss, forward is inlined and its own dimensions have numbers; so are both towers in forward of texts with images.
    auto inlines = [&](mlir::Operation *op) {
      auto function = op->getParentOfType<mlir::func::FuncOp>().getName();
      return function == "loss" || (function == "forward" && built.function("text"));
    };
    for (ir::IndexOp index : built.all<ir::IndexOp>())
      if (!index.getDim().getSize().isConstant() && !inlines(index)) {
        EXPECT_FALSE(index.getDim().getName().contains('.')) << fixture << " " << index.getDim().getName().str();
      }
    for (ir::RenameOp rename : built.all<ir::RenameOp>())
      for (ir::DimAttr to : rename.getTo().getAsRange<ir::DimAttr>())
        if (!to.getSize().isConstant() && !inlines(rename)) {
          EXPECT_FALSE(to.getName().contains('.')) << fixture << " " << to.getName().str();
        }
  }
}

TEST(Module, WhatNothingUsesIsGone) {
  Built built("quern 1\nmodel m {\n  dim V = 2\n  param a: [V] @ \"a\"\n  param b: [V] @ \"b\"\n"
              "  forward(x: [B, T]) -> [B, T] { return x + sum[V](a) }\n"
              "  other(x: [B, T]) -> [B, T] { return x + sum[V](b) }\n}\n");
  EXPECT_EQ(built.all<ir::ParamOp>().size(), 2u);
}

} // namespace
