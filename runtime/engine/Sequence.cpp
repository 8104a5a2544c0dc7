// Takes: the tokens so far. Gives: the logits of the next one, and the next one.
//
// The step function sees only new rows; the cache holds what it keeps of the others. What it keeps can depend on the
// text's whole length through comparisons (longrope): their answers are the epoch, and where it flips, the text is read
// again from its start. So a long text is read in chunks only while all their ends answer as its own end does; else in
// one call.
#include "runtime/engine/Sequence.h"

#include "runtime/Error.h"
#include "runtime/engine/Batch.h"
#include "runtime/machine/Profile.h"

#include <algorithm>
#include <utility>

namespace quern::runtime {

Engine::Engine(const Program &program, const Weights &weights, Options options)
    : how(options), text(TextFunctions::find(program.description, options.cache)),
      own(std::make_unique<Session>(program, weights)), memory(*own) {}

Engine::Engine(Session &session) : text(TextFunctions::find(session.description(), true)), memory(session) {}

Sequence::Sequence(Engine &engine, const Options &options)
    : engine(engine), options(options), sampler(options.sampling), ownToken(engine.session().device()) {
  this->options.room = std::min(options.room, engine.longest());
}

Sequence::~Sequence() {
  there = nullptr; // nobody will ask
  if (batch)
    batch->leave(*this);
}

void Sequence::setSource(const std::vector<int> &tokens) {
  if (findText(engine.description(), engine.functions().encoder) < 0)
    throw UserError("'encode' takes no tokens");
  setRequest({{"tokens", Value::ints({1, int64_t(tokens.size())}, tokens)}});
}

void Sequence::setRequest(Values given) {
  const Description &d = engine.description();
  const TextFunctions &functions = engine.functions();
  Values results;
  if (functions.hasSource()) {
    Values inputs;
    for (const TensorInfo &input : d.functions[size_t(functions.encoder)].inputs)
      if (auto found = given.find(input.name); found != given.end())
        inputs[input.name] = found->second;
    results = engine.session().evaluate(functions.encoder, inputs);
  }
  request.clear();
  const FunctionInfo &step = d.functions[size_t(functions.main())];
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const TensorInfo &input = step.inputs[i];
    if (int(i) == functions.textInput)
      continue;
    if (results.count(input.name))
      request[input.name] = std::move(results[input.name]);
    else if (given.count(input.name))
      request[input.name] = std::move(given[input.name]);
    else if (!input.optional && results.size() == 1)
      request[input.name] = std::move(results.begin()->second);
  }
  read = answered = 0;
  fresh = true;
}

void Sequence::become(const Sequence &other) {
  if (&other == this)
    return;
  if (batch != other.batch)
    throw UserError("a text becomes another of the same batch, or both are alone");
  text = other.text;
  epoch = other.epoch;
  there = nullptr;
  answer = other.answer;
  if (other.there) { // a copy of its own: the other's will not stay
    answer.resize(size_t(engine.vocabulary()));
    engine.session().device().copy(answer.data(), other.there, answer.size() * sizeof(float));
  }
  answered = other.answered;
  read = other.read;
  if (batch) {
    batch->copyRow(other, *this);
    return;
  }
  request = other.request;
  cache = other.cache.clone(engine.description(), int64_t(other.read));
  planned = other.planned;
  newRows = other.newRows;
  options.room = other.options.room;
  fresh = other.fresh;
}

void Sequence::truncate(size_t length) {
  if (length >= text.size())
    return;
  text.resize(length);
  answered = 0;
  if (read > length)
    read = Cache::rewinds(engine.description(), engine.functions().main()) ? length : 0;
}

std::vector<int64_t> Sequence::sizesFor(int function, int64_t past, int64_t count) const {
  const Description &d = engine.description();
  std::vector<int64_t> sizes = engine.session().inferSizes(function, request);
  for (auto [symbol, value] :
       {std::pair{d.batch, int64_t(1)}, {d.time, count}, {d.past, past}, {d.cap, std::max(options.room, past + count)}})
    if (symbol >= 0)
      sizes[size_t(symbol)] = value;
  d.completeSizes(sizes, std::max(newRows, count));
  return sizes;
}

void Sequence::run(int function, int64_t past, int64_t count) {
  Session &session = engine.session();
  const Description &d = engine.description();
  const FunctionInfo &info = d.functions[size_t(function)];
  int64_t longest = session.longestText(function);
  if (past + count > options.room) // half as much again, so that a growing cache is copied seldom
    options.room = std::max(past + count, std::min(longest, (past + count) * 3 / 2 + 64));
  newRows = std::max(newRows, count);
  there = nullptr;
  std::vector<int64_t> sizes = sizesFor(function, past, count);
  session.checkLimits(function, sizes);
  int64_t room = d.cap >= 0 ? sizes[size_t(d.cap)] : count;
  if (std::exchange(planned, room) != room)
    session.requireMemory(function, sizes, "a text of " + std::to_string(room) + " tokens");
  Values own;
  std::vector<const Value *> inputs;
  for (const TensorInfo &input : info.inputs) {
    if (&input - info.inputs.data() == findText(d, function)) {
      own[input.name] = Value::ints({1, count}, std::vector<int>(text.begin() + past, text.begin() + past + count));
      if (count == 1 && lastThere == text[size_t(past)])
        own[input.name].there = tokenThere;
    } else if (!request.count(input.name)) {
      if (!input.optional)
        throw UserError("generation cannot give '" + info.name + "' its input '" + input.name + "'");
      own[input.name] = session.defaultInput(function, input, sizes);
    }
    inputs.push_back(own.count(input.name) ? &own[input.name] : &request.at(input.name));
  }
  std::vector<size_t> bytes = session.outputBytes(function, sizes);
  std::vector<void *> outputs;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == results.size())
      results.emplace_back(session.device());
    results[i].ensure(bytes[i]);
    outputs.push_back(results[i].data());
  }
  session.callInto(function, sizes, inputs, outputs, cache, fresh || past == 0);
  size_t logits = size_t(findLogits(info)), row = size_t(engine.vocabulary()) * sizeof(float);
  there = results[logits].data() + bytes[logits] - row; // of the last position
  fresh = false;
}

