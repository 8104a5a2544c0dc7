// Takes: the tokens so far. Gives: the logits of the next one.
//
// The step function sees only new rows; the caches hold what it remembers of the others. What is remembered can depend
// on the text's whole length through comparisons (longrope): their answers are the epoch, and where it flips, the text
// is read again from its start. So a long text is read in chunks only while all their ends answer as its own end does;
// else in one call.
#include "runtime/engine/Generator.h"

#include "runtime/Error.h"

#include <algorithm>
#include <utility>

namespace quern::runtime {

namespace {

/// The input that holds the text: the integers over [batch, time].
int findText(const Description &d, int number) {
  const FunctionInfo &function = d.functions[size_t(number)];
  for (const char *name : {"target", "tokens"})
    for (size_t i = 0; i < function.inputs.size(); ++i)
      if (function.inputs[i].name == name && function.inputs[i].kind == Kind::Int &&
          function.inputs[i].dims.size() == 2)
        return int(i);
  return -1;
}

} // namespace

void Generator::requireSteps(const Description &d) {
  const char *name = d.findFunction("encode") >= 0 ? "decode" : "forward";
  if (d.findRole("step", name) >= 0 && d.findFunction(name) >= 0 && d.time >= 0 && d.past >= 0 && d.cap >= 0)
    return;
  if (d.refusal)
    throw UserError("this model cannot generate text step by step: " + *d.refusal);
  throw UserError(std::string("this model cannot generate text: it has no causal function '") + name +
                  "' over a growing text");
}

Generator::Generator(Session &session, Options options) : session(session), options(options) {
  const Description &d = session.description();
  requireSteps(d);
  encoder = d.findFunction("encode");
  const char *name = encoder >= 0 ? "decode" : "forward";
  full = d.findFunction(name);
  stepper = d.findRole("step", name);
  few = d.findRole("few", name);
  textInput = findText(d, stepper);
  const FunctionInfo &step = d.functions[size_t(stepper)];
  if (textInput < 0 || step.outputs.size() != 1 || step.outputs[0].kind != Kind::Real ||
      step.outputs[0].dims.size() != 2)
    throw UserError("this model cannot generate text: '" + step.name +
                    "' does not give logits [B, V] of a text [B, T]");
  this->options.room = std::min(options.room, longest());
}

int64_t Generator::vocabulary() const {
  return session.description().functions[size_t(stepper)].outputs[0].dims[1].evaluate(
      std::vector<int64_t>(session.description().symbols.size(), 0));
}

int64_t Generator::tokenBound() const {
  return session.description().functions[size_t(stepper)].inputs[size_t(textInput)].below.value_or(vocabulary());
}

int64_t Generator::sourceBound() const {
  int number = findText(session.description(), encoder);
  return number < 0 ? INT64_MAX
                    : session.description().functions[size_t(encoder)].inputs[size_t(number)].below.value_or(INT64_MAX);
}

int64_t Generator::longestSource() const {
  const Description &d = session.description();
  int number = findText(d, encoder);
  int symbol = number < 0 ? -1 : d.functions[size_t(encoder)].inputs[size_t(number)].dims[1].asSymbol();
  int64_t longest = INT64_MAX;
  for (const LimitInfo &limit : d.limits)
    if (limit.symbol == symbol &&
        (limit.functions.empty() || std::count(limit.functions.begin(), limit.functions.end(), encoder)))
      longest = std::min(longest, limit.atMost);
  return longest;
}

void Generator::setSource(const std::vector<int> &tokens) {
  const Description &d = session.description();
  int source = findText(d, encoder);
  if (source < 0)
    throw UserError("'encode' takes no tokens");
  Values inputs;
  inputs["tokens"] = Value::ints({1, int64_t(tokens.size())}, tokens);
  Values results = session.evaluate(encoder, inputs);
  request.clear();
  for (const TensorInfo &input : d.functions[size_t(stepper)].inputs) {
    if (input.name == d.functions[size_t(stepper)].inputs[size_t(textInput)].name)
      continue;
    if (results.count(input.name))
      request[input.name] = std::move(results[input.name]);
    else if (inputs.count(input.name))
      request[input.name] = inputs[input.name];
    else if (!input.optional && results.size() == 1)
      request[input.name] = std::move(results.begin()->second);
  }
  remembered.clear();
  fresh = true;
}

std::vector<int64_t> Generator::sizesFor(int function, int64_t past, int64_t count) const {
  const Description &d = session.description();
  std::vector<int64_t> sizes = session.inferSizes(function, request);
  if (d.batch >= 0)
    sizes[size_t(d.batch)] = 1;
  sizes[size_t(d.time)] = count;
  sizes[size_t(d.past)] = past;
  sizes[size_t(d.cap)] = std::max(options.room, past + count);
  d.completeSizes(sizes, std::max(newRows, count));
  return sizes;
}

std::span<const float> Generator::run(int function, const std::vector<int> &text, int64_t past, int64_t count) {
  const Description &d = session.description();
  const FunctionInfo &info = d.functions[size_t(function)];
  if (past + count > options.room) // half as much again, so that a growing cache is copied seldom
    options.room = std::max(past + count, std::min(longest(), (past + count) * 3 / 2 + 64));
  newRows = std::max(newRows, count);
  std::vector<int64_t> sizes = sizesFor(function, past, count);
  session.checkLimits(function, sizes);
  if (std::exchange(planned, sizes[size_t(d.cap)]) != sizes[size_t(d.cap)])
    requireMemory(session.plannedBytes(function, sizes),
                  "a text of " + std::to_string(sizes[size_t(d.cap)]) + " tokens");
  Values own;
  std::vector<const Value *> inputs;
  for (const TensorInfo &input : info.inputs) {
    if (input.name == d.functions[size_t(stepper)].inputs[size_t(textInput)].name) {
      own[input.name] = Value::ints({1, count}, std::vector<int>(text.begin() + past, text.begin() + past + count));
    } else if (!request.count(input.name)) {
      if (!input.optional)
        throw UserError("generation cannot give '" + info.name + "' its input '" + input.name + "'");
      own[input.name] = session.defaultInput(function, input, sizes);
    }
    inputs.push_back(own.count(input.name) ? &own[input.name] : &request.at(input.name));
  }
  outputs = session.makeOutputs(function, sizes);
  std::vector<Value *> pointers;
  for (Value &output : outputs)
    pointers.push_back(&output);
  session.call(function, sizes, inputs, pointers, fresh || past == 0);
  fresh = false;
  return {outputs[0].reals() + outputs[0].elements() - vocabulary(), size_t(vocabulary())};
}

std::span<const float> Generator::next(const std::vector<int> &text) {
  const Description &d = session.description();
  int64_t length = int64_t(text.size());
  if (!options.cache) // the whole function, not the step: the two check each other
    return run(full, text, 0, length);

  int64_t past = int64_t(remembered.size());
  if (past >= length || !std::equal(remembered.begin(), remembered.end(), text.begin()) || d.recompute)
    past = 0;
  auto epochAt = [&](int64_t end) { return session.epoch(stepper, sizesFor(stepper, end - 1, 1)); };
  uint64_t wanted = epochAt(length);
  if (past > 0 && wanted != epoch)
    past = 0;
  epoch = wanted;
  if (past == 0)
    fresh = true;
  std::span<const float> logits;
  while (past < length) {
    int64_t count = d.recompute ? length : std::min(options.chunk, length - past);
    while (past + count < length && epochAt(past + count) != wanted)
      count = std::min(count + options.chunk, length - past);
    logits = run(functionFor(count), text, past, count);
    past += count;
  }
  remembered = text;
  return logits;
}

} // namespace quern::runtime
