// Takes: a function's number, lengths and tensors. Gives: results, after one call into generated code.
// Everything that generated code takes for granted (shapes that agree, numbers in range, room in the caches) is made
// sure of here.
#include "runtime/engine/Session.h"

#include "runtime/Error.h"
#include "runtime/machine/Profile.h"
#include "runtime/machine/ThreadPool.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace quern::runtime {

Value Value::make(Storage storage, std::vector<int64_t> shape) {
  Value value{storage, std::move(shape), {}};
  int64_t count = 1;
  for (int64_t length : value.shape)
    count = checkedMultiply(count, length);
  checkedMultiply(count, 4);
  value.data.resize(size_t(count) * elementBytes(storage));
  return value;
}

Value Value::ints(std::vector<int64_t> shape, const std::vector<int> &content) {
  Value value = make(Storage::I32, std::move(shape));
  std::memcpy(value.data.data(), content.data(), std::min(value.data.size(), content.size() * 4));
  return value;
}

int64_t Value::elements() const {
  return int64_t(data.size() / elementBytes(storage));
}

Program::Program(const quern_program_table &table) : table(table) {
  if (table.abiVersion != QUERN_ABI_VERSION)
    throw UserError(format("this program follows version %d of the interface, its runtime version %d", table.abiVersion,
                           QUERN_ABI_VERSION));
  description = Description::parse({table.description, size_t(table.descriptionBytes)});
  if (size_t(table.entryCount) != description.functions.size())
    throw UserError("the program's table and its description disagree");
}

std::string describeTensor(const TensorInfo &tensor) {
  std::string text = tensor.name + ": " + support::elementName(tensor.storage) + "[";
  for (size_t i = 0; i < tensor.dims.size(); ++i)
    text += (i ? ", " : "") + tensor.dims[i].str();
  return text + "]" + (tensor.optional ? " (may be left out)" : "");
}

std::string describeInputs(const Description &, const FunctionInfo &function) {
  std::string text;
  for (const TensorInfo &input : function.inputs)
    text += (text.empty() ? "" : ", ") + describeTensor(input);
  return text.empty() ? "nothing" : text;
}

std::vector<int64_t> Session::shapeOf(const TensorInfo &tensor, const std::vector<int64_t> &sizes) const {
  std::vector<int64_t> shape;
  for (const SizeExpr &dim : tensor.dims) {
    shape.push_back(dim.evaluate(sizes));
    if (shape.back() < 0)
      throw UserError("'" + tensor.name + "' would have a length below zero");
  }
  return shape;
}

std::vector<int64_t> Session::inferSizes(int number, const Values &inputs) const {
  const Description &d = program.description;
  const FunctionInfo &function = d.functions[size_t(number)];
  std::vector<int64_t> sizes(d.symbols.size(), 0);
  std::vector<std::string> from(d.symbols.size());
  for (const TensorInfo &input : function.inputs) {
    auto given = inputs.find(input.name);
    if (given == inputs.end())
      continue;
    const std::vector<int64_t> &shape = given->second.shape;
    if (shape.size() != input.dims.size())
      throw UserError("input " + describeTensor(input) + " has the shape " + shapeText(shape));
    for (size_t i = 0; i < shape.size(); ++i) {
      int symbol = input.dims[i].asSymbol();
      if (symbol < 0)
        continue;
      if (from[size_t(symbol)].empty()) {
        sizes[size_t(symbol)] = shape[i];
        from[size_t(symbol)] = input.name;
      } else if (sizes[size_t(symbol)] != shape[i]) {
        throw UserError(format("input '%s' has the shape %s, where %s is %lld, but '%s' makes it %lld",
                               input.name.c_str(), shapeText(shape).c_str(), d.symbols[size_t(symbol)].c_str(),
                               static_cast<long long>(shape[i]), from[size_t(symbol)].c_str(),
                               static_cast<long long>(sizes[size_t(symbol)])));
      }
    }
  }
  if (d.cap >= 0 && d.time >= 0)
    sizes[size_t(d.cap)] = sizes[size_t(d.time)];
  d.completeSizes(sizes, d.time >= 0 ? sizes[size_t(d.time)] : 0);
  return sizes;
}

void Session::checkShapes(int number, const Values &inputs, const std::vector<int64_t> &sizes) const {
  const FunctionInfo &function = program.description.functions[size_t(number)];
  for (const TensorInfo &input : function.inputs) {
    auto given = inputs.find(input.name);
    if (given == inputs.end())
      continue;
    const Value &value = given->second;
    if (value.shape != shapeOf(input, sizes))
      throw UserError("input " + describeTensor(input) + " has the shape " + shapeText(value.shape) + ", not " +
                      shapeText(shapeOf(input, sizes)));
    if (value.elements() == 0)
      throw UserError("input '" + input.name + "' is empty");
    if (value.storage != input.storage)
      throw UserError("input " + describeTensor(input) + " got " + support::elementName(value.storage) + " numbers");
    if (input.storage != Storage::I32 || !input.below)
      continue;
    for (int64_t i = 0; i < value.elements(); ++i)
      if (int32_t id = value.ints()[i]; id < 0 || id >= *input.below)
        throw UserError(format("'%s' holds %d at place %lld; it must be from 0 to %lld", input.name.c_str(), id,
                               static_cast<long long>(i), static_cast<long long>(*input.below - 1)));
  }
}

