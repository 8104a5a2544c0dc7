// Two versions of a kernel, alternating launch by launch.
#ifndef QUERN_RUNTIME_TUNING_RACE_H
#define QUERN_RUNTIME_TUNING_RACE_H

#include "runtime/abi/Description.h"
#include "runtime/machine/Profile.h"

#include <map>

namespace quern::runtime {

/// Ratio of the second's time to the first's: the median of pairs.
struct Ratio {
  double value = 1, error = 0; ///< error: standard error of the median
  double first = 0;            ///< nanoseconds of the first, the median
  size_t pairs = 0;
  /// Of pairs (first, second) in nanoseconds.
  static Ratio of(const std::vector<std::pair<double, double>> &pairs);
};

/// Times launches, by the clock of the device that they are on; those of one kernel by one version or the other.
class Race : public CallRecorder {
public:
  explicit Race(const Description &description);

  /// What launches of a kernel (its number in quern_versions) call from now on.
  void use(int kernel, int version);
  void check(int kernel);
  /// From now on launches of a kernel run by `first` and `second` in the order first, second, second, first: whatever
  /// drifts or alternates falls upon both. Forgets what was measured.
  void begin(int kernel, int first, int second);
  /// Nobody races. Forgets what was measured.
  void stop();

  /// The part of the workload (Workload::parts) that calls belong to; -1: none, they are not recorded.
  void enter(int part) { at = part; }

  /// Of each part the nanoseconds that all launches of each kernel took, since `stop`.
  const std::vector<std::map<int, double>> &times() const { return sums; }
  /// Of each launch in the part that raced: how it went, and how often a call has it.
  struct Site {
    Ratio ratio;
    double launches;
  };
  std::vector<Site> sites(int part, double calls) const;

  void watch(Device &device) override { watched = &device; }
  void beginCall(int, const std::vector<int64_t> &, uint64_t, uint64_t) override {}
  void endCall() override {}
  quern_profile *hooks() override { return &callbacks; }

private:
  struct Hooks : quern_profile {
    Race *self;
  };
  struct Samples {
    std::vector<std::pair<double, double>> pairs;
    double first = 0, second = 0; // of a pair that is not complete
    int count = 0;
  };
  Hooks callbacks;
  Device *watched = &Device::cpu();
  std::vector<int> kernels;                       // of each launch; -1: it has no versions
  std::map<std::pair<int, int>, Samples> samples; // by part and launch
  std::vector<std::map<int, double>> sums;
  int at = -1, racing = -1, first = 0, second = 0;
  int launch = -1;
  bool isSecond = false;
  uint64_t start = 0; // a mark of the device

  void begin(int number);
  void end();
};

} // namespace quern::runtime
#endif
