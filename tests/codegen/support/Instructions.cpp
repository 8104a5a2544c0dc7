// Takes: a kernel's assembly and a target. Gives: the instructions that the target lacks, as GNU's assembler names them.
// Why the assembler: it knows for each instruction which feature it belongs to, so nothing is listed here twice.
#include "tests/codegen/support/Instructions.h"

#include "codegen/halide/HalideProducer.h"
#include "codegen/schedule/Schedule.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <unistd.h>

namespace quern::codegen {

static std::string textOf(const std::string &path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Linux's names to those of GNU's assembler, where they differ.
static std::string extensionOf(const std::string &feature) {
  for (auto [linuxName, gnuName] : {std::pair{"sse4_1", "sse4.1"},
                                    {"sse4_2", "sse4.2"},
                                    {"bmi1", "bmi"},
                                    {"abm", "lzcnt"},
                                    {"3dnowprefetch", "prfchw"}})
    if (feature == linuxName)
      return gnuName;
  return feature;
}

std::string assembleFor(const CpuTarget &target, const std::string &assembly, const std::string &object) {
  std::string processor = "generic64", errors = object + ".errors";
  for (const std::string &feature : target.features)
    processor += "+" + extensionOf(feature);
  std::string command = "as -march=" + processor + " -o " + object + " " + assembly + " 2> " + errors;
  bool failed = std::system(command.c_str()) != 0;
  std::string said = textOf(errors), text = textOf(assembly);
  std::filesystem::remove(errors);
  if (failed)
    return said.empty() ? "failed: " + command : said;
  int vector = text.find("%zmm") != std::string::npos ? 16 : text.find("%ymm") != std::string::npos ? 8 : 4;
  return vector == target.vector ? ""
                                 : "registers of " + std::to_string(vector) + " floats are used, those of " +
                                       target.name + " hold " + std::to_string(target.vector);
}

/// What `use` makes of the file.
static void withAssembly(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules,
                         const std::function<void(const std::string &path)> &use) {
  char folder[] = "/tmp/quern_assembly_XXXXXX";
  std::string path = mkdtemp(folder);
  KernelPlan plan = halideProducer().choose(graph, target, schedules);
  halideProducer().make(graph, plan, target, "k", EmitForm::Assembly, path + "/k.s");
  use(path + "/k.s");
  std::filesystem::remove_all(path);
}

int countOf(const std::string &text, const std::string &word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++count;
  return count;
}

int vectorsSpilled(const std::string &assembly, int products) {
  static const std::regex label(R"(^(\.L\w+):)"), jump(R"(^\tj\w+\t(\.L\w+))"),
      spill(R"(^\tvmov\w+\t%[xyz]mm\d+, [^,]*\(%r[sb]p)"), product(R"(^\tvf(n?madd|msub)\w+\t)");
  struct Line {
    bool spills, multiplies;
  };
  std::vector<Line> lines;
  std::map<std::string, size_t> places;
  int spilled = 0;
  std::istringstream text(assembly);
  std::smatch found;
  size_t innermost = 0; // what ends before this has a loop within
  for (std::string line; std::getline(text, line);) {
    if (std::regex_search(line, found, label))
      places[found[1]] = lines.size();
    lines.push_back({std::regex_search(line, spill), std::regex_search(line, product)});
    if (!std::regex_search(line, found, jump) || !places.contains(found[1]))
      continue;
    const size_t begin = places[found[1]];
    if (begin >= innermost) {
      auto count = [&](bool Line::*what) {
        return int(std::count_if(lines.begin() + begin, lines.end(), [&](const Line &one) { return one.*what; }));
      };
      if (count(&Line::multiplies) >= products)
        spilled += count(&Line::spills);
    }
    innermost = lines.size();
  }
  return spilled;
}

std::string assemblyOf(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules) {
  std::string text;
  withAssembly(graph, target, schedules, [&](const std::string &path) { text = textOf(path); });
  return text;
}

std::vector<std::string> foreignToEach(const KernelGraph &graph, const CpuTarget &target,
                                       const std::vector<CpuTarget> &allowed) {
  std::vector<std::string> wrong;
  withAssembly(graph, target, ScheduleTable::standard(), [&](const std::string &path) {
    for (const CpuTarget &one : allowed)
      wrong.push_back(assembleFor(one, path, path + ".o"));
  });
  return wrong;
}

std::string foreignInstructions(const KernelGraph &graph, const CpuTarget &target, const CpuTarget &allowed) {
  return foreignToEach(graph, target, {allowed})[0];
}

} // namespace quern::codegen
