// Takes: a plan, the space that its families declare, results of comparisons. Gives: the plans worth comparing next.
// Why coordinate by coordinate: families' numbers are nearly independent of each other, and a sweep over one is a handful of
// kernels to compile. Why draws after that: a tile's rows and columns trade registers, which no single step can.
#include "codegen/schedule/PlanSearch.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace quern::codegen {

/// A plan that was slower than today's incumbent by so much is not tried again beside a later one.
static constexpr double clearlySlower = 1.03;
/// Candidates that are compared in one go.
static constexpr size_t drawsAtOnce = 4;
/// Plans that the model looks at for each that is tried.
static constexpr int drawnForEach = 4;

static const Parameter &parameterOf(const PlanPart &part, const std::string &number) {
  return *family(part.family).find(number);
}

/// The value of a parameter's domain next to `wanted`, not beyond `from` on the way.
static std::optional<int64_t> nearest(const Parameter &parameter, int64_t wanted, int64_t from) {
  if (parameter.step == 0) {
    int64_t value = parameter.least;
    while (value * 2 <= wanted)
      value *= 2;
    wanted = value;
  } else {
    wanted = std::clamp(wanted, parameter.least, parameter.most);
    wanted -= (wanted - parameter.least) % parameter.step;
  }
  if (wanted == from || !parameter.contains(wanted))
    return std::nullopt;
  return wanted;
}

PlanSearch::PlanSearch(KernelPlan first, Valid valid, uint64_t seed, int draws, Cost cost,
                       std::vector<KernelPlan> seeds)
    : best(std::move(first)), valid(std::move(valid)), cost(std::move(cost)), seeds(std::move(seeds)), seed(seed),
      draws(draws) {
  findCoordinates();
}

void PlanSearch::findCoordinates() {
  coordinates.clear();
  at = idle = 0;
  for (size_t part = 0; part < best.parts.size(); ++part)
    for (const Parameter &parameter : family(best.parts[part].family).parameters)
      if (std::string name(parameter.name); best.parts[part].numbers.count(name))
        coordinates.push_back({part, name});
}

/// Half and twice, a bit less and a bit more, all of few from 0; where such a value does not fit the others, the next one on the way that does.
std::vector<KernelPlan> PlanSearch::neighbours(const Coordinate &coordinate) const {
  std::vector<KernelPlan> found;
  const PlanPart &part = best.parts[coordinate.part];
  const Parameter &parameter = parameterOf(part, coordinate.number);
  int64_t here = part.numbers.at(coordinate.number), unit = std::max<int64_t>(1, parameter.step);
  std::set<int64_t> seen = {here};
  auto tryValue = [&](int64_t wanted, int direction) {
    for (int probes = 0; probes < 16; ++probes, wanted += direction * unit) {
      std::optional<int64_t> value = nearest(parameter, wanted, here);
      if (!value)
        return;
      KernelPlan plan = best;
      plan.parts[coordinate.part].numbers[coordinate.number] = *value;
      if (!valid(plan))
        continue;
      if (seen.insert(*value).second)
        found.push_back(plan);
      return;
    }
  };
  tryValue(here * 2, -1);
  tryValue(here / 2, 1);
  if (parameter.step) {
    tryValue(here + unit, 1);
    tryValue(here - unit, -1);
    if (here >= 8 * unit) {
      tryValue(here + here / 4, 1);
      tryValue(here - here / 4, -1);
    }
  }
  if (here > 0 && parameter.least == 0)
    tryValue(0, 1);
  if (here == 0) // from nothing, no size is nearer than another
    if (std::vector<int64_t> all = parameter.values(); all.size() <= 8)
      for (int64_t value : all)
        tryValue(value, 1);
  if (cost)
    std::stable_sort(found.begin(), found.end(),
                     [&](const KernelPlan &a, const KernelPlan &b) { return cost(a) < cost(b); });
  return found;
}

