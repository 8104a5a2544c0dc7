// Takes: the tensors in scope. Gives: more of them, each by one random operation of the language.
// What is left to chance keeps within bounds (values near one, no logarithm of zero), because a difference must mean a
// fault and not an overflow.
#include "tests/specs/SpecWriter.h"

#include <algorithm>

using namespace quern::test;

using Dims = std::set<std::string>;

static constexpr int64_t largest = 600; // elements of one tensor at one position

void SpecWriter::keep(const std::string &words, Dims dims) {
  scope.push_back({fresh("v"), std::move(dims), false});
  line(scope.back().name + " = " + words);
}

void SpecWriter::keepTwo(const std::string &words, Dims first, Dims second) {
  std::string a = fresh("v"), b = fresh("v");
  line(a + ", " + b + " = " + words);
  scope.push_back({a, std::move(first), false});
  scope.push_back({b, std::move(second), false});
}

/// Mostly what was made last: chains are longer than bushes are wide.
Named &SpecWriter::pick() {
  size_t n = scope.size(), i = choices.chance(60) ? n - 1 : choices.below(n);
  scope[i].used = true;
  return scope[i];
}

/// A dimension of the config among `dims`, or "".
std::string SpecWriter::anyDim(const Dims &dims) {
  std::vector<std::string> options;
  for (const std::string &dim : dims)
    if (sizes.count(dim))
      options.push_back(dim);
  return options.empty() ? "" : choices.of(options);
}

/// A dimension that `dims` lacks and that keeps the tensor small, or "".
std::string SpecWriter::freeDim(const Dims &dims) {
  std::vector<std::string> options;
  for (const std::string &dim : features)
    if (!dims.count(dim) && elements(dims) * sizes[dim] <= largest)
      options.push_back(dim);
  return options.empty() ? "" : choices.of(options);
}

bool SpecWriter::elementwise(Named &x) {
  std::string words = choices.of({"tanh($)",
                                  "sigmoid($)",
                                  "sin(2 * $)",
                                  "cos($)",
                                  "0.5 * abs($)",
                                  "sqrt(abs($) + 0.1)",
                                  "erf($)",
                                  "log1p(abs($))",
                                  "expm1(0.5 * $)",
                                  "max($, 0)",
                                  "exp(-abs($))",
                                  "gelu($)",
                                  "silu($)",
                                  "min($, 0.5)",
                                  "1 - $",
                                  "-$ / 2",
                                  "relu($)",
                                  "soft_cap($, 2)",
                                  "$ * $ / (1 + $ * $)",
                                  "(0.1 + abs($)) ^ 0.5",
                                  "where($ > 0, $, 0.1 * $)",
                                  "log(1.5 + tanh($))",
                                  "2 ^ tanh($)"});
  for (size_t i; (i = words.find('$')) != std::string::npos;)
    words.replace(i, 1, x.name);
  keep(words, x.dims);
  return true;
}

bool SpecWriter::combine(Named &x) {
  Named a = x, &b = pick();
  Dims dims = a.dims;
  dims.insert(b.dims.begin(), b.dims.end());
  if (elements(dims) > largest)
    return false;
  std::string words = choices.of({"$ + %", "$ - %", "$ * tanh(%)", "$ / (1 + abs(%))", "max($, %)", "min($, %)",
                                  "where($ > %, $, %)", "0.3 * $ + 0.7 * %", "sigmoid($) * %"});
  for (auto [sign, name] : {std::pair{'$', a.name}, std::pair{'%', b.name}})
    for (size_t i; (i = words.find(sign)) != std::string::npos;)
      words.replace(i, 1, name);
  keep(words, dims);
  return true;
}

