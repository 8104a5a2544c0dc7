// Which plan of a kernel to try next: a local search over the numbers that its families declare.
#ifndef QUERN_CODEGEN_SCHEDULE_PLANSEARCH_H
#define QUERN_CODEGEN_SCHEDULE_PLANSEARCH_H

#include "codegen/schedule/Space.h"

#include <functional>
#include <set>

namespace quern::codegen {

/// What a comparison of a candidate with the incumbent gave.
struct TrialResult {
  bool faster;  ///< and right: the candidate becomes the incumbent
  double ratio; ///< of its time to the incumbent's; infinity where it could not be timed
};

/// Descends one number after the other, then tries plans that differ in several, until as many of these as asked for did not
/// help. What it asks for follows from the first plan, the seed and the results alone: with results that were kept,
/// a search goes on where it was interrupted.
class PlanSearch {
public:
  /// Whether a plan is in the kernel's space.
  using Valid = std::function<bool(const KernelPlan &)>;
  /// The result of a comparison that was made already.
  using Known = std::function<std::optional<TrialResult>(const KernelPlan &incumbent, const KernelPlan &candidate)>;

  /// What a plan would take by a model: of equals in all else the cheapest are tried first.
  using Cost = std::function<double(const KernelPlan &)>;

  /// `seeds`: plans that won for kernels like this one, and those of other producers; tried before all others. The search
  /// goes on with the numbers of whichever is fastest.
  PlanSearch(KernelPlan first, Valid valid, uint64_t seed, int draws, Cost cost = {},
             std::vector<KernelPlan> seeds = {});

  /// Goes as far as results are known. The candidates to compare with the incumbent next, in any order; none: the search is
  /// over.
  std::vector<KernelPlan> advance(const Known &known);

  const KernelPlan &incumbent() const { return best; }
  /// Time of the first plan by that of the incumbent, as a product of what was measured.
  double gain() const { return 1 / time; }
  /// Results that were used, and how many of them since the last that was faster.
  int trials() const { return tried; }
  int fruitless() const { return sinceGain; }

private:
  struct Coordinate {
    size_t part;
    std::string number;
  };
  KernelPlan best;
  Valid valid;
  Cost cost;
  std::vector<KernelPlan> seeds; // until they are known
  uint64_t seed;
  int draws, drawn = 0, tried = 0, sinceGain = 0;
  std::vector<Coordinate> coordinates;
  size_t at = 0, idle = 0;             // the coordinate; how many in a row did not help
  double time = 1;                     // of the incumbent, by the first plan's
  std::map<std::string, double> times; // of all plans that were tried, likewise
  std::set<std::string> former;        // incumbents: where each of two was measured to be faster, none comes back

  void findCoordinates();
  std::vector<KernelPlan> neighbours(const Coordinate &coordinate) const;
  std::optional<KernelPlan> draw(int number) const;
  std::optional<KernelPlan> changed(uint64_t random) const;
  bool isOutOfTheRace(const KernelPlan &plan) const;
  /// Takes the best of the candidates if one is faster.
  bool take(const std::vector<KernelPlan> &candidates, const Known &known);
};

} // namespace quern::codegen
#endif
