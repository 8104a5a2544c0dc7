// Takes: integers and symbol names. Gives: polynomial arithmetic with one canonical text.
// Why polynomials: the checker must tell that T + T is 2 * T and cannot tell that T is S; nothing more is needed.
#include "ir/Size.h"

#include "ir/Derived.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

namespace quern::ir {

Size::Size(int64_t value) {
  if (value)
    terms[{}] = value;
}

Size Size::symbol(std::string name) {
  Size size;
  size.terms[{std::move(name)}] = 1;
  return size;
}

std::optional<int64_t> Size::constant() const {
  if (terms.empty())
    return 0;
  if (terms.size() == 1 && terms.begin()->first.empty())
    return terms.begin()->second;
  return std::nullopt;
}

std::optional<std::string> Size::asSymbol() const {
  if (terms.size() == 1 && terms.begin()->first.size() == 1 && terms.begin()->second == 1)
    return terms.begin()->first[0];
  return std::nullopt;
}

std::vector<std::string> Size::symbols() const {
  std::set<std::string> found;
  for (const auto &[monomial, coefficient] : terms)
    found.insert(monomial.begin(), monomial.end());
  return {found.begin(), found.end()};
}

bool Size::mentions(std::string_view symbol) const {
  for (const auto &[monomial, coefficient] : terms)
    if (std::find(monomial.begin(), monomial.end(), symbol) != monomial.end())
      return true;
  return false;
}

static void accumulate(std::map<Size::Monomial, int64_t> &terms, const Size::Monomial &monomial, int64_t value) {
  auto it = terms.try_emplace(monomial, 0).first;
  it->second += value;
  if (!it->second)
    terms.erase(it);
}

Size Size::operator+(const Size &other) const {
  Size result = *this;
  for (const auto &[monomial, coefficient] : other.terms)
    accumulate(result.terms, monomial, coefficient);
  return result;
}

Size Size::operator-(const Size &other) const {
  return *this + other * Size(-1);
}

Size Size::operator*(const Size &other) const {
  Size result;
  for (const auto &[a, x] : terms)
    for (const auto &[b, y] : other.terms) {
      Monomial product = a;
      product.insert(product.end(), b.begin(), b.end());
      std::sort(product.begin(), product.end());
      accumulate(result.terms, product, x * y);
    }
  return result;
}

std::optional<Size> Size::divided(int64_t divisor) const {
  return divided(Size(divisor));
}

std::optional<Size> Size::divided(const Size &divisor) const {
  if (divisor.terms.size() != 1)
    return *this == divisor && !terms.empty() ? std::optional<Size>(Size(1)) : std::nullopt;
  const auto &[symbols, factor] = *divisor.terms.begin();
  Size result;
  for (const auto &[monomial, coefficient] : terms) {
    if (coefficient % factor || !std::includes(monomial.begin(), monomial.end(), symbols.begin(), symbols.end()))
      return std::nullopt;
    Monomial rest;
    std::set_difference(monomial.begin(), monomial.end(), symbols.begin(), symbols.end(), std::back_inserter(rest));
    accumulate(result.terms, rest, coefficient / factor);
  }
  return result;
}

int64_t Size::evaluate(const std::function<int64_t(const std::string &)> &lookup) const {
  int64_t total = 0;
  for (const auto &[monomial, coefficient] : terms) {
    int64_t product = coefficient;
    for (const std::string &symbol : monomial)
      product *= lookup(symbol);
    total += product;
  }
  return total;
}

Size Size::substitute(const std::map<std::string, Size> &table) const {
  Size result;
  for (const auto &[monomial, coefficient] : terms) {
    Size product(coefficient);
    for (const std::string &name : monomial) {
      auto it = table.find(name);
      product = product * (it == table.end() ? symbol(name) : it->second);
    }
    result = result + product;
  }
  return result;
}

std::string Size::str() const {
  std::string text;
  // Highest monomials first, the plain number last: "past + T + 1".
  std::vector<std::pair<Monomial, int64_t>> ordered(terms.begin(), terms.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto &a, const auto &b) { return a.first.size() > b.first.size(); });
  for (const auto &[monomial, coefficient] : ordered) {
    int64_t magnitude = coefficient < 0 ? -coefficient : coefficient;
    text += coefficient < 0 ? (text.empty() ? "-" : " - ") : (text.empty() ? "" : " + ");
    if (monomial.empty() || magnitude != 1)
      text += std::to_string(magnitude) + (monomial.empty() ? "" : " * ");
    for (size_t i = 0; i < monomial.size(); ++i)
      text += (i ? " * " : "") + monomial[i];
  }
  return text.empty() ? "0" : text;
}

