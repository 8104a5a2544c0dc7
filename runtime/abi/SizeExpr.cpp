// Takes: "2 * T + past". Gives: its value for given lengths.
// Why: buffers of results and caches are made by the runtime, and only the run knows how long they are.
#include "runtime/abi/SizeExpr.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cctype>

namespace quern::runtime {

int64_t checkedMultiply(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result))
    throw UserError("a size does not fit 64 bits");
  return result;
}

int64_t checkedAdd(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result))
    throw UserError("a size does not fit 64 bits");
  return result;
}

SizeExpr::SizeExpr(int64_t value) : text(std::to_string(value)) {
  terms.push_back({value, {}});
}

SizeExpr SizeExpr::parse(std::string_view source, const std::vector<std::string> &symbols) {
  SizeExpr result;
  result.terms.clear();
  result.text = std::string(source);
  size_t at = 0;
  auto fail = [&] { throw UserError("the program's description has a bad size " + quote(source)); };
  auto skip = [&] {
    while (at < source.size() && source[at] == ' ')
      ++at;
  };
  bool first = true;
  for (skip(); first || at < source.size(); first = false) {
    int64_t sign = 1;
    if (at < source.size() && (source[at] == '+' || source[at] == '-')) {
      sign = source[at++] == '-' ? -1 : 1;
    } else if (!first) {
      fail();
    }
    Term term{sign, {}};
    while (true) { // factors
      skip();
      size_t begin = at;
      while (at < source.size() &&
             (std::isalnum(static_cast<unsigned char>(source[at])) || source[at] == '_' || source[at] == '.'))
        ++at;
      std::string_view word = source.substr(begin, at - begin);
      if (word.empty())
        fail();
      if (word == "min" && at < source.size() && source[at] == '(') {
        size_t comma = source.find(',', at), end = at;
        for (int open = 0; end < source.size(); ++end) { // a ring's length within has parentheses of its own
          open += source[end] == '(' ? 1 : source[end] == ')' ? -1 : 0;
          if (open == 0)
            break;
        }
        if (end == source.size() || comma > end)
          fail();
        SizeExpr most = parse(source.substr(at + 1, comma - at - 1), {});
        term.minima.push_back({most.evaluate({}), parse(source.substr(comma + 1, end - comma - 1), symbols)});
        at = end + 1;
      } else if (std::isdigit(static_cast<unsigned char>(word[0]))) {
        int64_t number = 0;
        for (char c : word) {
          if (!std::isdigit(static_cast<unsigned char>(c)))
            fail();
          number = checkedAdd(checkedMultiply(number, 10), c - '0');
        }
        term.coefficient = checkedMultiply(term.coefficient, number);
      } else {
        if (at < source.size() && source[at] == '(') { // a ring's length, such as filled(256)
          at = std::min(source.find(')', at), source.size() - 1) + 1;
          word = source.substr(begin, at - begin);
        }
        auto found = std::find(symbols.begin(), symbols.end(), word);
        if (found == symbols.end())
          fail();
        int64_t power = 1;
        skip();
        if (at < source.size() && source[at] == '^') {
          ++at;
          skip();
          if (at >= source.size() || source[at] < '1' || source[at] > '9')
            fail();
          power = source[at++] - '0';
        }
        term.symbols.insert(term.symbols.end(), size_t(power), int(found - symbols.begin()));
      }
      skip();
      if (at >= source.size() || source[at] != '*')
        break;
      ++at;
    }
    result.terms.push_back(std::move(term));
  }
  return result;
}

int64_t SizeExpr::evaluate(const std::vector<int64_t> &sizes) const {
  int64_t sum = 0;
  for (const Term &term : terms) {
    int64_t product = term.coefficient;
    for (int symbol : term.symbols)
      product = checkedMultiply(product, sizes.at(size_t(symbol)));
    for (const Minimum &minimum : term.minima)
      product = checkedMultiply(product, std::min(minimum.most, minimum.of.evaluate(sizes)));
    sum = checkedAdd(sum, product);
  }
  return sum;
}

int SizeExpr::asSymbol() const {
  return terms.size() == 1 && terms[0].coefficient == 1 && terms[0].symbols.size() == 1 && terms[0].minima.empty()
             ? terms[0].symbols[0]
             : -1;
}

bool SizeExpr::isConstant() const {
  return std::all_of(terms.begin(), terms.end(),
                     [](const Term &term) { return term.symbols.empty() && term.minima.empty(); });
}

bool SizeExpr::mentions(int symbol) const {
  return std::any_of(terms.begin(), terms.end(), [&](const Term &term) {
    return std::find(term.symbols.begin(), term.symbols.end(), symbol) != term.symbols.end() ||
           std::any_of(term.minima.begin(), term.minima.end(),
                       [&](const Minimum &minimum) { return minimum.of.mentions(symbol); });
  });
}

} // namespace quern::runtime
