// The state of a training run in memory, and its steps.
#ifndef QUERN_RUNTIME_TRAINING_TRAINER_H
#define QUERN_RUNTIME_TRAINING_TRAINER_H

#include "runtime/training/FlatMemory.h"
#include "runtime/training/Training.h"

#include <functional>

namespace quern::runtime {

struct OptimizerOptions {
  std::string kind = "adamw"; ///< sgd, momentum, nesterov, adam, adamw: the program's functions update.*
  double momentum = 0.9, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double decay = 0;
  bool decayAll = false; ///< vectors (biases, norms) too
  double clip = 0;       ///< of the gradient's length; 0: none
  /// Which parameters are trained, by one of their names; empty: all that have a gradient.
  std::function<bool(const std::string &name)> wanted;
};

/// Owns the parameters that have a gradient (in f32; of a program compiled with --precision bf16 also the copies that its kernels read),
/// gradients and moments. All are flat, in the order in which the gradient's results come, so that an update is one
/// pass over memory whatever the tensors are. Of a program with adapters (`quern compile --lora`) these alone are here, and all
/// others as kernels read them.
class Trainer {
public:
  /// Random parameters, by the spec's initialisers and the seed. Throws UserError where nothing is to be trained.
  Trainer(const Program &program, const OptimizerOptions &options, uint64_t seed);

  /// Parameters from a checkpoint, with adapters where it has some. Throws UserError with all that does not fit.
  void load(std::unique_ptr<TensorSource> source);

  /// The mean loss of these rows; its gradient is added, so that `update` sees that of the mean over all rows since the
  /// last.
  double accumulate(const Values &inputs);
  struct Step {
    double norm = 0;    ///< of the gradient, before it is clipped
    std::string broken; ///< what is not finite ("gradient of NAME is not"); nothing was changed then
  };
  Step update(double rate);
  /// The loss alone.
  double loss(const Values &inputs);

  /// A session over the current parameters.
  Session &session();
  /// The same for the loss and its gradient, which read parameters as they are stored: nothing is packed for them.
  Session &dense();
  const Description &description() const { return program.description; }
  const Training &training() const { return what; }
  /// "; it was so in ...": a parameter that is not finite, or nothing.
  std::string brokenParameter() const;
  uint64_t steps() const { return count; }
  int64_t parameterCount() const { return parameters; }
  /// Those that a token uses: experts by the share that is chosen.
  double activeCount() const { return active; }
  /// Operations of a token in a gradient: 6 for each parameter that it uses (experts: by the share that is chosen), 4 for one
  /// that has no gradient.
  double operations() const { return work; }
  int64_t trainedCount() const { return trained; }

  /// Parameters under the names of the checkpoint that they came from; adapters under PEFT's.
  std::vector<OutputTensor> tensors() const;
  bool trainsAdapters() const { return program.description.adapterScale.has_value(); }
  /// Moments by tensor ("m.NAME") and the number of steps ("step"): with `tensors` (and what adapters are beside) all that the
  /// next step depends on.
  std::vector<OutputTensor> optimizerTensors() const;
  /// The opposite of optimizerTensors. Throws UserError where `stored` is of another model or optimizer.
  void restore(const std::map<std::string, StoredTensor> &stored, const std::string &path);

private:
  /// What the optimizer changes.
  struct Variable {
    std::string name;
    size_t place;
    std::vector<int64_t> shape;
    size_t elements() const;
  };
  struct Piece { // of the flat memory, short enough for the cache
    size_t at, count;
    bool decays;
  };
  const Program &program;
  Training what;
  OptimizerOptions options;
  std::vector<std::string> names; // of each parameter, as stored
  static constexpr size_t nowhere = SIZE_MAX;
  std::vector<size_t> places; // of each parameter in the flat memory, in elements; nowhere: it is frozen
  std::vector<Variable> variables;
  uint64_t seed;
  std::unique_ptr<TensorSource> source; // of frozen parameters
  std::vector<const StoredTensor *> stored;
  size_t total = 0;
  int64_t parameters = 0, trained = 0;
  double active = 0, work = 0;
  Device &where;
  FlatMemory<float> masters, gradients, accumulated;
  FlatMemory<uint16_t> narrow;            // masters in bf16, at the same places; empty where no kernel wants that
  std::vector<FlatMemory<float>> moments; // m and v, as far as the optimizer has them
  std::vector<std::string> momentNames;
  Buffer flatArena, flatSums, flatNumbers; // of a device, for the functions on pieces
  std::vector<Piece> pieces;
  uint64_t count = 0;
  double weight = 0;       // of the rows since the last update
  bool several = false;    // they came in several calls: their sum is in `accumulated`
  bool stale = false;      // parameters have changed since they were packed
  bool narrowStale = true; // since they were narrowed
  std::unique_ptr<Weights> weights;
  std::unique_ptr<Session> memory;
  std::vector<void *> outputs; // of the gradient's function
  float lossValue = 0;

  const FlatMemory<float> &sum() const { return several ? accumulated : gradients; }
  void layOut();
  void cutPieces();
  void nameAdapters();
  void narrowAll();
  void packAgain();
  std::string brokenGradient() const;
  double squares();
  void addGradients(double scale);
  void forget() { weight = 0, several = false; }
  struct Flat;
  void forPieces(const Flat &function);
  void forPiecesOfDevice(const Flat &function);
};

} // namespace quern::runtime
#endif
