// Takes: steps that compute what a kernel asks for. Gives: them simplified, as text and back, and their values.
// Why a program and no polynomial: blocks round up to tiles, stop growing, exist only at some lengths and change from
// task to task; what says so in the kernel is kept, so that the plan is exact for every target and schedule.
#include "codegen/kernel/Scratch.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace quern::codegen {

using Op = Scratch::Op;
using Step = Scratch::Step;

static constexpr const char *names[] = {"number", "length", "counter", "add",   "sub",  "mul",    "div",
                                        "mod",    "min",    "max",     "equal", "less", "select", "most"};

static int operandCount(Op op) {
  return op < Op::Add ? 0 : op < Op::Select ? 2 : 3;
}

/// Lengths that no memory could hold may overflow: numbers wrap then, as in the program's own code.
static int64_t computed(Op op, int64_t a, int64_t b, int64_t c) {
  auto wrapped = [](uint64_t value) { return static_cast<int64_t>(value); };
  uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
  case Op::Add:
    return wrapped(x + y);
  case Op::Sub:
    return wrapped(x - y);
  case Op::Mul:
    return wrapped(x * y);
  case Op::Div:
    return b <= 0 ? 0 : a / b - (a % b < 0); // none is negative
  case Op::Mod:
    return b <= 0 ? 0 : a % b + (a % b < 0 ? b : 0);
  case Op::Min:
    return std::min(a, b);
  case Op::Max:
    return std::max(a, b);
  case Op::Equal:
    return a == b;
  case Op::Less:
    return a < b;
  default:
    return a ? b : c;
  }
}

/// The counters that change a step, where those of its operands are known.
static std::set<int> changedBy(const Step &step, const std::vector<std::set<int>> &known) {
  std::set<int> counters;
  for (int operand : {step.a, step.b, step.c})
    if (operand >= 0)
      counters.insert(known[operand].begin(), known[operand].end());
  if (step.op == Op::Most)
    counters.erase(step.a);
  return counters;
}

ScratchLoops::ScratchLoops(const std::vector<Step> &steps) {
  std::vector<std::set<int>> changing;
  for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
    changing.push_back(steps[i].op == Op::Counter ? std::set{i} : changedBy(steps[i], changing));
    if (changing[i].empty())
      outside.push_back(i);
    if (steps[i].op != Op::Most)
      continue;
    std::set<int> around = changing[i];
    around.insert(steps[i].a);
    std::vector<char> needed(i);
    needed[steps[i].c] = 1;
    for (int j = i; j-- > 0;) {
      if (!needed[j])
        continue;
      for (int operand : {steps[j].a, steps[j].b, steps[j].c})
        if (operand >= 0)
          needed[operand] = 1;
      if (steps[j].op != Op::Counter && changing[j].count(steps[i].a) &&
          std::includes(around.begin(), around.end(), changing[j].begin(), changing[j].end()))
        within[i].insert(within[i].begin(), j);
    }
  }
}

ScratchBytes bytesOf(const Scratch &scratch, const std::function<int64_t(const std::string &)> &lengthOf) {
  ScratchLoops loops(scratch.steps);
  std::vector<int64_t> values(scratch.steps.size());
  auto value = [&](int step) { return step < 0 ? 0 : values[step]; };
  std::function<void(const std::vector<int> &)> compute = [&](const std::vector<int> &which) {
    for (int i : which) {
      const Step &step = scratch.steps[i];
      if (step.op == Op::Most) {
        int64_t most = 0;
        for (values[step.a] = 0; values[step.a] < values[step.b]; ++values[step.a]) {
          compute(loops.within[i]);
          most = std::max(most, values[step.c]);
        }
        values[i] = most;
      } else {
        values[i] = step.op == Op::Number   ? step.number
                    : step.op == Op::Length ? lengthOf(step.length)
                                            : computed(step.op, value(step.a), value(step.b), value(step.c));
      }
    }
  };
  compute(loops.outside);
  return {value(scratch.caller), value(scratch.worker)};
}

// ---- text

std::string scratchText(const Scratch &scratch) {
  std::ostringstream text;
  for (const Step &step : scratch.steps) {
    text << names[static_cast<int>(step.op)];
    if (step.op == Op::Number || step.op == Op::Counter)
      text << ' ' << step.number;
    if (step.op == Op::Length)
      text << ' ' << step.length;
    for (int operand = 0; operand < operandCount(step.op); ++operand)
      text << ' ' << (operand == 0 ? step.a : operand == 1 ? step.b : step.c);
    text << '\n';
  }
  text << "results " << scratch.caller << ' ' << scratch.worker << '\n';
  return text.str();
}

