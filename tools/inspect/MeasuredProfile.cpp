// Takes: a profile's file and a planned module. Gives: the measured times, if they are of this module's launches.
// Why checked: a page that showed another program's times beside these kernels would be believed.
#include "tools/inspect/MeasuredProfile.h"

#include "codegen/KernelCosts.h"
#include "codegen/LaunchCosts.h"
#include "ir/Attributes.h"
#include "ir/analysis/Functions.h"
#include "support/Files.h"
#include "support/Json.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace quern::ir;
namespace codegen = quern::codegen;
using Json = nlohmann::json;

/// In the order in which the host program numbers them.
static std::vector<LaunchOp> launchesOf(ModuleOp planned) {
  std::vector<LaunchOp> launches;
  for (auto function : planned.getOps<func::FuncOp>())
    if (!isEpoch(function))
      function.walk<WalkOrder::PreOrder>([&](LaunchOp launch) { launches.push_back(launch); });
  return launches;
}

static std::string modelOf(ModuleOp planned) {
  auto name = planned->getAttrOfType<StringAttr>(modelAttr);
  return name ? name.getValue().str() : "";
}

/// What a launch of the profile and the module's of the same number do not have in common; empty: nothing.
static std::string difference(const Json &measured, LaunchOp launch, const std::string &function) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
  std::string theirs = "@" + measured.at("name").get<std::string>() + " launches " +
                       measured.at("kernel").get<std::string>() + " (" + measured.at("title").get<std::string>() + ")";
  std::string where = "launch " + std::to_string(measured.at("launch").get<int>());
  if (measured.at("name") != function || measured.at("kernel") != launch.getKernel().str())
    return where + ": there " + theirs + ", here @" + function + " launches " + launch.getKernel().str() + " (" +
           codegen::titleOf(launch) + ")";
  int64_t iterations = 1;
  for (Operation *parent = launch->getParentOp(); isa<RepeatOp>(parent); parent = parent->getParentOp())
    iterations *= static_cast<int64_t>(cast<RepeatOp>(parent).getIterations());
  if (measured.at("iterations") != iterations)
    return where + ": there " + theirs + " " + std::to_string(measured.at("iterations").get<int64_t>()) +
           " times (layers), here " + std::to_string(iterations);
  if (measured.at("content") != codegen::contentOf(kernel))
    return where + ": there " + theirs +
           ", which computes something else than the kernel of that name here: other sizes, " +
           "another --precision or --target";
  return "";
}

static Json checked(const std::string &path, const Json &profile, ModuleOp planned) {
  auto refuse = [&](const std::string &why) { throw std::runtime_error(path + ": " + why); };
  if (!profile.contains("kinds") || !profile.contains("launches_in_code"))
    refuse("a profile of an older program; compile the program again and measure it again");
  std::string model = profile.at("model"), here = modelOf(planned);
  if (model != here)
    refuse("a profile of model " + model + ", and this page is of " + here);
  std::vector<LaunchOp> launches = launchesOf(planned);
  if (profile.at("launches_in_code") != launches.size())
    refuse("a profile of another program: its code has " + std::to_string(profile.at("launches_in_code").get<int>()) +
           " launches, this one " + std::to_string(launches.size()) +
           "; compile and dump with the same config, --set, --train, --precision, --without and --target");
  std::map<int, std::string> functions;
  for (const Json &function : profile.at("functions"))
    functions[function.at("function")] = function.at("name");
  Json busy = Json::object();
  for (Json measured : profile.at("kernels")) {
    size_t number = measured.at("launch");
    if (number >= launches.size())
      refuse("its launch " + std::to_string(number) + " is not in its code");
    measured["name"] = functions[measured.at("function")];
    LaunchOp launch = launches[number];
    if (std::string differs = difference(measured, launch, launch->getParentOfType<func::FuncOp>().getSymName().str());
        !differs.empty())
      refuse("a profile of another program: " + differs);
    busy[std::to_string(number)] = measured.at("busy_ns");
  }
  return {{"file", quern::support::nameOf(path)},      {"cpu", profile.at("cpu")},
          {"threads", profile.at("threads")},          {"kinds", profile.at("kinds")},
          {"limits", profile.value("limits", Json())}, {"busy", std::move(busy)}};
}

Json quern::tools::readProfile(const std::string &path, ModuleOp planned) {
  std::string text = quern::support::readFile(path);
  quern::support::checkJsonDepth(text, path);
  Json profile = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!profile.is_object() || !profile.contains("quern_profile"))
    throw std::runtime_error(path +
                             ": no profile; PROGRAM bench --profile FILE writes one, as all commands of a program do");
  try {
    return checked(path, profile, planned);
  } catch (const Json::exception &error) {
    throw std::runtime_error(path + ": not a whole profile: " + error.what());
  }
}
