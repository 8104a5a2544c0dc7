// The compiler's work on one model as a page that needs nothing but a browser.
#ifndef QUERN_TOOLS_INSPECT_PAGE_H
#define QUERN_TOOLS_INSPECT_PAGE_H

#include "codegen/CompileKernels.h"
#include "tools/inspect/ModuleJson.h"

namespace quern::tools {

/// What the roofs of the roofline are, and how they are known.
struct Machine {
  std::string name, vectors;
  int threads = 1;
  double flops = 0, bandwidth = 0; ///< a second
  bool measured = true;
  bool byProgram = false; ///< by the program that was profiled
};
/// Measures the machine that this runs on: about a second.
Machine measureMachine();
/// The machine of a profile that measured it in the same run.
Machine machineOf(const nlohmann::json &profile);
/// "420,20": GFLOP/s and GB/s. Throws std::runtime_error otherwise.
Machine parseMachine(const std::string &text);

struct PageInput {
  std::string title, command, config;
  std::vector<std::pair<std::string, std::string>> sources; ///< names as locations have them, and texts
  std::vector<Stage> stages;
  std::vector<std::string> modules; ///< pageJson of moduleJson of each stage that changed, else empty
  Places places;
  std::vector<codegen::KernelText> kernels;
  Machine machine;
  Lengths lengths;
  nlohmann::json profile; ///< readProfile; null: nothing was measured
  nlohmann::json memory;  ///< memoryPlan
};

/// JSON that may stand in a script element.
std::string pageJson(const nlohmann::json &json);
/// The whole page. It asks for nothing: style, scripts and data are inside.
std::string makePage(const PageInput &input);

} // namespace quern::tools
#endif
