// Takes: a checkpoint's folder. Gives: what follows the pooling of its words, as settings of the spec.
#include "tools/spec/SentenceSettings.h"

#include "support/Error.h"
#include "support/Files.h"
#include "support/Json.h"

#include <stdexcept>

using Json = nlohmann::json;

namespace quern::tools {

static constexpr uint64_t largest = 1'000'000;

/// The standard library's name of a class of torch.nn.
static std::string activationOf(const Json &type, const std::string &file) {
  static constexpr std::pair<const char *, const char *> known[] = {{"Tanh", "tanh"}, {"Identity", "linear"},
                                                                    {"ReLU", "relu"}, {"GELU", "gelu"},
                                                                    {"SiLU", "silu"}, {"Sigmoid", "sigmoid"}};
  const std::string name = type.is_string() ? type.get<std::string>() : type.dump();
  for (auto [torch, own] : known)
    if (name.substr(name.rfind('.') + 1) == torch)
      return own;
  throw std::runtime_error(file + ": the activation_function " + support::quote(name) +
                           " is not known; Tanh, Identity, ReLU, GELU, SiLU and Sigmoid are");
}

static Json denseOf(const std::string &folder, const std::string &path) {
  const std::string place = folder + "/" + path, file = place + "/config.json";
  const Json config = support::parseJson(support::readFile(file, largest), file);
  if (!config.is_object() || !config.contains("out_features") || !config["out_features"].is_number_unsigned())
    throw std::runtime_error(file + " does not say out_features");
  if (support::fileExists(place + "/pytorch_model.bin") && !support::fileExists(place + "/model.safetensors"))
    throw std::runtime_error(place +
                             " holds pytorch_model.bin, which is no safetensors file; save it as model.safetensors");
  for (const char *field :
       {"module_input_name", "module_output_name"}) // another one reads or writes words, not the text's vector
    if (Json name = config.value(field, Json()); !name.is_null() && name != "sentence_embedding")
      throw std::runtime_error(file + ": its " + field + " is " + name.dump() + "; only sentence_embedding is known");
  return {{"path", path},
          {"out_features", config["out_features"]},
          {"bias", config.value("bias", true)},
          {"activation", activationOf(config.value("activation_function", Json("Tanh")), file)}};
}

std::vector<std::string> sentenceSettings(const std::string &folder) {
  const std::vector<support::SentenceModule> modules = support::sentenceModules(folder);
  if (modules.empty())
    return {};
  Json dense = Json::array();
  bool unit = false, pooled = false;
  std::string list;
  for (size_t i = 0; i < modules.size(); ++i) {
    const auto &[kind, path] = modules[i];
    list += (list.empty() ? "" : ", ") + support::printable(kind);
    const bool fits = i == 0   ? kind == "Transformer" && path.empty()
                      : i == 1 ? kind == "Pooling" && path == "1_Pooling"
                               : !unit && (kind == "Dense" || kind == "Normalize");
    if (!fits)
      throw std::runtime_error(
          folder + "/modules.json lists " + list + (i < 2 ? " (in " + support::quote(path) + ")" : "") +
          "; known are Transformer (in \"\"), Pooling (in \"1_Pooling\"), then any Dense, then Normalize");
    pooled |= kind == "Pooling";
    unit |= kind == "Normalize";
    if (kind == "Dense")
      dense.push_back(denseOf(folder, path));
  }
  if (!pooled)
    throw std::runtime_error(folder + "/modules.json lists " + list + "; without Pooling there is no vector of a text");
  return {"dense=" + dense.dump(), std::string("unit=") + (unit ? "true" : "false")};
}

} // namespace quern::tools
