// The tensor type, dimensions by name, and shape inference where operations are built rather than parsed.
#include "tests/ir/Support.h"

#include "mlir/AsmParser/AsmParser.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::ir::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

struct Types : testing::Test {
  Module m{""};
  OpBuilder builder = OpBuilder::atBlockBegin(m.module->getBody());

  NamedTensorType type(StringRef text) {
    auto parsed = dyn_cast_or_null<NamedTensorType>(parseType(("!quern.tensor<" + text + ">").str(), &m.context));
    EXPECT_TRUE(parsed) << text.str() << m.said;
    return parsed;
  }
  Value value(StringRef text) {
    return UnrealizedConversionCastOp::create(builder, builder.getUnknownLoc(), type(text), ValueRange()).getResult(0);
  }
  DimAttr dim(StringRef name, const Size &size) { return DimAttr::get(&m.context, name, size); }
  Location loc() { return builder.getUnknownLoc(); }
};

TEST_F(Types, Dimensions) {
  NamedTensorType t = type("real[B, T, D = 768, N = \"T + past\"]");
  EXPECT_EQ(t.getRank(), 4u);
  EXPECT_EQ(t.find("D"), 2);
  EXPECT_EQ(t.find("E"), -1);
  EXPECT_TRUE(t.has("B"));
  EXPECT_EQ(t.dim("D").getStatic(), 768);
  EXPECT_FALSE(t.dim("N").getStatic());
  EXPECT_EQ(t.dim("N").getSize(), *Size::parse("past + T"));
  EXPECT_FALSE(t.dim("E"));
  EXPECT_EQ(type("real[B, T, D = 4]").elements().str(), "4 * B * T");
  EXPECT_EQ(type("real[]").elements(), Size(1));
}

TEST_F(Types, SetsIgnoreOrder) {
  EXPECT_TRUE(type("real[A = 2, B = 3]").sameSet(type("real[B = 3, A = 2]")));
  EXPECT_FALSE(type("real[A = 2, B = 3]").sameSet(type("int[A = 2, B = 3]")));
  EXPECT_FALSE(type("real[A = 2, B = 3]").sameSet(type("real[A = 2, B = 4]")));
  EXPECT_FALSE(type("real[A = 2, B = 3]").sameSet(type("real[A = 2]")));
  EXPECT_EQ(type("real[A = 2]").withKind(Kind::Bool), type("bool[A = 2]"));
}

TEST_F(Types, CanonicalTextOfSizes) {
  EXPECT_EQ(type("real[N = \"past + T\"]"), type("real[N = \"T + past\"]"));
  EXPECT_EQ(type("real[T = T]"), type("real[T]"));
}

TEST_F(Types, UnionTakesTheWidestOperandFirst) {
  NamedTensorType x = type("real[B, T, D = 4]"), bias = type("real[D = 4, E = 2]");
  auto names = [](std::optional<SmallVector<DimAttr>> dims) {
    std::string text;
    for (DimAttr d : *dims)
      text += d.getName().str() + " ";
    return text;
  };
  EXPECT_EQ(names(unionDims({bias, x})), "B T D E ");
  EXPECT_EQ(names(unionDims({type("real[A = 1]"), type("real[C = 1]")})), "A C ");
  EXPECT_FALSE(unionDims({x, type("real[D = 5]")}));
}

TEST_F(Types, CollectSymbols) {
  std::vector<std::string> symbols = {"T"};
  collectSymbols(type("real[B, T, N = \"T + past\", D = 3]"), symbols);
  EXPECT_THAT(symbols, ElementsAre("T", "B", "past"));
}

TEST_F(Types, InferenceOfBuiltOperations) {
  Value x = value("real[B, T, D = 4]"), w = value("real[O = 8, D = 4]"), p = value("int[B, C = 2]");
  EXPECT_EQ(AddOp::create(builder, loc(), value("int[D = 4]"), x).getType(), type("real[B, T, D = 4]"));
  EXPECT_EQ(AddOp::create(builder, loc(), value("int[T]"), value("int[T]")).getType(), type("int[T]"));
  EXPECT_EQ(ContractOp::create(builder, loc(), x, w, labelArray(builder, {"D"})).getType(), type("real[B, T, O = 8]"));
  EXPECT_EQ(SplitOp::create(builder, loc(), x, "D", builder.getArrayAttr({dim("H", 2), dim("K", 2)})).getType(),
            type("real[B, T, H = 2, K = 2]"));
  EXPECT_EQ(
      MergeOp::create(builder, loc(), x, labelArray(builder, {"T", "D"}), dim("N", Size::symbol("T") * 4)).getType(),
      type("real[B, N = \"4 * T\"]"));
  // What both have (B) stands where the positions have it.
  EXPECT_EQ(GatherOp::create(builder, loc(), x, p, "D").getType(), type("real[T, B, C = 2]"));
  EXPECT_EQ(ConcatOp::create(builder, loc(), ValueRange{x, value("real[D = 4]")}, labelArray(builder, {"D", "D"}),
                             dim("N", 8))
                .getType(),
            type("real[B, T, N = 8]"));
  auto top = TopKOp::create(builder, loc(), x, "D", dim("C", 2));
  EXPECT_EQ(top.getValues().getType(), type("real[B, T, C = 2]"));
  EXPECT_EQ(top.getPositions().getType(), type("int[B, T, C = 2]"));
  EXPECT_EQ(
      RememberOp::create(builder, loc(), x, "T", dim("S", Size::symbol("T") + Size::symbol("past")), "k0").getType(),
      type("real[B, S = \"T + past\", D = 4]"));
  EXPECT_EQ(m.said, "");
}

TEST_F(Types, FailedInferenceNamesItsConstraint) {
  SmallVector<Type> results;
  Value x = value("real[A = 2]"), y = value("real[A = 3]");
  EXPECT_TRUE(failed(
      AddOp::inferReturnTypes(&m.context, loc(), {x, y}, DictionaryAttr(), OpaqueProperties(nullptr), {}, results)));
  EXPECT_THAT(m.said, HasSubstr("elementwise_c1"));
}

TEST_F(Types, StackedParameters) {
  auto param = [&](StringRef name, StringRef text) {
    return ParamOp::create(builder, loc(), type(text), builder.getArrayAttr({builder.getStrArrayAttr({name})}),
                           InitAttr());
  };
  EXPECT_TRUE(param("w", "real[A = 2]").getStacked().empty());
  EXPECT_THAT(param("l.{E}.m.{F}.{E}", "real[F = 2, E = 3, A = 2]").getStacked(), ElementsAre("E", "F"));
}

TEST_F(Types, KernelSymbols) {
  Module kernels(
      R"(quern.kernel @k(%a: !quern.tensor<real[d0 = s1]> #quern.layout<"strided", ["1"]>) -> (#quern.layout<"strided", ["1"]>) {
    %n = quern.size "s0 + s2" : !quern.tensor<int[]>
    %c = quern.cut %a "d0" at "s3" into <d1 = 1> : (!quern.tensor<real[d0 = s1]>) -> !quern.tensor<real[d1 = 1]>
    %r = quern.mul %c, %n : (!quern.tensor<real[d1 = 1]>, !quern.tensor<int[]>) -> !quern.tensor<real[d1 = 1]>
    quern.yield %r : !quern.tensor<real[d1 = 1]>
  })");
  ASSERT_TRUE(kernels.module) << kernels.said;
  EXPECT_THAT(kernels.module->lookupSymbol<KernelOp>("k").getSymbols(), ElementsAre("s0", "s1", "s2", "s3"));
}

} // namespace
