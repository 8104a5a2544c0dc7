// `bench --train`: takes a program compiled with --train, with random weights and tokens unless options say otherwise. Gives: how fast
// it makes the loss and all gradients, and updates the parameters (AdamW, clipped), next to what the machine computes
// in registers.
//
// What counts as work is 6 operations a parameter and token (Kaplan et al. 2020), 4 where adapters are trained beside it: what is computed again, attention's
// own products and lookups count for nothing, so that no way of computing a step can flatter itself. The limit is
// measured right before and right after, as a shared machine drifts; the better one counts.
#include "runtime/training/Trainer.h"

#include "runtime/Error.h"
#include "runtime/cli/Workload.h"
#include "runtime/machine/CpuFeatures.h"
#include "runtime/machine/Terminal.h"
#include "runtime/machine/ThreadPool.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace quern::runtime {

/// Random numbers for an input of the loss: each below what it may be.
static Value randomInput(const TensorInfo &input, const std::vector<int64_t> &sizes, uint64_t &seed) {
  std::vector<int64_t> shape;
  for (const SizeExpr &dim : input.dims)
    shape.push_back(dim.evaluate(sizes));
  if (input.storage != Storage::I32)
    throw UserError("bench --train makes tokens up, but input " + describeTensor(input) + " is none");
  Value value = Value::make(Storage::I32, shape);
  for (int64_t i = 0; i < value.elements(); ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    value.ints()[i] = int32_t(int64_t(seed >> 33) % input.below.value_or(2));
  }
  return value;
}

namespace {

/// Steps on the same rows of made-up tokens: the loss with its gradient, then an update.
class TrainingWorkload : public Workload {
public:
  TrainingWorkload(const Command &command, const Options &options);
  std::vector<Part> parts() override {
    return {{"step", 1, [this] {
               accumulate();
               update();
             }}};
  }
  Device &device() override { return trainer.session().device(); }
  void accumulate() { trainer.accumulate(inputs); }
  void update() { trainer.update(1e-5); }

  int64_t rows, length;
  Trainer trainer;
  std::vector<int64_t> sizes; ///< by the description's symbols
  int function;

private:
  Values inputs;
};

OptimizerOptions optimizerOptions() {
  OptimizerOptions optimizer;
  optimizer.decay = 0.1;
  optimizer.clip = 1;
  return optimizer;
}

uint64_t seedOf(const Options &options) {
  return uint64_t(options.integer("--seed", 0, INT64_MIN, INT64_MAX));
}

TrainingWorkload::TrainingWorkload(const Command &command, const Options &options)
    : rows(options.integer("--batch", 4, 1, INT32_MAX)), length(options.integer("-p", 64, 1, INT32_MAX)),
      trainer(command.program, optimizerOptions(), seedOf(options)) {
  const Description &d = command.program.description;
  uint64_t seed = seedOf(options);
  if (options.has("--weights"))
    trainer.load(TensorSource::open(options.text("--weights")));
  function = trainer.training().function;
  sizes.assign(d.symbols.size(), length);
  if (d.batch >= 0)
    sizes[size_t(d.batch)] = rows;
  if (d.past >= 0)
    sizes[size_t(d.past)] = 0;
  for (const TensorInfo &input : d.functions.at(size_t(function)).inputs)
    if (!input.optional)
      inputs[input.name] = randomInput(input, sizes, seed);
}

} // namespace

std::unique_ptr<Workload> trainingWorkload(const Command &command, const Options &options) {
  return std::make_unique<TrainingWorkload>(command, options);
}

int trainBenchCommand(const Command &command, const Options &options) {
  const Description &d = command.program.description;
  TrainingWorkload work(command, options);
  Trainer &trainer = work.trainer;
  Session &session = trainer.session();
  int number = work.function;
  int64_t rows = work.rows, length = work.length;
  const std::vector<int64_t> &sizes = work.sizes;
  double parameters = double(trainer.parameterCount()), active = trainer.activeCount(), perToken = trainer.operations(),
         tokens = double(rows) * double(length);
  work.accumulate(); // touches all memory
  work.update();
  forgetCalls();
  Samples gradients, updates, steps;
  Device &device = session.device();
  ArithmeticLimit most = measureArithmetic(device, d);
  double before = most.flops;
  DeviceCounts atFirst = device.counts();
  while (steps.wantsMore(options, 5)) {
    double start = now();
    gradients.add(device.timed([&] { work.accumulate(); }));
    updates.add(device.timed([&] { work.update(); }));
    steps.add(now() - start);
  }
  nlohmann::json asked = countsSince(device, atFirst);
  double after = measureArithmetic(device, d).flops,
         limit = std::max({before, after, perToken * tokens / gradients.least()});
  double seconds = gradients.median(), achieved = perToken * tokens / seconds;
  double update = updates.median(), step = steps.median(), whole = perToken * tokens / step;
  double planned = double(session.plannedBytes(number, sizes)),
         used = double(session.touchedBytes() + session.scratchPeakBytes());
  if (options.has("--json")) {
    nlohmann::json result = {{"model", d.model},
                             {"cpu", cpuName()},
                             {"threads", ThreadPool::instance().threads()},
                             {"parameters", parameters},
                             {"active_parameters", active},
                             {"tokens", tokens},
                             {"seconds", seconds},
                             {"runs", gradients.count()},
                             {"fastest_s", gradients.least()},
                             {"slowest_s", gradients.most()},
                             {"achieved_gflops", achieved / 1e9},
                             {"limit_gflops", limit / 1e9},
                             {"limit_what", most.what},
                             {"limit_before", before / 1e9},
                             {"limit_after", after / 1e9},
                             {"ratio", achieved / limit},
                             {"update_seconds", update},
                             {"step_seconds", step},
                             {"step_fastest_s", steps.least()},
                             {"step_slowest_s", steps.most()},
                             {"step_tokens_per_s", tokens / step},
                             {"step_ratio", whole / limit},
                             {"planned_bytes", planned},
                             {"planned_scratch_bytes", session.plannedScratch(number, sizes)},
                             {"used_bytes", used},
                             {"scratch_bytes", session.scratchPeakBytes()}};
    if (!d.device.empty())
      result["device"] = asked;
    writeOutput(result.dump() + "\n");
    return 0;
  }
  auto spread = [](const Samples &samples) {
    return samples.count() > 1
               ? format("  %.3f to %.3f s in %zu runs", samples.least(), samples.most(), samples.count())
               : "";
  };
  std::string experts = active < parameters ? format(" (a token uses %.1fM)", active / 1e6) : "";
  writeOutput(format("%s on %s, %d threads, %.1fM parameters%s, %lld x %lld tokens\n", d.model.c_str(),
                     cpuName().c_str(), ThreadPool::instance().threads(), parameters / 1e6, experts.c_str(),
                     static_cast<long long>(rows), static_cast<long long>(length)) +
              format("gradient %8.1f tokens/s  %7.1f of %.1f GFLOP/s (%.0f%%), %.3f s%s\n", tokens / seconds,
                     achieved / 1e9, limit / 1e9, 100 * achieved / limit, seconds, spread(gradients).c_str()) +
              format("step     %8.1f tokens/s  %7.1f of %.1f GFLOP/s (%.0f%%), with an update of %.3f s%s\n",
                     tokens / step, whole / 1e9, limit / 1e9, 100 * whole / limit, update, spread(steps).c_str()) +
              "memory   " + formatBytes(planned) + " planned, " + formatBytes(used) +
              " used, beside parameters, gradients and moments\n");
  return 0;
}

} // namespace quern::runtime
