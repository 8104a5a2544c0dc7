// What a run shows: a line while it goes on, a page with its curves.
#ifndef QUERN_RUNTIME_TRAINING_REPORT_H
#define QUERN_RUNTIME_TRAINING_REPORT_H

#include <cstdint>
#include <string>
#include <vector>

namespace quern::runtime {

/// On a terminal one line that changes, else a line now and then; both on standard error.
class TrainProgress {
public:
  void begin(uint64_t steps, uint64_t done, bool quiet);
  /// `logged`: the step's line of the log.
  void step(uint64_t number, double loss, const std::string &logged);
  /// Time that went into something else than steps.
  void paused(double seconds) { pause += seconds; }
  void say(const std::string &text);
  void end();

private:
  uint64_t steps = 0, first = 0;
  bool quiet = false, shown = false;
  double start = 0, pause = 0, next = 0, mean = 0, labels = 0;
};

/// One HTML file without anything from elsewhere: the run's settings, curves of loss, rate, gradient and speed,
/// samples. `lines`: the log.
void writeReport(const std::string &path, const std::string &model, const std::vector<std::string> &lines);

} // namespace quern::runtime
#endif
