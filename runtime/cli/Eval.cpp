// `eval`: takes tensors by the names of a function's parameters. Gives: its results, as safetensors.
#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/cli/GivenInputs.h"
#include "runtime/cli/ProfileReport.h"
#include "runtime/machine/Terminal.h"

#include <algorithm>

namespace quern::runtime {

namespace {

const std::vector<Options::Known> known = {
    weightsOption,
    adapterOption,
    {"--input", "FILE", "the function's parameters as safetensors, by the spec's names or Hugging Face's"},
    {"--output", "FILE", "where the results go"},
    {"--function", "NAME", "the function (forward; encode and then decode)"},
    {"--threads", "N", "threads (all that this process may use)"},
    {"--help", nullptr, "this"}};

/// The functions to run, in order, so that each can get the results of those before.
std::vector<int> plan(const Description &d, const Options &options) {
  if (options.has("--function")) {
    std::string name = options.text("--function");
    int number = d.findFunction(name);
    if (number < 0 || d.functions[size_t(number)].role != "eval") {
      std::vector<std::string> names;
      std::string list;
      for (const FunctionInfo &function : d.functions)
        if (function.role == "eval") {
          names.push_back(function.name);
          list += (list.empty() ? "" : ", ") + function.name;
        }
      throw UserError("the model has no function " + quote(name) + didYouMean(name, names) + " (it has " + list + ")");
    }
    return {number};
  }
  std::vector<int> functions;
  for (const char *name : {"encode", "decode", "forward"})
    if (int number = d.findFunction(name); number >= 0)
      functions.push_back(number);
  for (size_t i = 0; i < d.functions.size() && functions.empty(); ++i)
    if (d.functions[i].role == "eval")
      functions.push_back(int(i));
  if (functions.empty())
    throw UserError("the program has no function to evaluate");
  return functions;
}

} // namespace

bool openFileCommand(Options &options, const std::string &name, const Command &command) {
  options.parse(command.arguments);
  if (options.has("--help")) {
    writeOutput(options.usage("PROGRAM"));
    return false;
  }
  for (const char *file : {"--input", "--output"})
    if (!options.has(file))
      throw UserError(name + " needs " + file + " FILE");
  configureThreads(options);
  return true;
}

int evalCommand(const Command &command) {
  Options options("eval", withProfileOptions(known));
  if (!openFileCommand(options, "eval", command))
    return 0;
  const Description &d = command.program.description;
  std::vector<int> functions = plan(d, options);

  // Names first: all that is wrong with them at once, before weights are touched.
  auto isInput = [&](const std::string &name) {
    return std::any_of(functions.begin(), functions.end(),
                       [&](int number) { return d.functions[size_t(number)].findInput(name); });
  };
  std::map<std::string, StoredTensor> stored = readInputs(options.text("--input"), isInput);
  std::string problems, takes;
  std::map<std::string, bool> made; // results of functions that run before
  for (int number : functions) {
    const FunctionInfo &function = d.functions[size_t(number)];
    takes += (takes.empty() ? "" : "; ") + function.name + " takes " + describeInputs(d, function);
    for (const TensorInfo &input : function.inputs)
      if (!input.optional && !stored.count(input.name) && !made.count(input.name))
        problems += "the input '" + input.name + "' is missing; ";
    for (const TensorInfo &output : function.outputs)
      if (!made.emplace(output.name, true).second)
        throw UserError("two functions give '" + output.name + "'; --function NAME runs one of them");
  }
  for (const auto &[name, tensor] : stored)
    if (!isInput(name))
      problems += "there is no input " + quote(name) + "; ";
  if (!problems.empty())
    throw UserError(options.text("--input") + ": " + problems + takes);

  Values results;
  std::vector<std::pair<int, Values>> inputs;
  for (int number : functions) {
    Values own;
    for (const TensorInfo &input : d.functions[size_t(number)].inputs)
      if (auto found = stored.find(input.name); found != stored.end())
        own[input.name] = convertInput(found->second, input);
    inputs.emplace_back(number, std::move(own));
  }
  std::unique_ptr<Weights> weights = command.openWeights(options);
  ProfileReport report(options, d);
  Session session(command.program, *weights);
  for (auto &[number, own] : inputs) {
    for (const TensorInfo &input : d.functions[size_t(number)].inputs)
      if (!own.count(input.name) && results.count(input.name))
        own[input.name] = results[input.name];
    for (auto &[name, value] : session.evaluate(number, own))
      results[name] = std::move(value);
  }

  std::vector<OutputTensor> outputs;
  for (const auto &[name, value] : results)
    outputs.push_back({name,
                       value.storage == Storage::F32   ? Dtype::F32
                       : value.storage == Storage::I32 ? Dtype::I32
                                                       : Dtype::BOOL,
                       value.shape, value.data.data()});
  writeSafetensors(options.text("--output"), outputs);
  return report.finish();
}

} // namespace quern::runtime
