// Takes: a command's words. Gives: the module of the spec that they name, or everything that is wrong with it.
#include "tools/spec/SpecOptions.h"

#include "codegen/PlanKernels.h"
#include "codegen/schedule/ChoosePlan.h"
#include "frontend/Frontend.h"
#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "ir/analysis/Options.h"
#include "ir/analysis/SourceLines.h"
#include "passes/weights/Adapters.h"
#include "passes/weights/WeightFormats.h"
#include "support/Nearest.h"
#include "tools/crash/CrashReport.h"
#include "tools/spec/QuantizeText.h"

#include "runtime/gguf/Gguf.h"
#include "support/Files.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <unistd.h>

namespace po = boost::program_options;
using namespace quern::tools;

void quern::tools::addSpecOptions(po::options_description &options, SpecOptions &spec) {
  options.add_options()("spec", po::value(&spec.spec)->required(),
                        "the model: SPEC.quern, or an .mlir file from quern dump")(
      "config", po::value(&spec.config), "config.json of the model, the folder that holds it, or a GGUF file")(
      "set", po::value(&spec.settings)->composing(), "NAME=VALUE: a config field, as the spec or the file names it");
}

void quern::tools::addTrain(po::options_description &options, SpecOptions &spec) {
  options.add_options()("train", po::bool_switch(&spec.train),
                        "with the gradient of the loss: programs get the commands train and grad")(
      "precision", po::value(&spec.precision),
      "bf16 or f16: the weights of products in two bytes, the rest in f32 (with --train bf16 alone, also for what a "
      "gradient keeps; default: f32, for --target cuda bf16); stored: as the checkpoint has them, where that loses "
      "nothing (what quern run "
      "CHECKPOINT does)");
  addQuantize(options, spec);
  addLora(options, spec);
  options.add_options()(
      "activations", po::value(&spec.activations),
      "exact; int8: what multiplies weights in codes becomes int8 with a scale for each 32 numbers beside int8, for "
      "128 beside other codes (+a8 after each of their formats), however these came to be in codes; bf16: what "
      "multiplies weights in codes or in bf16 is "
      "rounded to that (+a16; default: exact)")(
      "kv-cache", po::value(&spec.kvCache),
      "f32, bf16 or int8: what generation keeps of each position, keys and values (default: bf16 where weights are in "
      "16 bits or fewer, but f32 where a whole text is read at once, as by eval; else f32); int8: codes with a scale "
      "for "
      "each head and position");
}

void quern::tools::addLora(po::options_description &options, SpecOptions &spec) {
  options.add_options()(
      "lora", po::value(&spec.lora),
      "RANK[,GLOB]...: low-rank adapters beside the matrices of the layers, or those that a GLOB names; with --train "
      "they are all that is trained, and --quantize may keep the rest in codes; programs that are not trained add them "
      "without merging")("lora-scale", po::value(&spec.loraScale)->default_value(2, "2"),
                         "what an adapter's product is multiplied by in a program to be trained");
}

void quern::tools::addQuantize(po::options_description &options, SpecOptions &spec) {
  options.add_options()(
      "quantize",
      po::value(&spec.quantize)->notifier([&spec](const std::string &given) { spec.quantize = quantizeText(given); }),
      "FORMAT[,GLOB=FORMAT]... or a FILE of lines GLOB = FORMAT: the weights of products in int8 or int4, groups of 32 "
      "with a scale each (int8_g128: of 128); int4 keeps int8 for those outside of layers (the head). q4_k, q5_k, "
      "q6_k: super-blocks of "
      "256 as GGUF's K-quants; the first two keep q6_k for the head. q8_k, q4_1, q5_1, q4_z: what files with IQ4_XS, "
      "with Q4_1, Q5_1 or with zero points have. FORMAT+a8 of these, w8a8, w8a8_g128, w4a8: what they multiply becomes "
      "int8, too; "
      "FORMAT+a16, w8a16, w4a16: bf16. w16a16: weights, too, in bf16 (the default of --target cuda). f8_e4m3, f8_e5m2: "
      "floats of one byte, groups of 128. The "
      "last GLOB that fits a weight's name decides (formats: "
      "also bf16, f16, f32)");
}

void quern::tools::addWithout(po::options_description &options, std::vector<std::string> &without) {
  options.add_options()("without", po::value(&without)->composing(),
                        "PASS[,PASS]: leave optional passes or rules out (quern dump --list-passes names them)");
}

