// Takes: what --quantize was given, or a config.json. Gives: formats in the one form that passes read.
#include "tools/spec/QuantizeText.h"

#include "passes/weights/WeightFormats.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/Json.h"

#include "llvm/ADT/StringRef.h"

#include <stdexcept>

using llvm::StringRef;
using quern::support::quote;

namespace quern::tools {

static constexpr uint64_t mostBytes = 10'000'000; // a line for each of a hundred thousand weights

std::string formatsOfLines(std::string_view text, const std::string &name) {
  std::string result;
  llvm::SmallVector<StringRef> lines;
  StringRef(text.data(), text.size()).split(lines, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    StringRef line = lines[i].split('#').first.trim();
    if (line.empty())
      continue;
    auto fail = [&](const std::string &reason) {
      throw std::runtime_error(name + ":" + std::to_string(i + 1) + ": " + reason);
    };
    bool all = !line.contains('=');
    StringRef glob = all ? StringRef() : line.rsplit('=').first.trim(), format = line.rsplit('=').second.trim();
    if (all)
      format = line;
    if (!passes::isFormat(format))
      fail(quote(format.str()) + " is no format; " + passes::formatNames + " is needed, after GLOB = or alone for all");
    if (all && !result.empty())
      fail("the format of all weights comes first; * = " + format.str() + " goes over what stands above");
    if (!all && (glob.empty() || glob.contains(',')))
      fail(glob.empty() ? "a GLOB of names of weights is missing before ="
                        : "no weight's name has a comma; one GLOB a line");
    result += (result.empty() ? "" : ",") + (all ? "" : glob.str() + "=") + format.str();
  }
  if (result.empty())
    throw std::runtime_error(name + " names no format: lines GLOB = FORMAT are needed");
  return result;
}

std::string quantizeText(const std::string &given) {
  bool words = passes::isFormat(StringRef(given).split(',').first);
  if (words || !support::fileExists(given))
    return given;
  return formatsOfLines(support::readFile(given, mostBytes), given);
}

std::string quantizeOfConfig(const std::string &configText, const std::string &name) {
  nlohmann::json config = nlohmann::json::parse(configText, nullptr, false); // who binds it says what is wrong with it
  if (!config.is_object() || !config.contains("quantization_config") || !config["quantization_config"].is_object())
    return "";
  const nlohmann::json &said = config["quantization_config"];
  if (!said.contains("quant_method") || said["quant_method"] != ownMethod)
    return "";
  if (!said.contains("quantize") || !said["quantize"].is_string())
    throw std::runtime_error(name +
                             ": quantization_config has no text 'quantize'; quern quantize writes the folder anew");
  std::string text = said["quantize"].get<std::string>();
  try {
    passes::WeightFormats::parse(text, ir::Storage::F32);
  } catch (const std::runtime_error &error) {
    throw std::runtime_error(name + ": quantization_config: " + support::printable(error.what()));
  }
  return text;
}

std::string quantizeOfCheckpoint(const std::string &weights) {
  std::string config = weights + "/config.json";
  return support::fileExists(config) ? quantizeOfConfig(support::readFile(config, mostBytes), config) : "";
}

} // namespace quern::tools