/// The incumbent with two or more of its numbers changed, each to something from a quarter to four times as much.
std::optional<KernelPlan> PlanSearch::changed(uint64_t start) const {
  if (coordinates.empty())
    return std::nullopt;
  std::mt19937_64 random(start);
  for (int tries = 0; tries < 200; ++tries) {
    KernelPlan plan = best;
    size_t changes = 2 + random() % 3;
    for (size_t i = 0; i < changes; ++i) {
      const Coordinate &coordinate = coordinates[random() % coordinates.size()];
      PlanPart &part = plan.parts[coordinate.part];
      int64_t &value = part.numbers.at(coordinate.number);
      // 2^-2 ... 2^2, the same on all machines
      double factor = std::exp2(double(random() % 17) / 4 - 2);
      if (std::optional<int64_t> other = nearest(parameterOf(part, coordinate.number),
                                                 std::max<int64_t>(value, 1) * int64_t(factor * 256) / 256, value))
        value = *other;
    }
    if (plan != best && valid(plan))
      return plan;
  }
  return std::nullopt;
}

bool PlanSearch::isOutOfTheRace(const KernelPlan &plan) const {
  std::string text = plan.text();
  auto known = times.find(text);
  return former.count(text) || (known != times.end() && known->second > time * clearlySlower);
}

bool PlanSearch::take(const std::vector<KernelPlan> &candidates, const Known &known) {
  const KernelPlan *winner = nullptr;
  double ratio = 1;
  for (const KernelPlan &candidate : candidates) {
    std::optional<TrialResult> result = known(best, candidate);
    if (!result)
      continue;
    ++tried;
    ++sinceGain;
    times[candidate.text()] = time * result->ratio;
    if (result->faster && (!winner || result->ratio < ratio)) {
      winner = &candidate;
      ratio = result->ratio;
    }
  }
  if (!winner)
    return false;
  times[best.text()] = time;
  former.insert(best.text());
  KernelPlan next = *winner;
  bool isOfAnother = next.producer != best.producer;
  best = next;
  if (isOfAnother) // which has other numbers
    findCoordinates();
  time *= ratio;
  sinceGain = 0;
  return true;
}

/// Of several such plans the one that the model finds cheapest: measuring each would take seconds.
std::optional<KernelPlan> PlanSearch::draw(int number) const {
  std::optional<KernelPlan> cheapest;
  for (int i = 0; i < (cost ? drawnForEach : 1); ++i)
    if (std::optional<KernelPlan> plan = changed(seed ^ (uint64_t(number * drawnForEach + i) * 0x9e3779b97f4a7c15u));
        plan && (!cheapest || cost(*plan) < cost(*cheapest)))
      cheapest = plan;
  return cheapest;
}

std::vector<KernelPlan> PlanSearch::advance(const Known &known) {
  auto unknown = [&](std::vector<KernelPlan> candidates) {
    std::erase_if(candidates, [&](const KernelPlan &candidate) { return known(best, candidate).has_value(); });
    return candidates;
  };
  if (!seeds.empty()) {
    std::erase_if(seeds, [&](const KernelPlan &plan) { return plan == best || !valid(plan); });
    if (std::vector<KernelPlan> open = unknown(seeds); !open.empty())
      return open;
    std::vector<KernelPlan> tried = std::move(seeds);
    seeds.clear();
    take(tried, known);
  }
  while (idle < coordinates.size()) {
    std::vector<KernelPlan> candidates = neighbours(coordinates[at]);
    std::erase_if(candidates, [&](const KernelPlan &candidate) { return isOutOfTheRace(candidate); });
    if (std::vector<KernelPlan> open = unknown(candidates); !open.empty())
      return open;
    if (take(candidates, known)) {
      idle = 0; // the same number again: what helped may help more
    } else {
      at = (at + 1) % coordinates.size();
      ++idle;
    }
    if (idle < coordinates.size())
      continue;
  }
  while (drawn < draws) {
    std::vector<KernelPlan> candidates;
    int next = drawn;
    for (; next < draws && candidates.size() < drawsAtOnce; ++next)
      if (std::optional<KernelPlan> plan = draw(next);
          plan && !times.count(plan->text()) &&
          std::find(candidates.begin(), candidates.end(), *plan) == candidates.end())
        candidates.push_back(*plan);
    if (std::vector<KernelPlan> open = unknown(candidates); !open.empty())
      return open;
    drawn = next;
    if (take(candidates, known)) {
      idle = 0;
      return advance(known);
    }
  }
  return {};
}

} // namespace quern::codegen
