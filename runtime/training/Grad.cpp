// `grad`: takes a row of tokens (or the loss's inputs by name). Gives: the loss and the gradient of every parameter,
// one tensor for each stored one, as safetensors. Why a library of its own: only programs compiled with --train link
// it.
#include "runtime/cli/Commands.h"
#include "runtime/cli/GivenInputs.h"
#include "runtime/cli/ProfileReport.h"
#include "runtime/training/Training.h"

#include "runtime/Error.h"
#include "runtime/machine/Terminal.h"
#include "runtime/machine/ThreadPool.h"

#include <algorithm>

namespace quern::runtime {

namespace {

const std::vector<Options::Known> known = {
    weightsOption,
    adapterOption,
    {"--input", "FILE", "the inputs of the loss as safetensors; without labels a text is its own"},
    {"--output", "FILE", "where loss and grad.PARAMETER go"},
    {"--threads", "N", "threads (all that this process may use)"},
    {"--help", nullptr, "this"}};

} // namespace

int gradCommand(const Command &command) {
  Options options("grad", withProfileOptions(known));
  if (!openFileCommand(options, "grad", command))
    return 0;
  const Description &d = command.program.description;
  Training training = readTraining(command.program);
  const FunctionInfo &function = d.functions.at(size_t(training.function));
  Values inputs;
  auto isInput = [&](const std::string &name) { return function.findInput(name); };
  for (const auto &[name, tensor] : readInputs(options.text("--input"), isInput))
    inputs[name] = convertInput(tensor, lossInput(options.text("--input"), d, function, name));
  if (training.nextToken)
    shiftToNextToken(inputs, function);

  // Gradients have the names that the checkpoint uses, where it is at hand.
  std::unique_ptr<TensorSource> source;
  if (options.has("--weights"))
    source = TensorSource::open(options.text("--weights"));
  std::unique_ptr<Weights> weights = command.openWeights(options);
  ProfileReport report(options, d);
  Session session(command.program, *weights);
  checkLength(session, training.function, inputs);
  Values results = session.evaluate(training.function, inputs);
  std::vector<OutputTensor> outputs;
  const Value &loss = results.at("loss");
  outputs.push_back({"loss", Dtype::F32, loss.shape, loss.data.data()});
  for (const Training::Gradient &gradient : training.gradients) {
    const float *numbers = results.at(gradient.output).reals();
    for (size_t number : gradient.parameters) {
      const ParameterInfo &parameter = d.parameters.at(number);
      auto stored = std::find_if(parameter.names.begin(), parameter.names.end(),
                                 [&](const std::string &name) { return source && source->find(name); });
      outputs.push_back({"grad." + (stored == parameter.names.end() ? parameter.names.front() : *stored), Dtype::F32,
                         parameter.shape, numbers});
      numbers += parameter.elements();
    }
  }
  writeSafetensors(options.text("--output"), outputs);
  return report.finish();
}

} // namespace quern::runtime
