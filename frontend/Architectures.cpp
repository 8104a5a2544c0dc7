// Takes: the table of architectures, a config.json. Gives: the spec that fits.
// Why classes before types: a `model_type` names a family (bert), whose classes (BertForMaskedLM, BertModel) have other
// heads and need other specs.
#include "frontend/Architectures.h"
#include "frontend/Embedded.h"
#include "frontend/check/TextPart.h"
#include "support/Json.h"
#include "support/Nearest.h"

#include <algorithm>

namespace quern::frontend {

using Json = nlohmann::ordered_json;

static std::string_view specText(const std::string &name) {
  for (const EmbeddedSpec &spec : embeddedSpecs())
    if (spec.name == name)
      return spec.text;
  throw std::logic_error("architectures.json names " + name + ".quern, which is not among the examples");
}

const std::vector<Architecture> &architectures() {
  static const std::vector<Architecture> table = [] {
    std::vector<Architecture> read;
    for (const Json &row : support::parseJson<Json>(architecturesText, "architectures.json")) {
      Architecture one;
      one.spec = row.at("spec").get<std::string>();
      one.text = specText(one.spec);
      one.modelTypes = row.at("model_types").get<std::vector<std::string>>();
      one.classes = row.at("architectures").get<std::vector<std::string>>();
      one.kind = row.at("kind").get<std::string>();
      one.command = row.at("command").get<std::string>();
      if (row.contains("settings"))
        one.settings = row["settings"].get<decltype(one.settings)>();
      read.push_back(std::move(one));
    }
    return read;
  }();
  return table;
}

std::string Architecture::classList() const {
  std::string list;
  for (const std::string &name : classes)
    list += (list.empty() ? "" : " or ") + name;
  return list;
}

static bool contains(const std::vector<std::string> &list, const std::string &word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// A type alone is the model itself, where there is one, and not what embeds with its layers.
static const Architecture *byType(const std::string &type) {
  for (bool settings : {false, true})
    for (const Architecture &one : architectures())
      if (contains(one.modelTypes, type) && one.settings.empty() != settings)
        return &one;
  return nullptr;
}

/// Up to three known types that share most letters or the beginning with `type`, or are part of it; nearest first.
static std::string nearTypes(const std::string &type) {
  std::vector<std::pair<size_t, std::string>> near;
  for (const Architecture &one : architectures())
    for (const std::string &known : one.modelTypes) {
      size_t distance = support::editDistance(type, known), longest = std::max(type.size(), known.size());
      size_t same = std::mismatch(type.begin(), type.end(), known.begin(), known.end()).first - type.begin();
      std::pair<size_t, std::string> entry(distance, known);
      bool inside = type.find(known) != std::string::npos; // vault_gemma
      if ((distance <= longest / 3 || same >= 3 || inside) && std::find(near.begin(), near.end(), entry) == near.end())
        near.push_back(entry);
    }
  std::sort(near.begin(), near.end());
  std::string list;
  for (size_t i = 0; i < near.size() && i < 3; ++i)
    list += (i == 0 ? "" : ", ") + near[i].second;
  return list;
}

std::optional<FoundArchitecture> findArchitecture(const std::string &configText, const std::string &name,
                                                  Diagnostics &diagnostics,
                                                  const std::function<bool(const std::string &file)> &beside) {
  Json config;
  try {
    config = support::parseJson<Json>(configText, name);
  } catch (const support::JsonError &error) {
    diagnostics.error("Q041", error.what(), {});
    return std::nullopt;
  }
  if (!config.is_object()) {
    diagnostics.error("Q041", name + " is not a JSON object", {});
    return std::nullopt;
  }
  std::vector<std::string> classes;
  if (auto it = config.find("architectures"); it != config.end() && it->is_array())
    for (const Json &one : *it)
      if (one.is_string())
        classes.push_back(one.get<std::string>());
  auto typeOf = [](const Json &one) {
    auto it = one.find("model_type");
    return it != one.end() && it->is_string() ? it->get<std::string>() : "";
  };
  const std::string type = typeOf(config);
  if (beside)
    for (const Architecture &one : architectures())
      if (contains(one.modelTypes, type) && !one.settings.empty() &&
          std::all_of(one.settings.begin(), one.settings.end(), [&](const auto &row) { return beside(row.first); }))
        return FoundArchitecture{&one, classes.empty() ? type : classes[0], "", ""};
  const std::optional<Json> text = textPartOf(config);
  const std::string typeOfText = text ? typeOf(*text) : "";
  for (const std::string &wanted : classes)
    for (const Architecture &one : architectures())
      if (contains(one.classes, wanted))
        return contains(one.modelTypes, typeOfText) ? FoundArchitecture{&one, typeOfText, "", wanted}
                                                    : FoundArchitecture{&one, wanted, "", ""};
  if (const Architecture *one = byType(type))
    return FoundArchitecture{one, type, classes.empty() ? "" : classes[0], ""};
  if (const Architecture *one = byType(typeOfText))
    return FoundArchitecture{one, typeOfText, "", classes.empty() ? type : classes[0]};
  std::string what = type.empty() && classes.empty() ? name + " has neither 'model_type' nor 'architectures'"
                     : type.empty()                  ? "no spec is known for " + support::quote(classes[0])
                                                     : "no spec is known for model_type " + support::quote(type);
  if (!type.empty() && !classes.empty())
    what += " (" + support::printable(classes[0]) + ")";
  std::string near = nearTypes(type);
  diagnostics.error("Q010",
                    what + (near.empty() ? "" : "; near it: " + near) +
                        "; quern list shows what is known; with a spec of your own: SPEC.quern --weights CHECKPOINT "
                        "(docs/porting.md)",
                    {});
  return std::nullopt;
}

} // namespace quern::frontend
