// Takes: options and a checkpoint's recommendations. Gives: how tokens are chosen.
#include "runtime/cli/SamplingOptions.h"

#include "runtime/Error.h"
#include "runtime/engine/StopRules.h"
#include "runtime/sampling/SamplingRules.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <deque>

namespace quern::runtime {

namespace {

/// "--temp" of the rule "temp"; the texts live as long as the program.
const std::string &optionOf(const SamplingRule &rule) {
  static const std::deque<std::string> names = [] {
    std::deque<std::string> made;
    for (const SamplingRule &one : samplingRules())
      made.push_back(std::string("--") + one.name);
    return made;
  }();
  return names[size_t(&rule - samplingRules().data())];
}

/// "17=-2.5"
std::pair<int, double> parseBias(const std::string &text) {
  size_t equals = text.find('=');
  int token = -1;
  double added = 0;
  bool good = equals != std::string::npos;
  if (good) {
    const char *middle = text.data() + equals;
    auto first = std::from_chars(text.data(), middle, token);
    char *last = nullptr; // strtod: from_chars for numbers that are not whole is 25 KB in every program
    added = std::strtod(middle + 1, &last);
    bool number = middle[1] > ' ' && middle[1] != '+' && last != middle + 1 && !*last;
    good = first.ec == std::errc() && first.ptr == middle && number && token >= 0;
  }
  if (!good || std::isnan(added) || added == __builtin_inf())
    throw UserError("--logit-bias needs TOKEN=NUMBER, such as 17=-2.5 or 17=-inf, not " + quote(text));
  return {token, added};
}

} // namespace

void addSamplingOptions(std::vector<Options::Known> &known) {
  for (const SamplingRule &rule : samplingRules())
    known.push_back({optionOf(rule).c_str(), rule.value, rule.help});
  known.push_back({"--logit-bias", "T=X", "add X to the logit of token T; -inf forbids it (may be repeated)"});
  known.push_back({"--seed", "N", "of the choices (0)"});
}

SamplerOptions samplerOptions(const Options &options) {
  SamplerOptions result;
  for (const std::string &text : options.all("--logit-bias"))
    result.bias.insert_or_assign(parseBias(text).first, parseBias(text).second);
  for (const SamplingRule &rule : samplingRules()) {
    const std::string &name = optionOf(rule);
    if (options.has(name))
      result.rules[rule.name] = rule.whole ? double(options.integer(name, 0, int64_t(rule.least), int64_t(rule.most)))
                                           : options.number(name, 0, rule.least, rule.most);
  }
  for (const SamplingRule &rule : samplingRules())
    if (result.rules.count(rule.name) && !rule.with.empty() &&
        std::none_of(rule.with.begin(), rule.with.end(),
                     [&](std::string_view other) { return result.rules.count(std::string(other)); }))
      throw UserError(format("--%s does nothing without --%s", rule.name, std::string(rule.with[0]).c_str()));
  result.seed = uint64_t(options.integer("--seed", 0, INT64_MIN, INT64_MAX));
  return result;
}

void addRecommended(SamplerOptions &sampling, const nlohmann::json &generation) {
  auto field = [&](const char *name) { return generation.find(name); };
  auto samples = field("do_sample");
  auto given = sampling.rules.find("temp");
  bool greedy = given != sampling.rules.end() && given->second == 0; // was asked for
  bool picks = !greedy && samples != generation.end() && samples->is_boolean() && samples->get<bool>();
  for (const SamplingRule &rule : samplingRules()) {
    auto found = rule.field ? field(rule.field) : generation.end();
    if (found == generation.end() || !found->is_number())
      continue;
    double value = found->get<double>();
    if (value >= rule.least && value <= rule.most && (picks || rule.make(value, {})->reorders()))
      sampling.rules.emplace(rule.name, value);
  }
  if (picks)
    sampling.rules.emplace("temp", 1);
}

nlohmann::json readGenerationConfig(const Command &command, const Options &options) {
  std::optional<std::string> text = command.readBeside(options, "generation_config.json");
  return text ? parseGenerationConfig(*text) : nlohmann::json::object();
}

/// The length that config.json states, by its usual names; 0 if it states none.
int64_t statedContext(const nlohmann::json &config) {
  for (const char *name : {"max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"})
    if (auto field = config.find(name); field != config.end() && field->is_number_integer())
      return field->get<int64_t>();
  return 0;
}

} // namespace quern::runtime
