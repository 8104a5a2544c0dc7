// quern tensors: takes files of tensors (safetensors, or JSON written by hand). Gives: their numbers as text, or one
// safetensors file of them. Why: programs read and write safetensors, and people neither.
#include "support/Error.h"
#include "support/Glob.h"
#include "tools/cli/Commands.h"
#include "tools/interpret/InterpretSafetensors.h"
#include "tools/interpret/TensorText.h"

#include <boost/program_options.hpp>

#include <algorithm>
#include <iostream>

namespace po = boost::program_options;
using namespace quern::tools;

static constexpr const char *usage =
    "usage: quern tensors FILE... [--only GLOB] [-o OUT.safetensors]\n"
    "Prints tensors of safetensors files or folders, or of JSON files {\"NAME\": [[1.0, 2.0], ...]}; with -o writes\n"
    "them as one safetensors file: reals in 32 bits, whole numbers in 64.\n\n"
    "  --only GLOB      tensors of such names (may be given again)\n"
    "  --shapes         names, types and shapes without the numbers\n"
    "  -o FILE          write instead of printing\n";

/// As programs read them.
static OutputTensor converted(const StoredTensor &tensor) {
  OutputTensor out{tensor.isFloat() ? "F32" : tensor.dtype == "BOOL" ? "BOOL" : "I64", tensor.shape, ""};
  auto keep = [&](auto numbers) {
    out.bytes.assign(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(numbers[0]));
  };
  if (tensor.isFloat()) {
    std::vector<double> numbers = tensor.asDoubles();
    keep(std::vector<float>(numbers.begin(), numbers.end()));
  } else if (tensor.dtype == "BOOL") {
    std::vector<int64_t> numbers = tensor.asInts();
    keep(std::vector<char>(numbers.begin(), numbers.end()));
  } else {
    keep(tensor.asInts());
  }
  return out;
}

int quern::tools::tensorsCommand(const Arguments &arguments) {
  std::vector<std::string> paths, only;
  std::string output;
  bool shapes = false;
  po::options_description options;
  options.add_options()("help,h", "")("only", po::value(&only), "")("shapes", po::bool_switch(&shapes), "")(
      "output,o", po::value(&output), "")("paths", po::value(&paths), "");
  po::positional_options_description positions;
  positions.add("paths", -1);
  po::variables_map map;
  po::store(po::command_line_parser(arguments).options(options).positional(positions).run(), map);
  po::notify(map);
  if (map.count("help")) {
    std::cout << usage;
    return 0;
  }
  if (paths.empty())
    throw std::runtime_error("no file of tensors given: quern tensors FILE...");
  std::map<std::string, OutputTensor> written;
  size_t found = 0;
  for (const std::string &path : paths) {
    SafetensorsFiles files(path);
    for (const auto &[name, tensor] : files.getTensors()) {
      if (!only.empty() && std::none_of(only.begin(), only.end(),
                                        [&](const std::string &glob) { return quern::support::matchGlob(glob, name); }))
        continue;
      ++found;
      if (!output.empty()) {
        if (!written.emplace(name, converted(tensor)).second)
          throw std::runtime_error("two of the files have " + quern::support::quote(name));
        continue;
      }
      std::string text = tensorText(name, tensor);
      std::cout << (shapes ? text.substr(0, text.find('\n') + 1) : text);
    }
  }
  if (!only.empty() && !found)
    throw std::runtime_error("no tensor has a name of --only");
  if (!output.empty())
    writeSafetensors(output, written);
  return 0;
}