int64_t Session::longestText(int number) const {
  int64_t longest = INT64_MAX;
  for (const LimitInfo &limit : program.description.limits)
    if (limit.symbol == program.description.time &&
        (limit.functions.empty() || std::count(limit.functions.begin(), limit.functions.end(), number)))
      longest = std::min(longest, limit.atMost);
  return longest;
}

void Session::checkLimits(int number, const std::vector<int64_t> &sizes) const {
  const Description &d = program.description;
  for (const LimitInfo &limit : d.limits) {
    if (!limit.functions.empty() && !std::count(limit.functions.begin(), limit.functions.end(), number))
      continue;
    int64_t length = sizes[size_t(limit.symbol)] + (limit.plusPast && d.past >= 0 ? sizes[size_t(d.past)] : 0);
    if (length > limit.atMost)
      throw UserError(format("the text has %lld tokens (%s), but the model has only %lld positions%s%s",
                             static_cast<long long>(length), d.symbols[size_t(limit.symbol)].c_str(),
                             static_cast<long long>(limit.atMost),
                             limit.name.empty() ? "" : (" (" + limit.name + ")").c_str(),
                             limit.at.empty() ? "" : (", see " + limit.at).c_str()));
  }
}

std::vector<Value> Session::makeOutputs(int number, const std::vector<int64_t> &sizes) const {
  std::vector<Value> outputs;
  for (const TensorInfo &output : program.description.functions[size_t(number)].outputs)
    outputs.push_back(Value::make(output.storage, shapeOf(output, sizes)));
  return outputs;
}

std::vector<size_t> Session::outputBytes(int number, const std::vector<int64_t> &sizes) const {
  std::vector<size_t> all;
  for (const TensorInfo &output : program.description.functions[size_t(number)].outputs) {
    all.push_back(elementBytes(output.storage));
    for (int64_t length : shapeOf(output, sizes))
      all.back() *= size_t(length);
  }
  return all;
}

uint64_t Session::epoch(int number, const std::vector<int64_t> &sizes) const {
  const quern_entry &entry = program.table.entries[number];
  return entry.epoch ? entry.epoch(sizes.data()) : 0;
}

void Session::call(int number, const std::vector<int64_t> &sizes, const std::vector<const Value *> &inputs,
                   const std::vector<Value *> &outputs, Cache &cache, bool first) {
  std::vector<void *> pointers;
  for (Value *output : outputs)
    pointers.push_back(output->data.data());
  callInto(number, sizes, inputs, pointers, cache, first);
}

static uint64_t bytes(quern_bytes of, const std::vector<int64_t> &sizes) {
  return of ? uint64_t(of(sizes.data())) : 0;
}

void Session::callInto(int number, const std::vector<int64_t> &sizes, const std::vector<const Value *> &inputs,
                       const std::vector<void *> &outputs, Cache &cache, bool first) {
  const Description &d = program.description;
  const quern_entry &entry = program.table.entries[number];
  int64_t arenaBytes = entry.arenaBytes(sizes.data()), keptBytes = entry.keptBytes(sizes.data());
  if (arenaBytes < 0 || keptBytes < 0)
    throw UserError("the text is too long: what the model would compute does not fit 64 bits");
  if (size_t(arenaBytes) > arena.size()) {
    runtime::requireMemory(uint64_t(arenaBytes), "the model's intermediate results");
    arena.reset(size_t(arenaBytes) + size_t(arenaBytes) / 8); // so that a growing text does not come here every step
  }
  scratch.plan(bytes(entry.callerScratch, sizes), bytes(entry.workerScratch, sizes));
  if (cache.empty())
    cache = Cache(where);
  cache.kept.ensure(size_t(keptBytes));
  cache.ensure(d, number, sizes);
  if (d.past >= 0 && sizes[size_t(d.past)] == 0)
    cache.clearSums(d);

  std::vector<const void *> inputPointers;
  for (const Value *input : inputs)
    inputPointers.push_back(input->data.data());
  std::vector<void *> outputPointers = outputs;
  std::vector<size_t> fetched;
  const void *const *const *slots = nullptr;
  if (where.isHost()) {
    slots = weights.slots();
  } else {
    if (!side)
      useMirrors({});
    slots = side->slots();
    for (size_t i = 0; i < inputs.size(); ++i)
      inputPointers[i] = inputs[i]->there ? inputs[i]->there : side->input(number, i, inputs[i]->data);
    fetched = outputBytes(number, sizes);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (where.holds(outputs[i]))
        fetched[i] = 0;
      else
        outputPointers[i] = side->output(i, fetched[i]);
  }
  std::vector<void *> states = cache.pointers();
  CallRecorder *recorder = CallRecorder::active();
  quern_call call{sizes.data(),    inputPointers.data(), outputPointers.data(),
                  slots,           states.data(),        arena.data(),
                  first ? 1 : 0,   cache.kept.data(),    recorder ? recorder->hooks() : nullptr,
                  where.services()};
  if (recorder) {
    recorder->watch(where);
    recorder->beginCall(number, sizes, uint64_t(arenaBytes), Cache::plannedBytes(d, number, sizes));
  }
  int32_t result = where.run(scratch, entry.run, call);
  bool waits = recorder || fetched.empty();
  for (size_t i = 0; i < fetched.size(); ++i)
    if (fetched[i]) {
      where.copy(outputs[i], outputPointers[i], fetched[i]);
      waits = true;
    }
  if (waits) // else whoever fetches a result does
    where.synchronise();
  if (recorder) {
    recorder->endCall();
    recorder->check();
  }
  if (result == 0)
    return;
  const std::vector<CheckInfo> &checks = d.checks;
  size_t check = size_t(-(result + 1));
  if (result > 0 || check >= checks.size())
    throw MachineError(format("function %s failed with status %d", d.functions[size_t(number)].name.c_str(), result));
  throw UserError((checks[check].at.empty() ? "" : checks[check].at + ": ") + checks[check].message);
}

