// Polynomials over run-time lengths.
#include "ir/Derived.h"

#include <gmock/gmock.h>

using quern::ir::Derived;
using quern::ir::Size;
using testing::ElementsAre;

namespace {

Size size(const char *text) {
  std::optional<Size> parsed = Size::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(Size());
}

TEST(Size, OneCanonicalText) {
  for (auto [text, canonical] :
       {std::pair("0", "0"), std::pair("768", "768"), std::pair("T", "T"), std::pair("1*T", "T"),
        std::pair("past + T", "T + past"), std::pair("1 + T*2 + 3", "2 * T + 4"), std::pair("-T", "-T"),
        std::pair("T - T", "0"), std::pair("T * S * 2", "2 * S * T"), std::pair("T * T - 1", "T * T - 1"),
        std::pair("0 * T", "0"), std::pair("K.3", "K.3")})
    EXPECT_EQ(size(text).str(), canonical) << text;
}

TEST(Size, TextThatIsNoPolynomial) {
  for (const char *text :
       {"", " ", "T +", "+ T", "T T", "2T", "T /2", "(T)", "T *", "- ", "T + + S", "99999999999999999999"})
    EXPECT_FALSE(Size::parse(text)) << text;
}

TEST(Size, EveryTextReadsBack) {
  for (const char *text : {"T + past", "2 * T - 1", "-3 * S * T + T - 7", "S * S * T", "T + filled(256)",
                           "2 * B * chunk(48, B * T) - room(8)", "3 * min(8, 2 * B * T + 1) * T"})
    EXPECT_EQ(Size::parse(size(text).str()), size(text));
}

TEST(Size, LengthsThatFollowFromOthersHaveParts) {
  Size iteration = Derived{Derived::Form::Chunk, 48, size("T * B")}.size();
  EXPECT_EQ(iteration.str(), "chunk(48, B * T)");
  EXPECT_EQ(size("chunk(48,T*B)"), iteration) << "one canonical text";
  std::optional<Derived> read = Derived::read(*iteration.asSymbol());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->form, Derived::Form::Chunk);
  EXPECT_EQ(read->number, 48);
  EXPECT_EQ(read->of, size("B * T"));
  EXPECT_FALSE(Derived::read(*iteration.asSymbol(), Derived::Form::Min));
  EXPECT_FALSE(Derived::read("chunk.48.B.T")) << "a name has no parts";
  Size nested = Derived{Derived::Form::Min, 8, iteration + Size(1)}.size();
  EXPECT_EQ(size(nested.str().c_str()), nested);
  for (const char *text : {"filled()", "filled(0)", "filled(T)", "filled(3, T)", "filled(3", "chunk(3)", "chunk(3,)",
                           "chunk(0, T)", "min(-1, T)", "min(3, T))", "most(3, T)", "(3, T)"})
    EXPECT_FALSE(Size::parse(text)) << text;
}

TEST(Size, Arithmetic) {
  EXPECT_EQ(size("T") + size("T"), size("2 * T"));
  EXPECT_NE(size("T"), size("S"));
  EXPECT_EQ((size("T + 1") * size("T - 1")).str(), "T * T - 1");
  EXPECT_EQ(size("T") - size("T + 3"), Size(-3));
}

TEST(Size, DivisionIsExact) {
  EXPECT_EQ(size("4 * T + 8").divided(4), size("T + 2"));
  EXPECT_FALSE(size("4 * T + 2").divided(4));
  EXPECT_EQ(size("64 * T").divided(size("T")), Size(64));
  EXPECT_EQ(size("64 * T").divided(size("32 * T")), Size(2));
  EXPECT_FALSE(size("64 * T").divided(size("S")));
  EXPECT_EQ(size("T + 1").divided(size("T + 1")), Size(1));
  EXPECT_FALSE(size("T + 1").divided(Size(0))) << "nothing divides by 0";
  EXPECT_FALSE(Size(0).divided(Size(0)));
  EXPECT_EQ(Size(0).divided(3), Size(0));
}

TEST(Size, Questions) {
  EXPECT_EQ(size("3 + 4").constant(), 7);
  EXPECT_FALSE(size("T").constant());
  EXPECT_EQ(size("T").asSymbol(), "T");
  EXPECT_FALSE(size("2 * T").asSymbol());
  EXPECT_FALSE(size("5").asSymbol());
  EXPECT_THAT(size("T * S + past").symbols(), ElementsAre("S", "T", "past"));
  EXPECT_TRUE(size("T * S").mentions("S"));
  EXPECT_FALSE(size("T").mentions("past"));
}

TEST(Size, EvaluateAndSubstitute) {
  auto lookup = [](const std::string &name) { return name == "T" ? 5 : 3; };
  EXPECT_EQ(size("2 * T * T - past").evaluate(lookup), 47);
  EXPECT_EQ(size("T + S").substitute({{"T", size("past + T")}}), size("T + past + S"));
  EXPECT_EQ(size("T * T").substitute({{"T", size("S + 1")}}).str(), "S * S + 2 * S + 1");
}

} // namespace