bool quern::tools::parseOptions(const Arguments &arguments, const std::string &usage, po::options_description &options,
                                po::variables_map &values, const char *positional) {
  options.add_options()("help,h", "this text");
  po::positional_options_description positions;
  if (*positional)
    positions.add(positional, -1);
  try {
    po::store(po::command_line_parser(arguments).options(options).positional(positions).run(), values);
    if (values.count("help")) {
      std::cout << "usage: " << usage << "\n\n" << options;
      return false;
    }
    po::notify(values);
  } catch (const po::unknown_option &error) {
    std::vector<std::string> names;
    for (const auto &option : options.options())
      names.push_back("--" + option->long_name());
    std::string meant = quern::support::didYouMean(error.get_option_name(), names);
    throw std::runtime_error(error.what() + meant + (meant.empty() ? "; " : " ") + "--help lists all\nusage: " + usage);
  } catch (const po::required_option &error) {
    std::string name = error.get_option_name();
    if (name == std::string("--") + positional) { // as the usage names it: "quern run MODEL ...", "quern fmt SPEC..."
      std::string words = usage.substr(usage.find(' ', usage.find(' ') + 1) + 1);
      name = words.substr(0, words.find_first_of(" ."));
    }
    throw std::runtime_error(name + " is missing\nusage: " + usage);
  } catch (const po::multiple_occurrences &error) {
    if (error.get_option_name() == "--spec")
      throw std::runtime_error(
          "MODEL is given twice; a spec for a checkpoint's folder is used as SPEC.quern --config FOLDER "
          "--weights FOLDER\nusage: " +
          usage);
    throw std::runtime_error(std::string(error.what()) + "\nusage: " + usage);
  } catch (const po::error &error) {
    throw std::runtime_error(std::string(error.what()) + "\nusage: " + usage);
  }
  return true;
}

bool quern::tools::useColour() {
  const char *no = std::getenv("NO_COLOR");
  return isatty(STDERR_FILENO) && !(no && *no);
}

/// The file, mapped, if it is a GGUF one.
static std::shared_ptr<const quern::runtime::MappedFile> gguf(const std::string &path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) // a pipe can be read once only
    return nullptr;
  auto file = quern::runtime::MappedFile::open(path);
  return quern::runtime::GgufFile::isGguf(*file) ? file : nullptr;
}

void quern::tools::takeConfig(SpecOptions &spec, const std::string &weights) {
  if (!spec.config.empty() || weights.empty())
    return;
  std::string inside = support::isFolder(weights) ? support::ggufOf(weights) : weights;
  if (support::isFolder(weights) && support::fileExists(weights + "/config.json"))
    spec.config = weights;
  else if (gguf(inside))
    spec.config = inside;
}

bool quern::tools::readInput(const SpecOptions &options, quern::frontend::SpecInput &input,
                             quern::frontend::Diagnostics &diagnostics) {
  std::optional<std::filesystem::path> config;
  if (!options.config.empty())
    config = std::filesystem::is_directory(options.config) ? std::filesystem::path(options.config) / "config.json"
                                                           : std::filesystem::path(options.config);
  std::shared_ptr<const runtime::MappedFile> stored = config ? gguf(config->string()) : nullptr;
  if (stored) {
    input.configText = runtime::ggufConfig(runtime::GgufFile(stored)).dump(2);
    input.configName = options.config;
    config.reset();
  }
  if (options.builtin.empty()) {
    if (!quern::frontend::readSpec(options.spec, config, input, diagnostics))
      return false;
  } else {
    input.name = options.spec;
    input.text = options.builtin;
    if (config && !quern::frontend::readConfig(*config, input, diagnostics))
      return false;
  }
  input.train = options.train;
  for (const std::string &text : options.settings) {
    std::optional<quern::frontend::Setting> setting = quern::frontend::parseSetting(text);
    if (!setting)
      throw std::runtime_error("--set " + text + ": NAME=VALUE is needed");
    input.settings.push_back(*setting);
  }
  return true;
}

