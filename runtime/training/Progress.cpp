// Takes: steps as they are done. Gives: a line with loss, speed and time left.
#include "runtime/Error.h"
#include "runtime/machine/Terminal.h"
#include "runtime/training/Report.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>

namespace quern::runtime {

namespace {

std::string timeText(double seconds) {
  long whole = std::lround(seconds);
  if (whole >= 3600)
    return format("%ldh%02ldm", whole / 3600, whole / 60 % 60);
  return whole >= 60 ? format("%ldm%02lds", whole / 60, whole % 60) : format("%lds", whole);
}

} // namespace

void TrainProgress::begin(uint64_t allSteps, uint64_t done, bool silent) {
  steps = allSteps;
  first = done;
  quiet = silent;
  start = now();
  next = start + 1;
}

void TrainProgress::step(uint64_t number, double loss, const std::string &logged) {
  nlohmann::json entry = nlohmann::json::parse(logged);
  labels += entry["labels"].get<double>();
  mean = mean == 0 ? loss : 0.95 * mean + 0.05 * loss;
  double time = now();
  if (quiet || (time < next && number != steps))
    return;
  next = time + (errorIsTerminal() ? 0.2 : 10);
  double seconds = time - start - pause, each = seconds / double(number - first);
  std::string text =
      format("step %llu of %llu  loss %.4f  rate %.2g  gradient %.2f  %.0f tokens/s  %.0f%% of peak  %s left",
             static_cast<unsigned long long>(number), static_cast<unsigned long long>(steps), mean,
             entry["rate"].get<double>(), entry["grad_norm"].get<double>(), labels / seconds,
             100 * entry["utilisation"].get<double>(), timeText(each * double(steps - number)).c_str());
  if (errorIsTerminal()) {
    std::fprintf(stderr, "\r%s\033[K", text.c_str());
    shown = true;
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

void TrainProgress::say(const std::string &text) {
  end();
  std::fprintf(stderr, "%s\n", text.c_str());
}

void TrainProgress::end() {
  if (shown)
    std::fputs("\r\033[K", stderr);
  shown = false;
}

} // namespace quern::runtime
