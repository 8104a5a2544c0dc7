// `grad`: takes a row of tokens (or the loss's inputs by name). Gives: the loss and the gradient of every parameter, one
// tensor for each stored one, as safetensors. Why a library of its own: only programs compiled with --train link it.
#include "runtime/Commands.h"

#include "runtime/Error.h"
#include "runtime/Terminal.h"
#include "runtime/ThreadPool.h"

#include <algorithm>
#include <cstring>

namespace quern::runtime {

namespace {

const std::vector<Options::Known> known = {
    {"--weights", "PATH", "a .safetensors file, an index of shards, or a folder with one"},
    {"--input", "FILE", "the inputs of the loss as safetensors; without labels a text is its own"},
    {"--output", "FILE", "where loss and grad.PARAMETER go"},
    {"--threads", "N", "threads (all that this process may use)"},
    {"--help", nullptr, "this"}};

/// What the compiler says of training, in the description's `training`.
struct Training {
  int function = -1;
  bool nextToken = false;
  struct Gradient {
    std::string output;
    std::vector<size_t> parameters; ///< whose gradients lie in it, one after the other
  };
  std::vector<Gradient> gradients;
};

Training readTraining(const Program &program) {
  const char *text = program.table.description;
  nlohmann::json root = nlohmann::json::parse(text, text + program.table.descriptionBytes);
  const nlohmann::json &json = root.at("training");
  Training training;
  training.function = json.at("function");
  training.nextToken = json.at("next_token");
  for (const nlohmann::json &entry : json.at("gradients")) {
    Training::Gradient &gradient = training.gradients.emplace_back();
    gradient.output = entry.at("output");
    for (size_t parameter : entry.at("parameters"))
      gradient.parameters.push_back(parameter);
  }
  return training;
}

/// Columns `from`, `from` + 1 ... of the last dimension, one fewer than there are.
Value shortened(const Value &value, int64_t from) {
  std::vector<int64_t> shape = value.shape;
  size_t width = size_t(shape.back()--), size = elementBytes(value.kind);
  Value result = Value::make(value.kind, shape);
  for (size_t row = 0, rows = width ? size_t(value.elements()) / width : 0; row < rows; ++row)
    std::memcpy(result.data.data() + row * (width - 1) * size, value.data.data() + (row * width + size_t(from)) * size,
                (width - 1) * size);
  return result;
}

/// Without labels a text is its own: position t predicts token t + 1.
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

int gradCommand(const Command &command) {
  Options options("grad", known);
  options.parse(command.arguments);
  if (options.has("--help")) {
    writeOutput(options.usage("PROGRAM"));
    return 0;
  }
  for (const char *name : {"--input", "--output"})
    if (!options.has(name))
      throw UserError(std::string("grad needs ") + name + " FILE");
  ThreadPool::configure(int(options.integer("--threads", 0, 1, 1024)));
  const Description &d = command.program.description;
  Training training = readTraining(command.program);
  const FunctionInfo &function = d.functions.at(size_t(training.function));
  Values inputs;
  for (const auto &[name, tensor] : readSafetensors(MappedFile::open(options.text("--input")))) {
    auto wanted = std::find_if(function.inputs.begin(), function.inputs.end(),
                               [&name = name](const TensorInfo &input) { return input.name == name; });
    if (wanted == function.inputs.end())
      throw UserError(options.text("--input") + ": there is no input " + quote(name) + "; the loss takes " +
                      describeInputs(d, function));
    inputs[name] = convertInput(tensor, *wanted);
  }
  if (training.nextToken)
    shiftToNextToken(inputs, function);

  // Gradients have the names that the checkpoint uses, where it is at hand.
  Checkpoint checkpoint;
  if (options.has("--weights"))
    checkpoint = Checkpoint::open(options.text("--weights"));
  std::unique_ptr<Weights> weights = command.openWeights(options);
  Values results = Session(command.program, *weights).evaluate(training.function, inputs);
  std::vector<OutputTensor> outputs;
  const Value &loss = results.at("loss");
  outputs.push_back({"loss", Dtype::F32, loss.shape, loss.data.data()});
  for (const Training::Gradient &gradient : training.gradients) {
    const float *numbers = results.at(gradient.output).reals();
    for (size_t number : gradient.parameters) {
      const ParameterInfo &parameter = d.parameters.at(number);
      auto stored = std::find_if(parameter.names.begin(), parameter.names.end(),
                                 [&](const std::string &name) { return checkpoint.tensors.count(name) > 0; });
      outputs.push_back({"grad." + (stored == parameter.names.end() ? parameter.names.front() : *stored), Dtype::F32,
                         parameter.shape, numbers});
      numbers += parameter.elements();
    }
  }
  writeSafetensors(options.text("--output"), outputs);
  return 0;
}

} // namespace

} // namespace quern::runtime

extern "C" const quern::runtime::TrainingCommands quern_training_commands = {quern::runtime::gradCommand,
                                                                             quern::runtime::trainBenchCommand};
