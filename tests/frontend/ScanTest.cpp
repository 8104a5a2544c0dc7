// Wrong scans and what is said about them; what scans mean by the laws they keep is in SemanticsTest.cpp.
#include "Support.h"

using namespace quern::frontend;
using namespace quern::frontend::testing;

namespace {

struct WrongScan {
  const char *name, *lines, *codes, *words = "", *blocks = "";
};

const std::vector<WrongScan> wrongScans = {
    {"scan without a state", "scan T { y = x * 2 }\nx = x + y", "Q039",
     "this scan carries nothing: no value that was there before without T is assigned in it"},
    {"scan that misses its state", "h: [B, D] = 0\nscan T {\n g = 0.5 * h + x\n y = g\n}\nx = x + y", "Q039"},
    {"state without a type", "h = 0\nscan T {\n h = 0.5 * h + x\n y = h\n}\nx = x + y", "Q033",
     "'h' enters the scan as int [] and leaves as real [B, D]; declare it: h: [B, D] = 0"},
    {"state lacks a dimension", "h: [D] = 0\nscan T {\n h = 0.5 * h + x\n y = h\n}\nx = x + y", "Q033"},
    {"state loses a dimension", "h: [B, D, K] = 0\nscan T {\n h = x\n y = sum[K](h)\n}\nx = x + y", "Q033 Q021"},
    {"integer state turns real", "h: int[B, D] = 0\nscan T {\n h = h + x\n y = h\n}\nx = x + y", "Q033"},
    {"real number for an integer state", "h: int[B, D] = 0.5\nx = x + h", "Q025"},
    {"state unknown", "scan T {\n h = 0.5 * h + x\n y = h\n}\nx = x + y", "Q010",
     "unknown name 'h'; a state needs a value before the scan: h: [...] = 0"},
    {"sum over the scanned", "h: [B, D] = 0\nscan T {\n h = h + sum[T](x)\n y = h\n}\nx = x + y", "Q037",
     "T is being scanned: inside, values stand at one position and have no dimension T"},
    {"rename of the scanned", "dim S = T\nh: [B, D] = 0\nscan T {\n h = h + sum[S](x[T -> S])\n y = h\n}\nx = x + y",
     "Q037"},
    {"twin used in a scan",
     "dim S = T\nz = x[T -> S]\nh: [B, D] = 0\nscan T {\n h = h + sum[S](z)\n y = h\n}\nx = x + y", "Q037",
     "'z' has S, a twin of T: it holds all positions, and a scan sees them one after the other"},
    {"twin made in a scan",
     "h: [B, D] = 0\nscan T {\n dim S = T\n h = h + x * sum[S](real(index(S)))\n y = h\n}\nx = x + y", "Q037",
     "S would be a twin of T, which is being scanned"},
    {"twin scanned", "dim S = T\nz = x[T -> S]\nh: [B, D] = 0\nscan S { h = h + z }\nx = x + h", "Q037",
     "S is a twin of T; scan T"},
    {"scanned inside its scan", "h: [B, D] = 0\nscan T {\n scan T { h = h + x }\n y = h\n}\nx = x + y", "Q037"},
    {"gather from the scanned", "h: [B, D] = 0\nscan T {\n h = h + x[T = 0]\n y = h\n}\nx = x + y", "Q037"},
    {"scanned given to a block", "h: [B, D] = 0\nscan T {\n h = h + f[T, D](x)\n y = h\n}\nx = x + y", "Q037", "",
     "  block f[S, I](x: [.., I]) { return x + index(S) }\n"},
    {"scan over the batch", "h: [T, D] = 0\nscan B { h = h + x }\nx = x + h", "Q036"},
    {"read and assigned", "h: [B, D] = 0\nscan T {\n h = 0.5 * h + x\n x = h\n}", "Q038",
     "'x' has T: inside 'scan T' it is read at the current position and cannot be assigned; choose another name"},
    {"return in scan", "h: [B, D] = 0\nscan T {\n h = h + x\n return h\n}", "Q032"},
    {"scan of an unknown dimension", "h: [B, D] = 0\nscan Q { h = h + x }", "Q010"},
    {"stacked value never used", "h: [B, D] = 0\nscan T {\n h = h + x\n y = h\n}\nx = x + h", "Q035"},
    {"from without end", "h: [B, D] = 0\nscan T from { h = h + x }", "Q002"},
    // beyond the prototype's list
    {"a position of the scanned in a range",
     "dim N = 1\nh: [B, D] = 0\nscan T {\n h = h + sum[N](x[T: 0..1 -> N])\n}\nx = x + h", "Q037"},
    {"a text as a state", "s = \"a\"\nh: [B, D] = 0\nscan T {\n h = h + x\n s = \"b\"\n}\nx = x + h", "Q033",
     "'s' is \"a\" and cannot be carried by a scan"},
    {"an output read before it is made", "h: [B, D] = 0\nscan T {\n h = h + y\n y = x\n}\nx = x + h", "Q010"},
    {"a bracket left open", "h: [B, D] = 0\nscan T {\n h = (h + x\n y = h\n}\nx = x + y", "Q002"},
    {"a state in a block", "x = f[T](x)", "Q033", "declare it: h: [.., D] = 0",
     "  block f[N](x: [.., N]) {\n    h = 0\n    scan N {\n      h = h + x\n      y = h\n    }\n    return y\n  }\n"},
    {"a twin's positions",
     "dim S = T\nh: [B, D] = 0\nscan T {\n h = h + x * sum[S](real(index(S)))\n y = h\n}\nx = x + y", "Q037"},
};

TEST(Scans, WrongOnesAreToldByTheirCode) {
  for (const WrongScan &wrong : wrongScans) {
    Outcome outcome = check(body(wrong.lines, wrong.blocks));
    EXPECT_EQ(outcome.codes, wrong.codes) << wrong.name << "\n" << outcome.text;
    EXPECT_NE(outcome.text.find(wrong.words), std::string::npos) << wrong.name << "\n" << outcome.text;
  }
}

TEST(Scans, RightOnesAreTaken) {
  for (const char *lines : {
           "h: [B, D] = 0\nscan T {\n h = 0.5 * h + x\n y = h\n}\nx = x + y",
           "h: [B, D] = 0\nscan T from end { h = max(h, x) }\nx = x + h",
           "scan = 3\nfrom = 2\nend = scan + from\nx = x * end",        // none of them is a keyword
           "n = 0\nscan T {\n n = n + index(T)\n m = n\n}\nx = x * m",  // a number becomes a scalar
           "h: [B, D] = 0\nscan T {\n old = h\n h = x\n}\nx = x + old", // the state before: a shift
           "h: [B, D] = 0\ndim E = 3\nm: [B, E] = 1\nscan T {\n h = h + x * sum[E](m)\n y = h\n}\nx = x + y",
           "h: [B, D] = 0\nscan T {\n param w: [D] @ \"w\"\n h = h + w * x\n y = h\n}\nx = x + y * w",
           "h: [B, D] = 0\nscan T {\n repeat i in 3 {\n  h = h + x * i\n }\n y = h\n}\nx = x + y",
           "h: [B] = 0\nscan T {\n scan D {\n  h = h * 0.5 + x\n  y = h\n }\n}\nx = x + y",
           "h: [B, D] = 0\nseen: bool[B] = false\nscan T {\n seen = seen or tokens == 3\n h = where(seen, h + x, h)\n "
           "y = h\n}\nx = x + y",
       }) {
    Outcome outcome = check(body(lines));
    EXPECT_EQ(outcome.codes, "") << lines << "\n" << outcome.text;
  }
}

TEST(Scans, ManyStatementsInOne) {
  std::string lines = "h: [B, D] = 0\nscan T {\n";
  for (int i = 0; i < 10000; ++i)
    lines += " h = h + x\n";
  EXPECT_EQ(check(body(lines + " y = h\n}\nx = x + y")).codes, "");
}

} // namespace
