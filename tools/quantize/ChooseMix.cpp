// Takes: a goal. Gives: the formats of the mix that reaches it, measured.
// Why the divergence orders the steps and the perplexity judges the result: the first grows with every rounding, so small
// differences of it mean something; the second may fall by chance.
#include "tools/quantize/ChooseMix.h"

#include "support/Error.h"
#include "tools/quantize/QuantizedFile.h"

#include <algorithm>
#include <cmath>

using quern::support::format;
using quern::support::formatBytes;
using quern::support::UserError;

namespace quern::tools {
namespace {

std::string percent(double growth) {
  return format("%+.2f%%", 100 * growth);
}

class Search {
public:
  Search(const MixQuestions &ask, const MixGoal &goal, const std::vector<std::string> &ladder)
      : ask(ask), goal(goal), ladder(ladder) {}
  ChosenMix run();

private:
  void findGroups();
  void measureGroups();
  void choose();
  std::string quantizeOf(const Mix &mix) const;
  uint64_t bytesOfMix(size_t mix) const { return result.rest + result.mixes[mix].bytes; }
  double growthOf(size_t mix);
  std::string reachable(size_t mix) {
    return formatBytes(double(bytesOfMix(mix))) + " and changes the perplexity by " + percent(growthOf(mix));
  }

  const MixQuestions &ask;
  const MixGoal &goal;
  const std::vector<std::string> &ladder;
  std::vector<WeightGroup> groups;
  ChosenMix result;
};

/// Groups of which some format of the ladder has fewer bytes in the file, and their bytes in each.
void Search::findGroups() {
  std::vector<std::map<std::string, uint64_t>> bytes; // for each format, by tensor
  for (const std::string &word : ladder) {
    std::map<std::string, uint64_t> &own = bytes.emplace_back();
    std::vector<StoredForm> forms = ask.forms("*=" + word); // by a rule: no weight is kept in more bits
    for (const StoredForm &form : forms)
      own[form.name] = fileBytes(form);
    if (word == ladder.back())
      groups = weightGroups(forms);
  }
  for (const auto &[name, count] : bytes[0])
    result.rest += count;
  std::erase_if(groups, [&](const WeightGroup &group) {
    GroupChoices choices{group.title(), {}};
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < ladder.size(); ++i) {
      FormatChoice choice{ladder[i]};
      for (const std::string &name : group.names)
        choice.bytes += bytes[i].at(name);
      // Fewer bits that save nothing lose for nothing: codes of a tied table stand beside it. bf16 may lose nothing.
      if (choice.bytes < least || (choice.bytes == least && ladder[i] == "bf16"))
        choices.formats.push_back(choice);
      least = std::min(least, choice.bytes);
    }
    if (choices.formats.size() < 2)
      return true;
    result.rest -= choices.formats[0].bytes;
    result.groups.push_back(std::move(choices));
    return false;
  });
}

void Search::measureGroups() {
  size_t all = 1, done = 0;
  for (const GroupChoices &group : result.groups)
    all += group.formats.size() - 1;
  auto report = [&](const std::string &what) { ask.progress(format("measuring %zu of %zu: ", ++done, all) + what); };
  report("unquantised");
  result.before = ask.loss(ladder[0]);
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 1; i < result.groups[g].formats.size(); ++i) {
      FormatChoice &choice = result.groups[g].formats[i];
      report(result.groups[g].name + " in " + choice.format);
      choice.loss = ask.loss(ladder[0] + "," + rulesOf(groups[g], choice.format)).divergence;
    }
}

std::string Search::quantizeOf(const Mix &mix) const {
  std::string text = ladder[0];
  for (size_t g = 0; g < groups.size(); ++g)
    if (mix.formats[g])
      text += "," + rulesOf(groups[g], result.groups[g].formats[mix.formats[g]].format);
  return text;
}

/// Of the perplexity, measured once for each mix.
double Search::growthOf(size_t mix) {
  auto [at, isNew] = result.measured.try_emplace(mix);
  if (isNew) {
    ask.progress("measuring a mix of " + formatBytes(double(bytesOfMix(mix))));
    at->second = {bytesOfMix(mix), ask.loss(quantizeOf(result.mixes[mix]))};
  }
  return at->second.loss.perplexity / result.before.perplexity - 1;
}

void Search::choose() {
  const size_t last = result.mixes.size() - 1;
  std::optional<size_t> within = 0;
  if (goal.bytes) {
    within = *goal.bytes < result.rest ? std::nullopt : firstWithin(result.mixes, *goal.bytes - result.rest);
    if (!within)
      throw UserError("--size " + formatBytes(double(*goal.bytes)) + " cannot be reached: the smallest mix has " +
                      reachable(last) + ", of it " + formatBytes(double(result.rest)) + " that is not quantised");
    result.chosen = *within;
  }
  if (goal.perplexity) {
    std::optional<size_t> good = lastGood(last + 1, [&](size_t mix) { return growthOf(mix) <= *goal.perplexity; });
    if (!good)
      throw UserError("--target-perplexity " + format("%g%%", 100 * *goal.perplexity) +
                      " cannot be reached: the largest mix has " + reachable(0));
    if (*good < *within)
      throw UserError("no mix has both: at most " + formatBytes(double(*goal.bytes)) + " are " + reachable(*within) +
                      ", and " + percent(*goal.perplexity) + " needs " + reachable(*good));
    result.chosen = *good;
  }
  growthOf(result.chosen);
}

ChosenMix Search::run() {
  findGroups();
  measureGroups();
  result.mixes = mixesBySize(result.groups);
  choose();
  result.quantize = quantizeOf(result.mixes[result.chosen]);
  return std::move(result);
}

} // namespace

std::vector<std::string> ladderTo(const std::string &smallest) {
  static const std::vector<std::string> ladders[] = {{"f32", "bf16", "int8", "int4"},
                                                     {"f32", "bf16", "int8", "q6_k", "q5_k", "q4_k"},
                                                     {"f32", "bf16", "w8a8", "w4a8"},
                                                     {"f32", "f16"}};
  for (const std::vector<std::string> &ladder : ladders)
    if (auto last = std::find(ladder.begin() + 1, ladder.end(), smallest); last != ladder.end())
      return {ladder.begin(), last + 1};
  throw UserError(
      "--quantize " + smallest +
      ": where a mix is chosen, this is its smallest format: bf16, f16, int8, q6_k, q5_k, q4_k, int4, w8a8 or "
      "w4a8");
}

ChosenMix chooseMix(const MixQuestions &ask, const MixGoal &goal, const std::vector<std::string> &ladder) {
  return Search(ask, goal, ladder).run();
}

} // namespace quern::tools