std::optional<Size> Size::parse(std::string_view text) {
  size_t at = 0;
  auto skip = [&] {
    while (at < text.size() && text[at] == ' ')
      ++at;
  };
  auto factor = [&]() -> std::optional<Size> {
    skip();
    size_t start = at;
    if (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at]))) {
      int64_t value = 0;
      for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at)
        if (__builtin_mul_overflow(value, int64_t(10), &value) || __builtin_add_overflow(value, text[at] - '0', &value))
          return std::nullopt;
      return Size(value);
    }
    while (at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_' || text[at] == '.'))
      ++at;
    if (at == start)
      return std::nullopt;
    if (at == text.size() || text[at] != '(')
      return symbol(std::string(text.substr(start, at - start)));
    for (int open = 0; at < text.size(); ++at) {
      open += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
      if (!open)
        break;
    }
    std::optional<Derived> derived = Derived::read(text.substr(start, at < text.size() ? ++at - start : at - start));
    return derived ? std::optional(derived->size()) : std::nullopt;
  };
  Size total;
  bool first = true;
  while (true) {
    skip();
    int64_t sign = 1;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) {
      if (first && text[at] == '+')
        return std::nullopt;
      sign = text[at++] == '-' ? -1 : 1;
    } else if (!first) {
      return std::nullopt;
    }
    std::optional<Size> product = factor();
    if (!product)
      return std::nullopt;
    for (skip(); at < text.size() && text[at] == '*'; skip()) {
      ++at;
      std::optional<Size> next = factor();
      if (!next)
        return std::nullopt;
      product = *product * *next;
    }
    total = total + *product * Size(sign);
    first = false;
    skip();
    if (at == text.size())
      return total;
  }
}

// ---- symbols with parts

namespace {
struct FormText {
  std::string_view name;
  bool ofSize; ///< has a second part
};
constexpr FormText forms[] = {
    {"chunk", true}, {"filled", false}, {"room", false}, {"min", true}}; // in the order of Form
} // namespace

Size Derived::size() const {
  const FormText &text = forms[static_cast<int>(form)];
  return Size::symbol(std::string(text.name) + "(" + std::to_string(number) + (text.ofSize ? ", " + of.str() : "") +
                      ")");
}

std::optional<Derived> Derived::read(std::string_view symbol) {
  for (int i = 0; i < 4; ++i)
    if (symbol.starts_with(forms[i].name) && symbol.substr(forms[i].name.size()).starts_with("("))
      return read(symbol, static_cast<Form>(i));
  return std::nullopt;
}

std::optional<Derived> Derived::read(std::string_view symbol, Form form) {
  const auto &[name, ofSize] = forms[static_cast<int>(form)];
  if (!symbol.starts_with(name) || !symbol.ends_with(")") || symbol.size() < name.size() + 3 ||
      symbol[name.size()] != '(')
    return std::nullopt;
  const char *begin = symbol.data() + name.size() + 1, *end = symbol.data() + symbol.size() - 1;
  Derived derived{form, 0};
  auto [at, error] = std::from_chars(begin, end, derived.number);
  if (error != std::errc() || derived.number < (form == Form::Min ? 0 : 1))
    return std::nullopt;
  if (!ofSize)
    return at == end ? std::optional(derived) : std::nullopt;
  if (at == end || *at != ',')
    return std::nullopt;
  std::optional<Size> of = Size::parse(std::string_view(at + 1, end));
  if (!of)
    return std::nullopt;
  derived.of = *of;
  return derived;
}

} // namespace quern::ir