/// What `differentiate` needs of a spec; said here, as it is no fault of the compiler.
static void checkLoss(mlir::ModuleOp module, const std::string &spec) {
  auto loss = module.lookupSymbol<mlir::func::FuncOp>("loss");
  if (!loss)
    throw std::runtime_error(
        spec + " has no function 'loss', and none follows from its 'forward': a gradient is that of a loss "
               "(docs/training.md)");
  auto type = mlir::cast<quern::ir::NamedTensorType>(loss.getResultTypes().front());
  if (loss.getNumResults() == 1 && !type.getRank() && type.isReal())
    return;
  std::string given = loss.getNumResults() > 1 ? "gives several results" : "is no real number";
  if (loss.getNumResults() == 1 && type.getRank()) {
    std::vector<std::string> dims;
    for (quern::ir::DimAttr dim : type.getDims())
      dims.push_back(dim.getName().str());
    given = "has a value for each position of [" + llvm::join(dims, ", ") + "]; take its mean or sum over them";
  }
  mlir::SmallVector<mlir::FileLineColLoc> lines = quern::ir::sourceLines(loss.getLoc());
  throw std::runtime_error((lines.empty() ? spec : quern::ir::textOf(lines.front())) + ": 'loss' " + given +
                           ": a gradient is that of one real number (docs/training.md)");
}

/// f32, or what is widened for that. Nothing is written in f16, whose range is too small for some of what a model computes.
static quern::ir::Storage precisionAsked(const std::string &name, bool written) {
  if (name == "stored")
    throw std::runtime_error("--precision stored asks a checkpoint, which quern compile, run and tune read; here f32, "
                             "bf16 or f16 is needed");
  if (name != "f32" && name != "bf16" && (name != "f16" || written))
    throw std::runtime_error("--precision " + name +
                             (written ? ": f32 or bf16 is needed" : ": f32, bf16 or f16 is needed"));
  return *quern::support::storageByName(name);
}

/// --activations: the same formats, with rows that are rounded for all weights beside which they can be.
static std::string withActivations(const quern::ir::ProgramOptions &asked, const std::string &activations) {
  const quern::ir::Storage rows = *quern::support::storageByName(activations);
  const bool inPairs = asked.quantize.empty() && asked.precision == quern::ir::Storage::BF16;
  std::string result = quern::passes::withRows(inPairs ? "bf16" : asked.quantize, rows);
  if (!quern::passes::WeightFormats::parse(result, asked.precision).roundsRows())
    throw std::runtime_error(
        activations == "int8"
            ? "--activations int8 is of what multiplies weights in codes of integers, and none are: --quantize int8, "
              "int4 or q4_k, or a checkpoint that has codes, is needed"
            : "--activations bf16 is of what multiplies weights in codes or in bf16, and none are: --precision bf16, "
              "--quantize int8 or q4_k, or a checkpoint that has codes, is needed");
  return result;
}

static void checkCaches(const std::string &given) {
  if (!given.empty() && given != "f32" && given != "bf16" && given != "int8")
    throw std::runtime_error("--kv-cache " + given + ": f32, bf16 or int8 is needed");
}

/// Where nobody says, a step remembers two bytes of a number if some weights are of two or fewer: who reads fewer bytes of weights
/// for a token reads fewer of its text. Whole texts are then what the weights make them: nothing is rounded unasked.
static void takeCaches(quern::ir::ProgramOptions &asked, const std::string &given) {
  asked.cachesOfSteps = given.empty() && !asked.train && quern::passes::WeightFormats::of(asked).narrows();
  asked.caches = !given.empty()        ? *quern::support::storageByName(given)
                 : asked.cachesOfSteps ? quern::ir::Storage::BF16
                                       : quern::ir::Storage::F32;
}

/// What is trained is in f32 (or copied in bf16), and rows that are rounded have no gradient.
static void checkAdapters(const SpecOptions &options) {
  if (!options.lora.empty())
    quern::passes::AdapterChoice::parse(options.lora);
  if (options.loraScale < 0 || !std::isfinite(options.loraScale))
    throw std::runtime_error("--lora-scale needs a number of at least 0");
  if (!options.train || options.quantize.empty())
    return;
  if (options.lora.empty())
    throw std::runtime_error(
        "--quantize keeps weights in codes, which --train does not change: --lora RANK trains adapters "
        "beside them; or leave --train or --quantize out");
  if (options.precision != "f32")
    throw std::runtime_error(
        "--train --lora has weights in codes (--quantize) or in bf16 (--precision): leave one out");
  if (options.activations != "exact" ||
      quern::passes::WeightFormats::parse(options.quantize, quern::ir::Storage::F32).roundsRows())
    throw std::runtime_error(
        "--train: rows that are rounded (+a8, +a16, w8a8, w4a8, w8a16, w4a16, w16a16, --activations) have no gradient; "
        "--quantize with a format of weights alone is needed");
}