Scratch parseScratch(const std::string &text) {
  Scratch scratch;
  std::istringstream lines(text);
  bool ended = false;
  for (std::string line; std::getline(lines, line);) {
    auto wrong = [&] { return std::runtime_error("not a line of a kernel's scratch: '" + line + "'"); };
    std::istringstream words(line);
    std::string name, rest;
    words >> name;
    auto earlier = [&](int &step, int least) {
      if (!(words >> step) || step < least || step >= static_cast<int>(scratch.steps.size()))
        throw wrong();
    };
    if (ended)
      throw wrong();
    if (name == "results") {
      earlier(scratch.caller, -1);
      earlier(scratch.worker, -1);
      ended = true;
    } else {
      auto found = std::find(std::begin(names), std::end(names), name);
      if (found == std::end(names))
        throw wrong();
      Step step{static_cast<Op>(found - std::begin(names)), 0, {}};
      bool numbered = step.op == Op::Number || step.op == Op::Counter;
      if (numbered ? !(words >> step.number) : step.op == Op::Length && !(words >> step.length))
        throw wrong();
      int *operands[] = {&step.a, &step.b, &step.c};
      for (int i = 0; i < operandCount(step.op); ++i)
        earlier(*operands[i], 0);
      if (step.op == Op::Most && scratch.steps[step.a].op != Op::Counter)
        throw wrong();
      scratch.steps.push_back(std::move(step));
    }
    if (words >> rest)
      throw wrong();
  }
  if (!ended)
    throw std::runtime_error("a kernel's scratch has no results");
  return scratch;
}

// ---- making

int ScratchBuilder::add(const Step &step) {
  auto [it, first] = numbers.try_emplace(step, static_cast<int>(steps.size()));
  if (first) {
    changing.push_back(step.op == Op::Counter ? std::set{it->second} : changedBy(step, changing));
    steps.push_back(step);
  }
  return it->second;
}

std::optional<int64_t> ScratchBuilder::known(int step) const {
  return steps[step].op == Op::Number ? std::optional(steps[step].number) : std::nullopt;
}

int ScratchBuilder::make(Op op, int a, int b, int c) {
  if (op == Op::Most)
    return add({op, 0, {}, a, b, c});
  std::optional<int64_t> x = known(a), y = known(b);
  if (op == Op::Select)
    return x ? (*x ? b : c) : b == c ? b : add({op, 0, {}, a, b, c});
  if (x && y)
    return number(computed(op, *x, *y, 0));
  if (op == Op::Sub && y)
    return make(Op::Add, a, number(computed(op, 0, *y, 0)));
  bool commutes = op == Op::Add || op == Op::Mul || op == Op::Min || op == Op::Max || op == Op::Equal;
  if (commutes && (x || (!y && a > b))) { // the number last, so that it is found below
    std::swap(a, b);
    std::swap(x, y);
  }
  if (a == b && op != Op::Add && op != Op::Mul && op != Op::Div)
    return op == Op::Min || op == Op::Max ? a : number(op == Op::Equal);
  if (y) {
    if ((*y == 0 && op == Op::Add) || (*y == 1 && (op == Op::Mul || op == Op::Div)))
      return a;
    if ((*y == 0 && (op == Op::Mul || op == Op::Div)) || (*y == 1 && op == Op::Mod))
      return number(0);
    const Step &inner = steps[a]; // (v + 2) + 3
    if (inner.op == op && (op == Op::Add || op == Op::Mul || op == Op::Min || op == Op::Max))
      if (std::optional<int64_t> z = known(inner.b))
        return make(op, inner.a, number(computed(op, *z, *y, 0)));
  }
  return add({op, 0, {}, a, b});
}

Scratch ScratchBuilder::finish(int caller, int worker) const {
  std::vector<char> needed(steps.size());
  needed[caller] = needed[worker] = 1;
  for (size_t i = steps.size(); i-- > 0;) // operands come before
    for (int operand : {steps[i].a, steps[i].b, steps[i].c})
      if (needed[i] && operand >= 0)
        needed[operand] = 1;
  Scratch scratch;
  std::vector<int> at(steps.size(), -1);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!needed[i])
      continue;
    at[i] = static_cast<int>(scratch.steps.size());
    scratch.steps.push_back(steps[i]);
    for (int *operand : {&scratch.steps.back().a, &scratch.steps.back().b, &scratch.steps.back().c})
      if (*operand >= 0)
        *operand = at[*operand];
  }
  scratch.caller = at[caller];
  scratch.worker = at[worker];
  return scratch;
}

} // namespace quern::codegen