bool SpecWriter::project(Named &x) {
  std::string from = anyDim(x.dims);
  if (from.empty())
    return false;
  Dims rest = ::without(x.dims, from);
  std::string kind = choices.of({"linear", "affine", "transposed_affine"}), head = kind + "[" + from + " -> ",
              tail = "](" + x.name + ")" + path();
  std::string to = choices.chance(30) ? from : freeDim(rest);
  if (to.empty())
    return false;
  switch (choices.below(6)) {
  case 0: // several at once
    if (std::string other = freeDim(rest); !other.empty()) {
      keepTwo(head + to + " + " + other + tail, with(rest, to), with(rest, other));
      return true;
    }
    break;
  case 1: // a group
    if (std::string other = freeDim(with(rest, to)); !other.empty() && other != to) {
      keep(head + "(" + to + ", " + other + ")" + tail, with(with(rest, to), other));
      return true;
    }
    break;
  case 2: // two columns side by side
    keepTwo(head + "(" + to + ", 1 + 1)" + tail, with(rest, to), with(rest, to));
    return true;
  case 3: // from a group
    for (const std::string &other : rest)
      if (sizes.count(other)) {
        Dims left = ::without(rest, other);
        if (left.count(to))
          break;
        keep(kind + "[(" + from + ", " + other + ") -> " + to + tail, with(left, to));
        return true;
      }
    break;
  case 4: // to one number
    keep(head + "1" + tail, rest);
    return true;
  default:
    break;
  }
  keep(head + to + tail, with(rest, to));
  return true;
}

/// Products summed: with a parameter, with another tensor, with itself.
bool SpecWriter::contract(Named &x) {
  Named a = x;
  std::string over = anyDim(a.dims);
  if (over.empty())
    return false;
  if (choices.chance(50)) {
    Named b = pick();
    if (!b.dims.count(over))
      return false;
    Dims dims = a.dims;
    dims.insert(b.dims.begin(), b.dims.end());
    if (elements(dims) > largest)
      return false;
    keep("sum[" + over + "](" + a.name + " * " + b.name + ") / " + over, ::without(dims, over));
    return true;
  }
  std::string to = freeDim(a.dims), w = fresh("w");
  if (to.empty())
    return false;
  bool more = choices.chance(30); // a parameter that shares another dimension
  std::string shared = more ? anyDim(::without(a.dims, over)) : "";
  std::vector<std::string> order = {over, to};
  if (!shared.empty())
    order.push_back(shared);
  std::rotate(order.begin(), order.begin() + choices.below(order.size()), order.end());
  std::string list;
  for (const std::string &dim : order)
    list += (list.empty() ? "" : ", ") + dim;
  line("param " + w + ": [" + list + "]" + path());
  keep("sum[" + over + "](" + a.name + " * " + w + ")", with(::without(a.dims, over), to));
  return true;
}

bool SpecWriter::reduce(Named &x) {
  std::string over = anyDim(x.dims);
  if (over.empty())
    return false;
  std::string two = choices.chance(25) ? anyDim(::without(x.dims, over)) : "",
              both = two.empty() ? over : over + ", " + two;
  Dims left = ::without(::without(x.dims, over), two);
  switch (choices.below(9)) {
  case 0:
    keep("softmax[" + both + "](" + x.name + ")", x.dims);
    break;
  case 1:
    keep("layer_norm[" + over + "](" + x.name + ", 0.1)" + path(), x.dims);
    break;
  case 2:
    keep("rms_norm[" + over + "](" + x.name + ", 0.1)" + path(), x.dims);
    break;
  case 3:
    keep("cumsum[" + over + "](" + x.name + ") / " + over, x.dims);
    break;
  case 4:
    keep(x.name + " - " + choices.of({"max", "mean", "min"}) + "[" + both + "](" + x.name + ")", x.dims);
    break;
  case 5:
    keep("where(any[" + over + "](" + x.name + " > 0.1), 1, 0.5) * " + x.name, x.dims);
    break;
  case 6:
    keep("log_softmax[" + over + "](" + x.name + ") / 4", x.dims);
    break;
  default:
    keep(std::string(choices.of({"mean", "max", "min"})) + "[" + both + "](" + x.name + ")", left);
  }
  return true;
}