/// Reads what is new in the text.
void Sequence::readOn() {
  const Description &d = engine.description();
  const TextFunctions &functions = engine.functions();
  int64_t length = int64_t(text.size());
  if (!engine.options().cache) // the whole function, not the step: the two check each other
    return run(functions.full, 0, length);

  auto epochAt = [&](int64_t end) {
    return engine.session().epoch(functions.step, sizesFor(functions.step, end - 1, 1));
  };
  uint64_t wanted = epochAt(length);
  // The last token is read again where only its logits are missing.
  int64_t past = d.recompute || wanted != epoch ? 0 : std::min(int64_t(read), length - 1);
  if (past < int64_t(read) && past > 0 && !Cache::rewinds(d, functions.step))
    past = 0;
  epoch = wanted;
  read = 0; // until all is well
  if (past == 0)
    fresh = true;
  for (int64_t count; past < length; past += count) {
    count = d.recompute ? length : std::min(options.chunk, length - past);
    while (past + count < length && epochAt(past + count) != wanted)
      count = std::min(count + options.chunk, length - past);
    run(functions.functionFor(d, count), past, count);
  }
  read = text.size();
}

void Sequence::advance() {
  if (text.empty())
    throw UserError("a text without a token has no logits");
  if (answered == text.size())
    return;
  if (batch)
    batch->giveBack(*this);
  readOn();
  answered = text.size();
}

void Sequence::fetch() {
  if (!there)
    return;
  answer.resize(size_t(engine.vocabulary()));
  engine.session().device().copy(answer.data(), std::exchange(there, nullptr), answer.size() * sizeof(float));
}

/// Before the memory that they are in gets other content.
void Sequence::keepLogits() {
  if (answered == text.size())
    fetch();
  there = nullptr;
}

std::span<const float> Sequence::logits() {
  advance();
  fetch();
  return answer;
}

/// A padded vocabulary has rows of logits without a word.
void Sequence::checkToken(int token) const {
  if (token >= engine.tokenBound())
    throw UserError(format("the model chose token %d, for which it has no embedding", token));
}

/// By the device that has the logits: all that comes to the host is the token, which is at hand for the next call.
int Sequence::chooseThere(const Draw &draw) {
  Device &device = engine.session().device();
  if (!tokenThere) {
    ownToken.ensure(sizeof(int32_t));
    tokenThere = ownToken.data();
  }
  device.chooser()->choose(draw, there, engine.vocabulary(), tokenThere);
  int32_t token = -1;
  bool ahead = readsAhead() && device.beginFetch(tokenThere, sizeof(token));
  if (ahead) {
    constexpr int unknown = 0; // here; the call reads the device's
    text.push_back(lastThere = unknown);
    try {
      readOn();
    } catch (...) { // the text is as it was, and nobody has read it
      text.pop_back();
      read = answered = 0;
      throw;
    }
    text.pop_back();
    device.endFetch(&token, sizeof(token));
  } else {
    device.copy(&token, tokenThere, sizeof(token));
  }
  lastThere = token;
  if (token < 0) {
    read = answered = 0;
    throw UserError(noFiniteLogits);
  }
  if (ahead)
    answered = text.size() + 1;
  return token;
}

/// Whether the next token may be read before the host knows it: a text that ends with it can go back, and everything else of
/// the call is known.
bool Sequence::readsAhead() const {
  const Description &d = engine.description();
  const TextFunctions &functions = engine.functions();
  int64_t length = int64_t(text.size()) + 1;
  return !batch && engine.options().cache && !d.recompute && length <= engine.longest() && !CallRecorder::active() &&
         Cache::rewinds(d, functions.step) &&
         engine.session().epoch(functions.step, sizesFor(functions.step, length - 1, 1)) == epoch;
}

int Sequence::choose() {
  advance();
  std::optional<Draw> draw = there && engine.session().device().chooser() ? sampler.draw() : std::nullopt;
  int token = draw ? chooseThere(*draw) : sampler.next(text, logits());
  text.push_back(token);
  checkToken(token);
  return token;
}

Chosen Sequence::chooseScored() {
  Chosen chosen = sampler.nextScored(text, logits());
  text.push_back(chosen.token);
  checkToken(chosen.token);
  return chosen;
}

} // namespace quern::runtime
