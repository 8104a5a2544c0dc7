// Takes: the program's description, inputs of a loss. Gives: which function trains what, inputs as the loss wants them.
#include "runtime/training/Training.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cstring>

namespace quern::runtime {

Training readTraining(const Program &program) {
  const char *text = program.table.description;
  nlohmann::json root = nlohmann::json::parse(text, text + program.table.descriptionBytes);
  const nlohmann::json &json = root.at("training");
  Training training;
  training.function = json.at("function");
  training.loss = program.description.findFunction("loss");
  training.nextToken = json.at("next_token");
  for (const nlohmann::json &entry : json.at("gradients")) {
    Training::Gradient &gradient = training.gradients.emplace_back();
    gradient.output = entry.at("output");
    for (size_t parameter : entry.at("parameters"))
      gradient.parameters.push_back(parameter);
  }
  return training;
}

namespace {
/// Columns `from`, `from` + 1 ... of the last dimension, one fewer than there are.
Value shortened(const Value &value, int64_t from) {
  std::vector<int64_t> shape = value.shape;
  size_t width = size_t(shape.back()--), size = elementBytes(value.storage);
  Value result = Value::make(value.storage, shape);
  for (size_t row = 0, rows = width ? size_t(value.elements()) / width : 0; row < rows; ++row)
    std::memcpy(result.data.data() + row * (width - 1) * size, value.data.data() + (row * width + size_t(from)) * size,
                (width - 1) * size);
  return result;
}

} // namespace

const TensorInfo &lossInput(const std::string &path, const Description &description, const FunctionInfo &function,
                            const std::string &name) {
  if (const TensorInfo *input = function.findInput(name))
    return *input;
  throw UserError(path + ": there is no input " + quote(name) + "; the loss takes " +
                  describeInputs(description, function));
}

void shiftToNextToken(Values &inputs, const FunctionInfo &function) {
  const std::string &text = function.inputs.at(0).name;
  auto tokens = inputs.find(text);
  if (inputs.count("labels") || tokens == inputs.end() || tokens->second.shape.empty())
    return;
  inputs["labels"] = tokens->second;
  int64_t length = tokens->second.shape.back();
  if (length < 2)
    throw UserError("a row of '" + text + "' needs two tokens: one to see and one to predict");
  for (auto &[name, value] : inputs)
    if (!value.shape.empty() && value.shape.back() == length)
      value = shortened(value, name == "labels");
}

void checkLength(const Session &session, int function, const Values &inputs) {
  const Description &d = session.description();
  std::vector<int64_t> sizes = session.inferSizes(function, inputs);
  for (const LimitInfo &limit : d.limits)
    if (sizes[size_t(limit.symbol)] > limit.atMost)
      throw UserError(format("a row has %lld tokens, but the model has only %lld positions%s%s",
                             static_cast<long long>(sizes[size_t(limit.symbol)]), static_cast<long long>(limit.atMost),
                             limit.at.empty() ? "" : ", see ", limit.at.c_str()));
}

int64_t longestTraining(const Description &description) {
  int64_t longest = INT64_MAX;
  for (const LimitInfo &limit : description.limits)
    if (limit.symbol == description.time)
      longest = std::min(longest, limit.atMost);
  return longest;
}

double countLabels(const Values &inputs) {
  auto labels = inputs.find("labels");
  if (labels == inputs.end() || labels->second.storage != Storage::I32)
    return 1;
  const int32_t *ids = labels->second.ints();
  return double(std::count_if(ids, ids + labels->second.elements(), [](int32_t id) { return id != -100; }));
}

} // namespace quern::runtime

extern "C" const quern::runtime::TrainingCommands quern_training_commands = {
    quern::runtime::gradCommand, quern::runtime::trainCommand, quern::runtime::trainBenchCommand,
    quern::runtime::trainingWorkload};
