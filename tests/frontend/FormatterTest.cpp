// `quern fmt`: canonical, idempotent, and the same words in the same lines.
#include "Support.h"

#include "frontend/Embedded.h"
#include "frontend/syntax/Lexer.h"

using namespace quern::frontend;
using namespace quern::frontend::testing;

namespace {

std::string formatted(const std::string &text) {
  Diagnostics diagnostics;
  auto out = formatSpec("case.quern", text, diagnostics);
  EXPECT_TRUE(out) << outcomeOf(diagnostics).text;
  return out.value_or("");
}

/// Words, comments, and where lines break.
std::vector<std::string> meaning(const std::string &text) {
  Source source("case.quern", text);
  Diagnostics diagnostics;
  Lexed lexed = lex(source, diagnostics);
  std::vector<std::string> words;
  for (const Token &token : lexed.tokens)
    words.push_back((token.startsLine ? "\n" : "") + std::string(token.text()));
  for (Span comment : lexed.comments)
    words.push_back(std::string(comment.text()));
  return words;
}

TEST(Formatter, PutsSpacesInTheirPlace) {
  EXPECT_EQ(
      formatted(
          "quern   1\nmodel m{\n config{a=1,b  =-2}\n\n\n dim V=a,N=2*V\n"
          "forward ( x:int[B,T] )->[B,T,V]{\n# why\n  y=x [T:1..T->S,B=0] # cut\n zz = (1+ -2)^ - 3  #  more\n"
          "  q = f[A->(H,K)+1] (x,eps :1)@\"a\"|\"b\"\n   if not(a==1){y=y}else{y=[1,2]}\n  return f(a,\nb)\n}\n}\n"),
      R"(quern 1
model m {
  config { a = 1, b = -2 }

  dim V = a, N = 2 * V
  forward(x: int[B, T]) -> [B, T, V] {
    # why
    y = x[T: 1..T -> S, B = 0]  # cut
    zz = (1 + -2) ^ -3          #  more
    q = f[A -> (H, K) + 1](x, eps: 1) @ "a" | "b"
    if not (a == 1) { y = y } else { y = [1, 2] }
    return f(a,
             b)
  }
}
)");
}

TEST(Formatter, KeepsMeaningAndIsIdempotentOnAllSpecs) {
  std::vector<std::pair<std::string, std::string>> texts = {{"std", std::string(standardLibraryText)}};
  for (const EmbeddedSpec &spec : embeddedSpecs())
    texts.emplace_back(spec.name, std::string(spec.text));
  ASSERT_GE(texts.size(), 26u);
  for (const auto &[name, text] : texts) {
    std::string once = formatted(text);
    EXPECT_EQ(once, text) << name << " is not formatted: run quern fmt";
    EXPECT_EQ(formatted(once), once) << name;
    // The same from a badly laid out copy.
    std::string crooked;
    for (char c : text)
      crooked += c == '\n' ? std::string("  \t\r\n   ") : std::string(1, c);
    EXPECT_EQ(meaning(formatted(crooked)), meaning(text)) << name;
    EXPECT_EQ(formatted(crooked), once) << name;
  }
}

TEST(Formatter, RefusesWhatItCannotRead) {
  Diagnostics diagnostics;
  EXPECT_FALSE(formatSpec("case.quern", "quern 1\nmodel m { y = ( }", diagnostics));
  EXPECT_TRUE(diagnostics.hasErrors());
}

} // namespace
