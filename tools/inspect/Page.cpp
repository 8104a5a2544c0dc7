// Takes: all stages of a module, its kernels, the machine. Gives: one HTML file.
// How: the page's own files (page/) are built into the compiler; data stands in script elements of its own, one a
// stage, so that a browser reads only the stage that is looked at.
#include "tools/inspect/Page.h"

#include "runtime/machine/CpuFeatures.h"
#include "runtime/machine/Probe.h"
#include "runtime/machine/ThreadPool.h"
#include "support/Html.h"
#include "tools/inspect/PageFiles.h"
#include "tools/inspect/TextDiff.h"

#include "llvm/ADT/StringRef.h"

using namespace quern::tools;
using Json = nlohmann::json;

using Machine = quern::support::Machine;

Machine quern::tools::measureMachine() {
  Machine machine = support::thisMachine(runtime::cpuName());
  machine.vectors = runtime::vectorName();
  machine.threads = runtime::ThreadPool::instance().threads();
  machine.products = runtime::measureFlops();
  runtime::BandwidthProbe probe;
  machine.bandwidth = probe.measure();
  machine.known = Machine::Known::Measured;
  return machine;
}

Machine quern::tools::machineOf(const Json &profile) {
  Machine machine;
  machine.name = profile["cpu"];
  machine.threads = profile["threads"];
  machine.products = profile["limits"]["flops"];
  machine.bandwidth = profile["limits"]["bytes"];
  machine.known = Machine::Known::Profiled;
  return machine;
}

std::string quern::tools::pageJson(const Json &json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace), out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    bool ends =
        text[i] == '<' && i + 1 < text.size() && (text[i + 1] == '/' || text[i + 1] == '!' || text[i + 1] == 's');
    out += ends ? "\\u003c" : std::string(1, text[i]);
  }
  return out;
}

static std::string element(const std::string &id, const std::string &json) {
  return "<script type=\"application/json\" id=\"" + id + "\">" + json + "</script>\n";
}

static std::vector<std::string> linesOf(llvm::StringRef text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    lines.push_back(line.str());
    text = rest;
  }
  return lines;
}

/// How many lines are new and gone.
static std::pair<int, int> changesOf(const Stage &before, const Stage &after) {
  int added = 0, removed = 0;
  for (auto [x, y] : alignLines(linesOf(*before.text), linesOf(*after.text))) {
    added += x < 0;
    removed += y < 0;
  }
  return {added, removed};
}

/// Without what only an assembler reads.
static std::string readableAssembly(llvm::StringRef text) {
  std::string out;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    llvm::StringRef word = line.trim();
    if (word.empty() || word.starts_with("#") || word.starts_with(".cfi") || word.starts_with(".p2align") ||
        word.starts_with(".size") || word.starts_with(".type") || word.starts_with(".ident") ||
        word.starts_with(".addrsig") || word.starts_with(".hidden"))
      continue;
    out += line.str() + "\n";
  }
  return out;
}

static std::string replaced(std::string text, const std::string &mark, const std::string &with) {
  size_t at = text.find(mark);
  return text.substr(0, at) + with + text.substr(at + mark.size());
}

std::string quern::tools::makePage(const PageInput &input) {
  Json meta = {{"title", input.title},         {"command", input.command}, {"lengths", input.lengths},
               {"places", input.places.table}, {"files", Json::array()},   {"stages", Json::array()},
               {"kernels", Json::object()}};
  meta["config"] = Json::parse(input.config, nullptr, false).is_discarded() ? Json() : Json::parse(input.config);
  for (const std::string &name : input.places.files) {
    Json file = {{"name", name}, {"text", nullptr}};
    for (auto &[known, text] : input.sources)
      if (known == name)
        file["text"] = text;
    meta["files"].push_back(std::move(file));
  }
  meta["machine"] = {{"name", input.machine.name},
                     {"vectors", input.machine.vectors},
                     {"threads", input.machine.threads},
                     {"flops", input.machine.products},
                     {"bandwidth", input.machine.bandwidth},
                     {"measured", input.machine.known != Machine::Known::Given},
                     {"byProgram", input.machine.known == Machine::Known::Profiled}};
  for (const passes::Phase &phase : passes::phases())
    meta["phases"][phase.name] = phase.meaning;
  std::string elements;
  int data = -1;
  for (size_t i = 0; i < input.stages.size(); ++i) {
    const Stage &stage = input.stages[i];
    if (stage.changed) {
      data = static_cast<int>(i);
      elements += element("stage-" + std::to_string(i), input.modules[i]);
    }
    auto [added, removed] = i && stage.changed ? changesOf(input.stages[i - 1], stage) : std::pair(0, 0);
    meta["stages"].push_back({{"name", stage.name},
                              {"phase", stage.phase},
                              {"meaning", stage.meaning},
                              {"seconds", stage.seconds},
                              {"changed", stage.changed},
                              {"data", data},
                              {"added", added},
                              {"removed", removed},
                              {"statistics", toJson(stage.statistics, std::nullopt)}});
  }
  for (const codegen::KernelText &kernel : input.kernels)
    meta["kernels"][kernel.name] = {{"loops", kernel.loops},
                                    {"assembly", readableAssembly(kernel.assembly)},
                                    {"scratch", codegen::scratchText(kernel.scratch)}};
  meta["profile"] = input.profile;
  meta["memory"] = input.memory;
  std::string page = pageTemplate;
  page = replaced(page, "<!--TITLE-->", quern::support::htmlText(input.title));
  page = replaced(page, "/*STYLE*/", pageStyle);
  page = replaced(page, "<!--DATA-->", element("meta", pageJson(meta)) + elements);
  return replaced(page, "/*SCRIPT*/", pageScript);
}
