// Takes: a module and where the page goes. Gives: the page, complete or not at all.
#include "tools/inspect/DumpPage.h"

#include "frontend/Embedded.h"
#include "ir/Attributes.h"
#include "support/OutputFile.h"
#include "support/Processors.h"
#include "tools/inspect/MeasuredProfile.h"
#include "tools/inspect/MemoryPlan.h"
#include "tools/inspect/Page.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <filesystem>
#include <iostream>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace quern::tools;

/// Sources that locations may name, with their texts where they can be read.
static std::vector<std::pair<std::string, std::string>> sourcesOf(const std::vector<std::string> &files) {
  std::vector<std::pair<std::string, std::string>> sources;
  for (const std::string &name : files) {
    if (name == "std.quern")
      sources.emplace_back(name, std::string(quern::frontend::standardLibraryText));
    else if (auto text = llvm::MemoryBuffer::getFile(name, /*IsText=*/true))
      sources.emplace_back(name, (*text)->getBuffer().str());
  }
  return sources;
}

quern::codegen::CompileOptions quern::tools::inspectOptions(const std::string &target, const std::string &cache) {
  codegen::CompileOptions options;
  options.target = codegen::cpuTarget(target);
  options.schedules = codegen::ScheduleTable::standard();
  options.jobs = support::availableThreads();
  options.cache = cache;
  if (isatty(STDERR_FILENO))
    options.progress = [](int done, int all) {
      std::cerr << "\rkernels " << done << " of " << all << (done < all ? "" : "\r\033[K") << std::flush;
    };
  return options;
}

int quern::tools::dumpPage(mlir::ModuleOp module, const passes::PassOptions &machine, const DumpPageOptions &options) {
  PageInput page;
  if (!options.machine.empty())
    page.machine = support::machineFrom(options.machine);
  auto look = [&](Stage &stage, mlir::ModuleOp result, const Printed &printed) {
    page.modules.push_back("");
    if (stage.changed)
      page.modules.back() = pageJson(moduleJson(result, printed, page.places));
  };
  mlir::FailureOr<std::vector<Stage>> stages = collectStages(module, machine, options.from, "", false, look);
  if (mlir::failed(stages))
    return 1;
  page.stages = std::move(*stages);
  page.sources = sourcesOf(page.places.files);
  page.command = options.command;
  page.lengths = options.lengths;
  auto text = [&](llvm::StringRef name) {
    auto attr = module->getAttrOfType<mlir::StringAttr>(name);
    return attr ? attr.getValue().str() : std::string();
  };
  page.title =
      text(quern::ir::modelAttr).empty() ? fs::path(options.spec.spec).stem().string() : text(quern::ir::modelAttr);
  page.config = text(quern::ir::configAttr);

  if (!options.profile.empty())
    page.profile = readProfile(options.profile, module);
  page.memory = memoryPlan(module);
  page.kernels = codegen::describeKernels(module, inspectOptions(options.target, options.cache));
  if (options.machine.empty())
    page.machine =
        page.profile.is_object() && page.profile["limits"].is_object() ? machineOf(page.profile) : measureMachine();
  support::writeFile(options.file, makePage(page));
  return 0;
}