/// MLIR's parser calls itself for each level of brackets, and runs out of stack. A module of the compiler has about 30.
static void checkDepth(llvm::StringRef text, const std::string &file) {
  static constexpr int most = 500;
  int depth = 0, line = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      while (++i < text.size() && text[i] != '"' && text[i] != '\n')
        i += text[i] == '\\';
      c = i < text.size() ? text[i] : ' ';
    } else if (c == '/' && text.substr(i + 1).starts_with("/")) {
      i = std::min(text.find('\n', i), text.size());
      c = '\n';
    }
    if (c == '\n')
      ++line;
    else if (c == '(' || c == '[' || c == '{' || c == '<')
      ++depth;
    else if (c == ')' || c == ']' || c == '}' || (c == '>' && text[i - 1] != '-'))
      --depth;
    if (depth > most)
      throw std::runtime_error(file + ":" + std::to_string(line) + ": more than " + std::to_string(most) +
                               " levels of brackets");
  }
}

mlir::OwningOpRef<mlir::ModuleOp> quern::tools::readModule(mlir::MLIRContext &context, const SpecOptions &options,
                                                           std::vector<frontend::NamedValue> *names) {
  context.loadDialect<quern::ir::QuernDialect, mlir::func::FuncDialect>();
  // Passes run on whole modules: threads would gain nothing, and where the system starts none, LLVM ends the process.
  context.disableMultithreading();
  quern::ir::Storage precision = precisionAsked(options.precision, options.train);
  checkCaches(options.kvCache);
  checkAdapters(options);
  quern::passes::WeightFormats::parse(options.quantize, precision);
  if (options.activations != "exact" && options.activations != "int8" && options.activations != "bf16")
    throw std::runtime_error("--activations " + options.activations + ": exact, int8 or bf16 is needed");
  if (llvm::StringRef(options.spec).ends_with(".mlir")) {
    if (!options.quantize.empty())
      throw std::runtime_error("--quantize belongs to a spec; " + options.spec + " has its own already");
    if (options.activations != "exact")
      throw std::runtime_error("--activations belongs to a spec; " + options.spec + " has its own already");
    if (!options.lora.empty())
      throw std::runtime_error("--lora belongs to a spec; " + options.spec + " has its own already");
    if (!options.kvCache.empty())
      throw std::runtime_error("--kv-cache belongs to a spec; " + options.spec + " has its own already");
    if (options.precision != "f32")
      throw std::runtime_error("--precision belongs to a spec; " + options.spec + " has its own already");
    if (!options.config.empty() || !options.settings.empty())
      throw std::runtime_error("--config and --set belong to a spec; " + options.spec +
                               " has its config bound already");
    std::string text = quern::support::readFile(options.spec);
    keepInput(options.spec, text, "", {});
    checkDepth(text, options.spec);
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context, options.spec);
  }
  quern::frontend::Diagnostics diagnostics;
  quern::frontend::SpecInput input;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  if (readInput(options, input, diagnostics)) {
    Arguments words;
    for (const std::string &setting : options.settings)
      words.insert(words.end(), {"--set", setting});
    if (options.train)
      words.push_back("--train");
    if (options.precision != "f32")
      words.insert(words.end(), {"--precision", options.precision});
    if (!options.quantize.empty())
      words.insert(words.end(), {"--quantize", options.quantize});
    if (!options.lora.empty())
      words.insert(words.end(),
                   {"--lora", options.lora, "--lora-scale", llvm::formatv("{0}", options.loraScale).str()});
    if (options.activations != "exact" || options.roundsRows)
      words.insert(words.end(), {"--activations", options.roundsRows ? "bf16" : options.activations});
    if (!options.kvCache.empty())
      words.insert(words.end(), {"--kv-cache", options.kvCache});
    keepInput(options.spec, input.text, input.configText.value_or(""), words);
    module = quern::frontend::elaborate(context, input, diagnostics, names);
    if (module) {
      quern::ir::ProgramOptions asked = quern::ir::optionsOf(*module);
      asked.precision = precision;
      asked.quantize = options.quantize.empty() && !options.train
                           ? quantizeOfConfig(input.configText.value_or(""), input.configName)
                           : options.quantize;
      asked.lora = options.lora;
      asked.loraScale = options.loraScale;
      if (options.activations != "exact")
        asked.quantize = withActivations(asked, options.activations);
      else if (options.roundsRows)
        asked.quantize = quern::passes::withRows(asked.quantize, quern::ir::Storage::BF16);
      takeCaches(asked, options.kvCache);
      quern::ir::setOptions(*module, asked);
    }
  }
  if (options.warnings || diagnostics.hasErrors())
    diagnostics.print(std::cerr, useColour());
  if (diagnostics.hasErrors())
    return nullptr;
  if (options.train && module)
    checkLoss(*module, options.spec);
  return module;
}

