// The compiler's work on one model as a page that needs nothing but a browser.
#ifndef QUERN_TOOLS_INSPECT_PAGE_H
#define QUERN_TOOLS_INSPECT_PAGE_H

#include "codegen/CompileKernels.h"
#include "support/Machine.h"
#include "tools/inspect/ModuleJson.h"

namespace quern::tools {

/// Measures the machine that this runs on: about a second.
support::Machine measureMachine();
/// The machine of a profile that measured it in the same run.
support::Machine machineOf(const nlohmann::json &profile);

struct PageInput {
  std::string title, command, config;
  std::vector<std::pair<std::string, std::string>> sources; ///< names as locations have them, and texts
  std::vector<Stage> stages;
  std::vector<std::string> modules; ///< pageJson of moduleJson of each stage that changed, else empty
  Places places;
  std::vector<codegen::KernelText> kernels;
  support::Machine machine; ///< the roofs of the roofline
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
