// quern interpret: a program's `eval` in double precision, by the reference interpreter.
#include "passes/Phases.h"
#include "passes/time/TimeAnalysis.h"
#include "tools/cli/Commands.h"
#include "tools/interpret/Interpret.h"
#include "tools/spec/SpecOptions.h"

#include <cmath>

namespace po = boost::program_options;
using namespace quern::tools;

/// NaN, or beyond 32 bits; masks are made of -infinity, so that alone breaks nothing.
static bool isBroken(const quern::ir::Array &array) {
  if (!array.isReal())
    return false;
  return std::any_of(array.reals(), array.reals() + array.getCount(), [](double x) {
    return std::isnan(x) ||
           (std::fabs(x) > std::numeric_limits<float>::max() && x != -std::numeric_limits<double>::infinity());
  });
}

/// A training step that breaks leaves its inputs behind: reports the operation where it began, once.
static void watchForBroken(InterpretOptions &options) {
  options.observer = [found = false](mlir::Operation *op, llvm::ArrayRef<quern::ir::Array> operands,
                                     llvm::ArrayRef<quern::ir::Array> results,
                                     const quern::ir::Interpreter &interpreter) mutable {
    if (found || llvm::none_of(results, isBroken))
      return;
    found = true;
    mlir::InFlightDiagnostic note =
        op->emitWarning("this is the first operation with a result that is NaN or overflows 32 bits: '")
        << op->getName().stripDialect() << "'";
    if (op->getParentOfType<quern::ir::RepeatOp>())
      note << ", in iteration " << interpreter.getIteration() << " of its loop";
    if (llvm::any_of(operands, isBroken))
      note << "; an operand has it already: an input of the function";
  };
}

int quern::tools::interpretCommand(const Arguments &arguments) {
  SpecOptions spec;
  InterpretOptions interpret;
  bool firstBroken = false, values = false;
  uint64_t seed = 0;
  std::string after, start, target = "native";
  std::vector<std::string> without;
  po::options_description options("options");
  addSpecOptions(options, spec);
  addTrain(options, spec);
  addWithout(options, without);
  options.add_options()("weights", po::value(&interpret.weights),
                        "safetensors file or folder, or JSON {\"NAME\": [[1.0, 2.0], ...]}")(
      "adapter", po::value(&interpret.adapter),
      "with --lora: the adapter's tensors under PEFT's names, such a file or folder (default: zeros)")(
      "input", po::value(&interpret.input), "the function's parameters by name, in such a file")(
      "output", po::value(&interpret.output),
      "safetensors file for the results")("print", po::bool_switch(&interpret.print), "the results as text")(
      "values", po::bool_switch(&values), "with --print: first every value that the spec names")(
      "seed", po::value(&seed), "without --weights: the seed of initial values as the spec gives them (~)")(
      "function", po::value(&interpret.function), "default: forward, or encode and decode")(
      "first-broken", po::bool_switch(&firstBroken), "name the first operation that makes a NaN or overflows 32 bits")(
      "after", po::value(&after),
      "interpret the module after this pass or phase (default: where the module stands, resolved)")(
      "target", po::value(&target), "with --after: the machine that passes round for, as `quern compile` has it")(
      "compile-from", po::value(&start), "PHASE that an .mlir file is in (a dump names it itself)");
  po::variables_map given;
  if (!parseOptions(arguments, "quern interpret SPEC --weights W --input IN (--output OUT | --print) [options]",
                    options, given))
    return 0;
  if (interpret.output.empty() && !interpret.print && !firstBroken)
    throw std::runtime_error("--output FILE or --print is needed: where the results go");
  if (values && !interpret.print)
    throw std::runtime_error("--values belongs to --print");
  if (given.count("seed")) {
    if (!interpret.weights.empty())
      throw std::runtime_error("--seed makes parameters; --weights has them");
    interpret.seed = seed;
  }
  if (firstBroken)
    watchForBroken(interpret);
  std::string from = startOf(spec, start);
  if (spec.train && interpret.function.empty())
    interpret.function = "loss.grad";
  if (after.empty())
    after = spec.train && orderOf(from) < orderOf("differentiated") ? "differentiated" : from;
  checkGoal(from, after);
  mlir::MLIRContext context;
  std::vector<quern::frontend::NamedValue> names;
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, spec, &names);
  if (!module)
    return 1;
  if (orderOf(after) > orderOf(from) &&
      mlir::failed(quern::passes::runPhases(*module, passOptions(target, "", without), from, after)))
    return 1;
  if (values && orderOf(after) > orderOf(from))
    throw std::runtime_error("--values are those of the spec: after a pass they are gone");
  if (values)
    for (const quern::frontend::NamedValue &named : names)
      if (quern::ir::linesOf(named.where).second.empty()) // not in the library's blocks
        interpret.named[named.value].push_back(named.name);
  return interpretMain(*module, interpret);
}