static constexpr llvm::StringLiteral headerStart = "// ---- after ";

std::string quern::tools::dumpHeader(const std::string &after) {
  return headerStart.str() + after + "\n";
}

Arguments quern::tools::withCompileFrom(const Arguments &arguments) {
  Arguments out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    llvm::StringRef word = arguments[i];
    bool joined = word.consume_front("--compile-from=");
    if (!joined && word == "--compile-from" && i + 1 < arguments.size())
      word = arguments[i + 1];
    else if (!joined)
      word = "";
    if (!word.ends_with(".mlir")) {
      out.push_back(arguments[i]);
      continue;
    }
    out.push_back(word.str());
    i += !joined;
  }
  return out;
}

std::string quern::tools::startOf(const SpecOptions &options, const std::string &given) {
  std::string start = given;
  if (given.empty() && llvm::StringRef(options.spec).ends_with(".mlir"))
    if (quern::support::fileExists(options.spec)) { // else reading it says so
      std::string text = quern::support::readFile(options.spec);
      llvm::StringRef body = text;
      if (body.count("\nmodule") + body.starts_with("module") > 1)
        throw std::runtime_error(options.spec + " holds several modules; quern dump --after PASS writes one");
      if (body.consume_front(headerStart))
        start = body.take_until([](char c) { return c == '\n'; }).str();
    }
  if (start.empty())
    return "resolved";
  checkGoal("resolved", start);
  return start;
}

int quern::tools::orderOf(llvm::StringRef name) {
  int order = 0;
  for (const passes::Phase &phase : passes::phases()) {
    for (const passes::PassEntry &pass : phase.passes) {
      ++order;
      if (pass.name == name)
        return order;
    }
    if (phase.name == name)
      return order;
  }
  return -1;
}

void quern::tools::checkGoal(const std::string &from, const std::string &to) {
  if (!passes::isPhaseOrPass(to)) {
    std::vector<std::string> names;
    for (const passes::Phase &phase : passes::phases()) {
      names.push_back(phase.name);
      for (const passes::PassEntry &pass : phase.passes)
        names.push_back(pass.name);
    }
    std::string meant = support::didYouMean(to, names);
    throw std::runtime_error("no phase or pass is named '" + to + "'" + meant + (meant.empty() ? "; see" : " See") +
                             " quern dump --list-passes");
  }
  if (orderOf(to) < orderOf(from))
    throw std::runtime_error("the module stands at '" + from + "' already, which is later than '" + to + "'");
}

quern::codegen::ScheduleTable quern::tools::scheduleTable(const std::string &path) {
  codegen::ScheduleTable table = codegen::ScheduleTable::standard();
  if (path.empty())
    return table;
  table.add(quern::support::readFile(path), path);
  return table;
}

quern::passes::PassOptions quern::tools::passOptions(const std::string &target, const std::string &schedules,
                                                     const std::vector<std::string> &without) {
  codegen::CpuTarget cpu = codegen::cpuTarget(target);
  codegen::ScheduleTable table = scheduleTable(schedules);
  passes::PassOptions options;
  options.machine = cpu.machine;
  options.packing = codegen::packingRule(table, cpu);
  options.rowsOfExperts = {.codes = codegen::byteProducts(cpu) != codegen::ByteProducts::None,
                           .bf16 = codegen::multipliesTiles(cpu)};
  options.narrowAttention = codegen::gainsByBF16(cpu);
  options.pairCodes = codegen::byteProducts(cpu) == codegen::ByteProducts::Pairs;
  if (cpu.device == "cuda") // which has the memory, and wants rows for all of its processors
    options.logitsBytes = int64_t(1) << 30;
  options.planning = [cpu, table](mlir::ModuleOp module) { return codegen::planKernels(module, {cpu, table}); };
  Arguments words = {"--target", target};
  if (!schedules.empty())
    words.insert(words.end(), {"--schedules", schedules});
  for (const std::string &names : without) {
    options.without.add(names);
    words.insert(words.end(), {"--without", names});
  }
  keepOptions(words);
  options.before = [](llvm::StringRef pass) { enterPass(pass.str()); };
  return options;
}
