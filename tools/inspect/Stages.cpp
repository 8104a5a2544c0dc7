// Takes: a module and where to begin and end. Gives: text and numbers after each pass.
#include "tools/inspect/Stages.h"

#include "mlir/IR/AsmState.h"

using namespace mlir;
using namespace quern::tools;
using namespace quern::passes;

Printed quern::tools::print(ModuleOp module, bool locations) {
  Printed printed;
  OpPrintingFlags flags;
  if (locations)
    flags.enableDebugInfo();
  AsmState::LocationMap places;
  AsmState state(module, flags, &places);
  llvm::raw_string_ostream stream(printed.text);
  module->print(stream, state);
  for (auto &[op, place] : places)
    printed.line[op] = place.first;
  return printed;
}

FailureOr<std::vector<Stage>> quern::tools::collectStages(ModuleOp module, const PassOptions &options, StringRef from,
                                                          StringRef to, bool locations, const Look &look) {
  std::vector<Stage> stages;
  auto add = [&](Stage stage, ModuleOp result) {
    Printed printed = print(result, locations);
    stage.changed = stages.empty() || *stages.back().text != printed.text;
    stage.text = stage.changed ? std::make_shared<const std::string>(printed.text) : stages.back().text;
    stage.statistics = statisticsOf(result);
    if (look)
      look(stage, result, printed);
    stages.push_back(std::move(stage));
  };
  auto named = [](StringRef name) {
    Stage stage;
    stage.name = name.str();
    for (const Phase &phase : phases()) {
      if (phase.name == name)
        stage.phase = phase.name, stage.meaning = phase.meaning;
      for (const PassEntry &pass : phase.passes)
        if (pass.name == name)
          stage.phase = phase.name, stage.meaning = pass.meaning;
    }
    return stage;
  };
  add(named(from), module);
  if (to == from)
    return stages;
  auto after = [&](StringRef pass, ModuleOp result, double seconds) {
    Stage stage = named(pass);
    stage.seconds = seconds;
    add(std::move(stage), result);
  };
  if (failed(runPhases(module, options, from, to, after)))
    return failure();
  return stages;
}

std::vector<std::pair<std::string, std::string>> quern::tools::splitSymbols(const std::string &text) {
  std::vector<std::pair<std::string, std::string>> symbols;
  for (StringRef rest = text; !rest.empty();) {
    auto [line, after] = rest.split('\n');
    // Symbols begin at the first level of indentation, and so do the brackets that close them.
    if (line.starts_with("  ") && !line.starts_with("   ") && !line.starts_with("  }")) {
      StringRef name = line.substr(std::min(line.size(), line.find('@')));
      symbols.push_back({name.take_until([](char c) { return c == '(' || c == ' '; }).str(), ""});
    }
    if (!symbols.empty() && !line.starts_with("}"))
      symbols.back().second += line.str() + "\n";
    rest = after;
  }
  return symbols;
}
