// Takes: `halide: contract(columns = 64, rows = 6), map(work = 32768)`. Gives: the plan.
#include "codegen/kernel/PlanText.h"

#include <cctype>
#include <stdexcept>

namespace quern::codegen {

namespace {
class Reader {
public:
  explicit Reader(std::string_view text) : text(text) {}
  KernelPlan plan();

private:
  [[noreturn]] void fail(const std::string &wanted) const {
    throw std::runtime_error("its plan reads '" + std::string(text) + "': " + wanted + " is missing at position " +
                             std::to_string(at + 1));
  }
  bool take(char c) {
    while (at < text.size() && text[at] == ' ')
      ++at;
    bool found = at < text.size() && text[at] == c;
    at += found;
    return found;
  }
  void need(char c) {
    if (!take(c))
      fail(std::string("'") + c + "'");
  }
  std::string word(const std::string &wanted) {
    take(' ');
    size_t start = at;
    while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_'))
      ++at;
    if (at == start)
      fail(wanted);
    return std::string(text.substr(start, at - start));
  }
  PlanPart part();

  std::string_view text;
  size_t at = 0;
};
} // namespace

PlanPart Reader::part() {
  PlanPart part{word("a family"), {}};
  need('(');
  while (!take(')')) {
    if (!part.numbers.empty())
      need(',');
    std::string name = word("the name of a number");
    need('=');
    size_t before = at;
    std::string digits = word("a number");
    if (digits.size() > 12 || digits.find_first_not_of("0123456789") != std::string::npos) {
      at = before;
      fail("a number");
    }
    if (!part.numbers.emplace(name, std::stoll(digits)).second)
      throw std::runtime_error("its plan says '" + name + "' of " + part.family + " twice");
  }
  return part;
}

KernelPlan Reader::plan() {
  KernelPlan plan{word("a producer"), {}};
  if (take(':'))
    do
      plan.parts.push_back(part());
    while (take(','));
  take(' ');
  if (at < text.size())
    fail("the end");
  return plan;
}

KernelPlan parsePlan(std::string_view text) {
  return Reader(text).plan();
}

} // namespace quern::codegen
