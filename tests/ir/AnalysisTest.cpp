// What several rooms ask of the IR: lengths that choices count with, roles of functions, lines of specs.
#include "ir/analysis/AssumedLengths.h"
#include "ir/analysis/Functions.h"
#include "ir/analysis/SourceLines.h"
#include "tests/ir/Support.h"

#include "mlir/IR/Location.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::ir::test;

TEST(Analysis, LengthsThatChoicesCountWith) {
  EXPECT_EQ(assumedLength("B"), 1);
  EXPECT_EQ(assumedLength("T"), 512);
  EXPECT_EQ(assumedLength("past"), 512);
  EXPECT_EQ(assumedLength("cap"), 1024);
  EXPECT_EQ(assumedLength("filled(256)"), 256);
  EXPECT_EQ(assumedLength("filled(4096)"), 512);
  EXPECT_EQ(assumedLength("room(256)"), 768);
  EXPECT_EQ(assumedLength("chunk(48, B * T)"), 48);
  EXPECT_EQ(assumedLength("chunk(4096, B * T)"), 512);
  EXPECT_EQ(atAssumedLengths(*Size::parse("4 * B * T + past")), 4 * 512 + 512);
}

TEST(Analysis, RolesNotNamesSayWhatAFunctionIs) {
  Module m(R"(
    func.func @forward() { return }
    func.func @other() attributes {quern.role = #quern.role<last, @forward>} { return }
    func.func @forward.epoch() { return }
    func.func @e() attributes {quern.role = #quern.role<epoch, @forward>} { return }
    func.func @update.sgd() attributes {quern.role = #quern.role<update>} { return })");
  ModuleOp module = *m.module;
  auto named = [&](StringRef name) { return module.lookupSymbol<func::FuncOp>(name); };
  EXPECT_EQ(formOf(module, "forward", Role::Last), named("other"));
  EXPECT_EQ(formOf(module, "forward", Role::Step), func::FuncOp());
  EXPECT_EQ(originOf(named("other")), "forward");
  EXPECT_EQ(originOf(named("forward")), "forward");
  EXPECT_FALSE(isEpoch(named("forward.epoch")));
  EXPECT_TRUE(isEpoch(named("e")));
  EXPECT_EQ(roleOf(named("forward")), std::nullopt);
  EXPECT_EQ(roleOf(named("update.sgd")), Role::Update);
}

TEST(Analysis, LinesOfSpecs) {
  MLIRContext context;
  auto line = [&](StringRef file, unsigned number) -> Location {
    return FileLineColLoc::get(&context, file, number, 3);
  };
  Location library =
      CallSiteLoc::get(line("std.quern", 7), CallSiteLoc::get(line("a/m.quern", 2), line("a/m.quern", 9)));
  EXPECT_EQ(linesOf(library), std::pair(std::string("a/m.quern:2:3"), std::string("std.quern:7:3")));
  EXPECT_EQ(callerOf(library), "m.quern:9:3");
  EXPECT_EQ(linesOf(line("a/m.quern", 2)).second, "");
  EXPECT_EQ(linesOf(UnknownLoc::get(&context)).first, "?");
  EXPECT_EQ(callerOf(UnknownLoc::get(&context)), "");
  EXPECT_EQ(sourceLines(FusedLoc::get(&context, {library, line("b.quern", 1)}), LineOrder::CallerFirst).size(), 4u);
}