/// Splits, merges, renames, parts, concatenations.
bool SpecWriter::reshape(Named &x) {
  const Dims dims = x.dims;
  auto has = [&](const char *dim) { return dims.count(dim) != 0; };
  std::string name = x.name;
  switch (choices.below(8)) {
  case 0: // as long as D
    if (has("D") == has("L"))
      return false;
    keep(name + (has("D") ? "[D -> L]" : "[L -> D]"),
         has("D") ? with(::without(dims, "D"), "L") : with(::without(dims, "L"), "D"));
    return true;
  case 1: // a group
    if (has("M") && !has("H") && !has("K"))
      keep(name + "[M -> (H, K)]", with(with(::without(dims, "M"), "H"), "K"));
    else if (has("H") && has("K") && !has("M"))
      keep(name + "[(H, K) -> M]", with(::without(::without(dims, "H"), "K"), "M"));
    else
      return false;
    return true;
  case 2: // parts of a sum
    if (!has("N") || has("A") || has("C"))
      return false;
    keepTwo(name + "[N -> A + C]", with(::without(dims, "N"), "A"), with(::without(dims, "N"), "C"));
    return true;
  case 3: // even and odd
    if (!has("K") || has("J"))
      return false;
    keepTwo(name + "[K -> (J, 1 + 1)]", with(::without(dims, "K"), "J"), with(::without(dims, "K"), "J"));
    return true;
  case 4: // one after the other; what one lacks is repeated
    for (const Named &other : scope)
      if (has("A") && !has("C") && !has("N") && other.dims.count("C") && !other.dims.count("A") &&
          !other.dims.count("N")) {
        Dims all = ::without(dims, "A");
        for (const std::string &dim : other.dims)
          if (dim != "C")
            all.insert(dim);
        if (elements(all) * sizes["N"] > largest)
          return false;
        std::string second = other.name;
        for (Named &named : scope)
          named.used |= named.name == second;
        keep("concat[A + C -> N](" + name + ", " + second + ")", with(all, "N"));
        return true;
      }
    return false;
  case 5: // halves rotated
    if (!has("K") || has("J"))
      return false;
    {
      std::string a = fresh("v"), b = fresh("v");
      line(a + ", " + b + " = " + name + "[K -> " + (choices.chance(50) ? "J + J" : "(J, 1 + 1)") + "]");
      keep("concat[" + std::string(choices.chance(50) ? "J + J" : "(J, 1 + 1)") + " -> K](-" + b + ", " + a + ")",
           dims);
    }
    return true;
  case 6: { // two dimensions of one length change places
    if (!has("D") || !has("L"))
      return false;
    keep(name + "[D -> L, L -> D]", dims);
    return true;
  }
  default: { // a range
    if (!has("D") || has("A") || sizes["D"] <= sizes["A"])
      return false;
    int from = choices.below(static_cast<unsigned>(sizes["D"] - sizes["A"] + 1));
    keep(name + "[D: " + std::to_string(from) + ".." + std::to_string(from + sizes["A"]) + " -> A]",
         with(::without(dims, "D"), "A"));
    return true;
  }
  }
}

/// One position, or gathers by computed positions.
bool SpecWriter::select(Named &x) {
  std::string from = anyDim(x.dims);
  if (from.empty())
    return false;
  Dims rest = ::without(x.dims, from);
  std::string name = x.name, to = freeDim(rest), at = std::to_string(choices.below(static_cast<unsigned>(sizes[from])));
  switch (choices.below(5)) {
  case 0:
    keep(name + "[" + from + " = " + at + "]", rest);
    return true;
  case 1: // rotated around itself
    keep(name + "[" + from + " = (index(" + from + ") + " + at + ") % " + from + "]", x.dims);
    return true;
  case 2:
    if (to.empty())
      return false;
    keep(name + "[" + from + " = index(" + to + ") * 2 % " + from + "]", with(rest, to));
    return true;
  case 3: // by the text
    if (!timed || !hasTokens)
      return false;
    keep(name + "[" + from + " = tokens % " + from + "]", with(rest, time));
    return true;
  default: // by the largest of another
    keep(name + "[" + from + " = argmax[" + from + "](" + name + ")] / 2", rest);
    return true;
  }
}

