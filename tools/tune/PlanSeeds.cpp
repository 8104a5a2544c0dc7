// Takes: a kernel's parts with what is known about them; the database. Gives: a plan that won for a kernel like it.
// Why fitted: what won there may not divide the depth here, or not fit the tile of another weight.
#include "tools/tune/PlanSeeds.h"

#include "codegen/kernel/PlanText.h"
#include "codegen/schedule/ChoosePlan.h"

#include <sstream>
#include <stdexcept>

using namespace quern::codegen;

namespace quern::tools {

/// `contract bits 32 inner 768; row vector 16`.
static std::string textOf(const std::vector<Anchor> &anchors) {
  std::string text;
  for (const Anchor &anchor : anchors) {
    text += (text.empty() ? "" : "; ") + anchor.family;
    for (const auto &[name, value] : anchor.facts)
      text += " " + name + " " + std::to_string(value);
  }
  return text;
}

static std::vector<Anchor> anchorsOf(const std::string &text) {
  std::vector<Anchor> anchors;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    std::istringstream words(part);
    Anchor anchor;
    words >> anchor.family;
    std::string name;
    for (int64_t value = 0; words >> name >> value;)
      anchor.facts[name] = value;
    anchors.push_back(std::move(anchor));
  }
  return anchors;
}

PlanSeeds::PlanSeeds(TuningDatabase &database, const TuningConditions &where)
    : database(database), where(where), shapes(database.shapes(where)) {
  for (const TunedPlan &plan : database.plans(where.target, where.machine))
    plans[plan.kernel] = plan.plan;
}

std::string PlanSeeds::seedOf(const std::string &kernel, const std::string &producer,
                              const std::vector<Anchor> &anchors) {
  if (auto known = shapes.find(kernel); known != shapes.end())
    return known->second.seed;
  KernelShape shape{textOf(anchors), ""};
  std::optional<double> nearest;
  for (const auto &[other, its] : shapes) {
    auto plan = plans.find(other);
    std::optional<double> distance = plan == plans.end() ? std::nullopt : distanceOf(anchors, anchorsOf(its.parts));
    if (!distance || (nearest && *nearest <= *distance))
      continue;
    try {
      KernelPlan parsed = parsePlan(plan->second);
      std::optional<std::vector<PlanPart>> parts = partsLike(parsed.parts, anchors);
      if (parsed.producer != producer || !parts)
        continue;
      shape.seed = KernelPlan{producer, *parts}.text();
      nearest = distance;
    } catch (const std::runtime_error &) { // of families that are gone
    }
  }
  database.keepShape(kernel, where, shape);
  return shape.seed;
}

} // namespace quern::tools
