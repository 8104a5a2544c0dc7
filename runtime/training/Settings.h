// What `train` was asked for.
#ifndef QUERN_RUNTIME_TRAINING_SETTINGS_H
#define QUERN_RUNTIME_TRAINING_SETTINGS_H

#include "runtime/training/Trainer.h"

namespace quern::runtime {

struct TrainSettings {
  std::string data, valid, weights, tokenizer, output, prompt, schedule;
  double split = 0;
  OptimizerOptions optimizer;
  int64_t steps = 0, batch = 0, length = 0, accumulate = 1;
  double rate = 0, leastRate = 0;
  int64_t warmup = 0, evalEvery = 0, evalBatches = 0, sampleEvery = 0, sampleTokens = 0, saveEvery = 0, keep = 0;
  uint64_t seed = 0;
  bool resume = false, quiet = false;

  /// The learning rate of a step, counted from 1: a linear rise, then what `schedule` says.
  double rateAt(uint64_t step) const;
};

const std::vector<Options::Known> &trainOptions();
/// Reads and checks options. Throws UserError.
TrainSettings readSettings(const Options &options, const Program &program);

} // namespace quern::runtime
#endif