/// A dimension more: from positions, from numbers in the spec, from a table.
bool SpecWriter::widen(Named &x) {
  std::string to = freeDim(x.dims);
  if (to.empty())
    return false;
  std::string name = x.name;
  switch (choices.below(4)) {
  case 0:
    keep(name + " * (0.5 + index(" + to + ") / " + to + ")", with(x.dims, to));
    return true;
  case 1: {
    std::string list;
    for (int64_t i = 0; i < sizes[to]; ++i)
      list += (i ? ", " : "") + std::to_string(choices.between(-9, 9)) + ".5";
    keep(name + " + values[" + to + "]([" + list + "]) / 10", with(x.dims, to));
    return true;
  }
  case 2: {
    std::string w = fresh("w");
    line("param " + w + ": [" + to + "]" + path());
    keep(name + " * " + w, with(x.dims, to));
    return true;
  }
  default:
    if (!timed)
      return false;
    keep("where((index(" + time + ") + index(" + to + ")) % 3 == 1, " + name + ", 0.5)", with(with(x.dims, to), time));
    return true;
  }
}

/// The largest few, in order.
bool SpecWriter::choose(Named &x) {
  std::string from = anyDim(x.dims);
  if (from.empty() || sizes[from] < 2 || x.dims.count("C") || from == "C")
    return false;
  std::string v = fresh("v"), n = fresh("n"), name = x.name;
  Dims rest = ::without(x.dims, from);
  line(v + ", " + n + " = top_k[" + from + " -> C](" + name + ")");
  keep(v + " + " + name + "[" + from + " = " + n + "]", with(rest, "C"));
  return true;
}

void SpecWriter::step() {
  for (int attempt = 0; attempt < 6; ++attempt) {
    size_t before = scope.size();
    Named x = pick();
    bool done = false;
    switch (choices.below(11)) {
    case 0:
      done = elementwise(x);
      break;
    case 1:
      done = combine(x);
      break;
    case 2:
    case 3:
      done = project(x);
      break;
    case 4:
      done = contract(x);
      break;
    case 5:
      done = reduce(x);
      break;
    case 6:
    case 7:
      done = reshape(x);
      break;
    case 8:
      done = select(x);
      break;
    case 9:
      done = widen(x);
      break;
    default:
      done = choices.chance(30) ? choose(x) : elementwise(x);
    }
    if (done && scope.size() > before)
      return;
  }
}

void SpecWriter::algebra(int steps) {
  for (int n = 0; n < steps; ++n)
    step();
}

void SpecWriter::gatherUp(const std::string &x) {
  // `pick` marks what an attempt that came to nothing looked at, so ask the text itself.
  for (const Named &named : scope) {
    if (named.name == x || named.dims.empty())
      continue;
    size_t made = text.rfind(named.name + " = "), pair = text.rfind(named.name + ", v"),
           second = text.rfind(", " + named.name + " = ");
    size_t from = std::string::npos;
    for (size_t at : {made, pair, second})
      if (at != std::string::npos && (from == std::string::npos || at > from))
        from = at;
    if (from == std::string::npos)
      continue; // made outside
    bool used = false;
    size_t end = text.find('\n', from);
    for (size_t at = end; (at = text.find(named.name, at)) != std::string::npos; ++at) {
      char next = at + named.name.size() < text.size() ? text[at + named.name.size()] : ' ';
      char last = text[at - 1];
      used |= !isalnum(static_cast<unsigned char>(next)) && !isalnum(static_cast<unsigned char>(last));
    }
    if (used)
      continue;
    Dims over = named.dims;
    over.erase("D");
    over.erase(time);
    line(x + " = " + x + " + 0.3 * " + (over.empty() ? named.name : "mean[" + join(over) + "](" + named.name + ")"));
  }
  for (const Named &named : scope) // numbers without dimensions
    if (named.dims.empty() && named.name != x)
      line(x + " = " + x + " * (1 + 0.1 * tanh(" + named.name + "))");
}
