// quern list: the architectures that the compiler knows by their checkpoints.
#include "frontend/Architectures.h"
#include "tools/cli/Commands.h"
#include "tools/spec/SpecOptions.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <iostream>

namespace po = boost::program_options;
using quern::frontend::Architecture;
using quern::frontend::architectures;
using Json = nlohmann::ordered_json;

static std::string joined(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "-" : text;
}

static void printTable() {
  std::vector<std::array<std::string, 4>> rows = {{"model_type", "spec", "what it does", "checkpoints"}};
  for (const Architecture &one : architectures())
    rows.push_back({joined(one.modelTypes), one.spec + ".quern", one.kind + ": " + one.command, joined(one.classes)});
  std::array<size_t, 4> widths{};
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  for (const auto &row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i)
      std::cout << row[i] << std::string(widths[i] - row[i].size() + 2, ' ');
    std::cout << row.back() << "\n";
  }
  std::cout << "\nquern run MODEL, with a checkpoint (a folder, a GGUF file, ORG/NAME in the Hugging Face cache), runs "
               "any of these.\n"
               "quern init --from FOLDER writes a spec to a file; docs/porting.md is about models that are not here.\n";
}

static void printJson() {
  Json list = Json::array();
  for (const Architecture &one : architectures())
    list.push_back({{"spec", one.spec},
                    {"model_types", one.modelTypes},
                    {"architectures", one.classes},
                    {"kind", one.kind},
                    {"command", one.command}});
  std::cout << list.dump() << "\n";
}

int quern::tools::listCommand(const Arguments &arguments) {
  bool json = false;
  po::options_description options("options");
  options.add_options()("json", po::bool_switch(&json), "as JSON");
  po::variables_map values;
  if (!parseOptions(arguments, "quern list [--json]", options, values, ""))
    return 0;
  if (json)
    printJson();
  else
    printTable();
  return 0;
}
