// Takes: the types of a checkpoint's tensors. Gives: the formats that keep them as they are, as --quantize takes them.
// Why by that option's text: what it means for joined weights, tables and experts is decided in one place.
#include "tools/spec/StoredFormats.h"

#include "runtime/files/Safetensors.h"
#include "runtime/weights/TensorSource.h"
#include "runtime/weights/TextPart.h"
#include "support/Glob.h"
#include "support/Storage.h"

#include <algorithm>
#include <vector>

namespace quern::tools {

static std::string formatOf(const std::string &type) {
  if (std::optional<support::Storage> storage = support::storageByName(type); storage && support::bitsOfCode(*storage))
    return type; // what holds them is named as an option is
  static const std::map<std::string, std::string> kept = {
      {"BF16", "bf16"}, {"F16", "f16"},   {"Q8_0", "int8"},  {"Q4_0", "int4"}, {"Q4_K", "q4_k"},
      {"Q5_K", "q5_k"}, {"Q6_K", "q6_k"}, {"Q3_K", "q6_k"},  {"Q2_K", "q6_k"}, {"IQ4_XS", "q8_k"},
      {"Q4_1", "q4_1"}, {"Q5_1", "q5_1"}, {"IQ3_S", "q6_k"}, {"NVFP4", "bf16"}};
  auto found = kept.find(type);
  return found == kept.end() ? "f32" : found->second;
}

std::string withoutNumbers(const std::string &name) {
  std::string pattern;
  for (size_t at = 0; at <= name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, dot - at);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    pattern += (at ? "." : "") + (number ? "*" : part);
    at = dot + 1;
  }
  return pattern;
}

std::string formatsOf(const std::map<std::string, std::string> &types) {
  std::map<std::string, std::map<std::string, int>> counts; // of a pattern's names, by format
  for (const auto &[name, type] : types)
    ++counts[withoutNumbers(name)][formatOf(type)];
  std::vector<std::pair<std::string, std::string>> rules;
  for (const auto &[pattern, formats] : counts) {
    auto most = std::max_element(formats.begin(), formats.end(),
                                 [](const auto &a, const auto &b) { return a.second < b.second; });
    if (most->first != "f32")
      rules.emplace_back(pattern, most->first);
  }
  // The last rule that fits decides: names that these get wrong have one of their own.
  const size_t shared = rules.size();
  for (const auto &[name, type] : types) {
    std::string decided = "f32";
    for (size_t i = 0; i < shared; ++i)
      if (support::matchGlob(rules[i].first, name))
        decided = rules[i].second;
    if (decided != formatOf(type))
      rules.emplace_back(name, formatOf(type));
  }
  std::string text;
  for (const auto &[pattern, format] : rules)
    text += "," + pattern + "=" + format;
  return text.empty() ? text : "f32" + text;
}

/// Positions and masks of older checkpoints, which are no weights.
static bool isWhole(const std::string &type) {
  return type == "BOOL" || (type.size() > 1 && (type[0] == 'I' || type[0] == 'U') && type[1] >= '0' && type[1] <= '9');
}

std::set<std::string> widenedTypes(const std::map<std::string, std::string> &types) {
  std::set<std::string> widened;
  for (const auto &[name, type] : types)
    if (formatOf(type) == "f32" && type != "F32" && type != "F64" && !isWhole(type))
      widened.insert(type);
  return widened;
}

std::map<std::string, std::string> storedTypes(const std::string &path) {
  std::unique_ptr<runtime::TensorSource> source = runtime::TensorSource::open(path);
  std::map<std::string, std::string> types;
  auto add = [&](const std::string &name) {
    if (const runtime::StoredTensor &tensor = *source->find(name);
        tensor.shape.size() >= 2 && name.find_first_of("=,*?[") == std::string::npos)
      types[name] = tensor.reader && tensor.reader->heldBy() ? tensor.reader->heldBy() : typeName(tensor);
  };
  for (const std::string &name : source->names())
    if (!source->hasTextPart() || runtime::nameInTextPart(name) == name)
      add(name);
  for (const std::string &name : source->otherNames())
    if (!source->hasTextPart() || runtime::nameInTextPart(name).empty() || runtime::nameInTextPart(name) == name)
      add(name);
  return types;
}

} // namespace quern::tools
