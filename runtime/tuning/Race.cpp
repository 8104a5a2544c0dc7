// Takes: the beginnings and ends of launches. Gives: how two versions of a kernel compare, pair by pair.
// Why pairs of neighbours: a shared machine drifts by more than versions differ, but rarely between two launches.
#include "runtime/tuning/Race.h"

#include "runtime/abi/Versions.h"

#include <algorithm>
#include <cmath>

namespace quern::runtime {

static double quantile(std::vector<double> &sorted, double part) {
  double at = part * double(sorted.size() - 1);
  size_t low = size_t(at), high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - double(low));
}

Ratio Ratio::of(const std::vector<std::pair<double, double>> &pairs) {
  Ratio ratio;
  ratio.pairs = pairs.size();
  if (pairs.empty())
    return ratio;
  std::vector<double> ratios, firsts;
  for (auto [first, second] : pairs) {
    ratios.push_back(second / std::max(first, 1.0));
    firsts.push_back(first);
  }
  std::sort(ratios.begin(), ratios.end());
  std::sort(firsts.begin(), firsts.end());
  ratio.value = quantile(ratios, 0.5);
  ratio.first = quantile(firsts, 0.5);
  // The standard deviation by the quartiles, which outliers do not move; of a median it is 1.25 times that of a mean.
  double deviation = (quantile(ratios, 0.75) - quantile(ratios, 0.25)) / 1.349;
  ratio.error = 1.25 * deviation / std::sqrt(double(pairs.size()));
  return ratio;
}

Race::Race(const Description &description) {
  callbacks.begin = [](quern_profile *self, int32_t launch, int32_t) {
    Race &race = *static_cast<Hooks *>(self)->self;
    race.guarded([&] { race.begin(launch); });
  };
  callbacks.end = [](quern_profile *self) {
    Race &race = *static_cast<Hooks *>(self)->self;
    race.guarded([&] { race.end(); });
  };
  callbacks.self = this;
  for (const LaunchInfo &info : description.launches) {
    int found = -1;
    for (int k = 0; k < quern_versions.count; ++k)
      if (info.kernel == quern_versions.kernels[k].kernel)
        found = k;
    kernels.push_back(found);
  }
}

void Race::use(int kernel, int version) {
  *quern_versions.kernels[kernel].current = quern_versions.kernels[kernel].versions[version];
}

void Race::check(int kernel) {
  *quern_versions.kernels[kernel].current = quern_versions.kernels[kernel].checked;
}

void Race::begin(int kernel, int one, int other) {
  stop();
  racing = kernel;
  first = one;
  second = other;
}

void Race::stop() {
  if (racing >= 0)
    use(racing, first);
  racing = -1;
  samples.clear();
  sums.clear();
}

void Race::begin(int number) {
  launch = at >= 0 && size_t(number) < kernels.size() ? number : -1;
  if (launch < 0)
    return;
  if (kernels[size_t(launch)] == racing && racing >= 0) {
    int iteration = samples[{at, launch}].count & 3;
    isSecond = iteration == 1 || iteration == 2;
    use(racing, isSecond ? second : first);
  }
  start = watched->mark();
}

void Race::end() {
  if (launch < 0)
    return;
  double time = watched->seconds(start, watched->mark()) * 1e9;
  int kernel = kernels[size_t(launch)];
  if (size_t(at) >= sums.size())
    sums.resize(size_t(at) + 1);
  sums[size_t(at)][kernel] += time;
  if (kernel == racing && racing >= 0) {
    Samples &own = samples[{at, launch}];
    (isSecond ? own.second : own.first) = time;
    if (++own.count % 2 == 0)
      own.pairs.push_back({own.first, own.second});
  }
  launch = -1;
}

std::vector<Race::Site> Race::sites(int part, double calls) const {
  std::vector<Site> result;
  for (const auto &[key, own] : samples)
    if (key.first == part && !own.pairs.empty())
      result.push_back({Ratio::of(own.pairs), double(own.count) / calls});
  return result;
}

} // namespace quern::runtime