void Session::useMirrors(const std::vector<Mirror> &mirrors) {
  if (!where.isHost())
    side.reset(quern_make_device_side(where, program.description, weights, mirrors));
}

void Session::resendWeights() {
  if (side)
    side->send();
}

uint64_t Session::plannedScratch(int number, const std::vector<int64_t> &sizes) const {
  const quern_entry &entry = program.table.entries[number];
  return bytes(entry.callerScratch, sizes) +
         uint64_t(ThreadPool::instance().threads() - 1) * bytes(entry.workerScratch, sizes);
}

uint64_t Session::plannedBytes(int number, const std::vector<int64_t> &sizes) const {
  const quern_entry &entry = program.table.entries[number];
  return bytes(entry.arenaBytes, sizes) + bytes(entry.keptBytes, sizes) + plannedScratch(number, sizes) +
         Cache::plannedBytes(program.description, number, sizes);
}

void Session::requireMemory(int number, const std::vector<int64_t> &sizes, const std::string &purpose) const {
  const quern_entry &entry = program.table.entries[number];
  runtime::requireMemory(bytes(entry.arenaBytes, sizes) + bytes(entry.keptBytes, sizes) +
                             bytes(entry.callerScratch, sizes) +
                             Cache::plannedBytes(program.description, number, sizes),
                         purpose);
}

Value Session::defaultInput(int number, const TensorInfo &input, const std::vector<int64_t> &sizes) {
  const Description &d = program.description;
  const std::string &name = d.functions[size_t(number)].name;
  int found = d.findFunction(input.fallback);
  if (found < 0)
    throw UserError("the program has no default for input '" + input.name + "' of " + name);
  std::vector<Value> outputs = makeOutputs(found, sizes);
  if (outputs.size() != 1)
    throw UserError("the program's default for input '" + input.name + "' is not one tensor");
  Cache own(where);
  call(found, sizes, {}, {&outputs[0]}, own, true);
  return std::move(outputs[0]);
}

Session::Prepared Session::prepare(int number, const Values &given) {
  const FunctionInfo &function = program.description.functions[size_t(number)];
  std::string problems;
  for (const auto &[name, value] : given)
    if (!function.findInput(name))
      problems += "there is no input " + quote(name) + "; ";
  for (const TensorInfo &input : function.inputs)
    if (!input.optional && !given.count(input.name))
      problems += "input '" + input.name + "' is missing; ";
  if (!problems.empty())
    throw UserError(problems + function.name + " takes " + describeInputs(program.description, function));

  Prepared ready;
  ready.sizes = inferSizes(number, given);
  checkShapes(number, given, ready.sizes);
  checkLimits(number, ready.sizes);
  for (const TensorInfo &input : function.inputs) {
    auto found = given.find(input.name);
    ready.inputs.push_back(found != given.end()
                               ? &found->second
                               : &(ready.defaults[input.name] = defaultInput(number, input, ready.sizes)));
  }
  requireMemory(number, ready.sizes, "a batch of so many rows and positions");
  return ready;
}

Values Session::evaluate(int number, const Values &given) {
  Prepared ready = prepare(number, given);
  std::vector<Value> outputs = makeOutputs(number, ready.sizes);
  std::vector<void *> pointers;
  for (Value &output : outputs)
    pointers.push_back(output.data.data());
  callInto(number, ready.sizes, ready.inputs, pointers, whole, true);
  Values result;
  for (size_t i = 0; i < outputs.size(); ++i)
    result[program.description.functions[size_t(number)].outputs[i].name] = std::move(outputs[i]);
  return result;
}

void Session::evaluateInto(int number, const Values &given, const std::vector<void *> &outputs) {
  Prepared ready = prepare(number, given);
  callInto(number, ready.sizes, ready.inputs, outputs, whole, true);
}

} // namespace quern::runtime
