// Takes: a target and the options given. Gives: the options that follow from the target.
#include "tools/spec/TargetFormats.h"

#include "codegen/Targets.h"
#include "tools/spec/QuantizeText.h"

#include <filesystem>

namespace fs = std::filesystem;

bool quern::tools::takeTargetsFormats(SpecOptions &spec, const std::string &target, const std::string &weights,
                                      const boost::program_options::variables_map &given) {
  if (codegen::cpuTarget(target).device != "cuda" || spec.spec.ends_with(".mlir") || given.count("precision"))
    return false;
  if (given.count("quantize")) {
    spec.roundsRows = !spec.train && !given.count("activations");
    return spec.roundsRows;
  }
  fs::path config = spec.config.empty() ? weights : spec.config;
  if (config.extension() == ".json")
    config = config.parent_path();
  if (spec.train)
    spec.precision = "bf16";
  else if (quantizeOfCheckpoint(config.empty() ? "." : config.string()).empty())
    spec.quantize = "w16a16";
  else
    spec.roundsRows = !given.count("activations");
  if (!spec.train && !given.count("kv-cache"))
    spec.kvCache = "bf16";
  return true;
}
