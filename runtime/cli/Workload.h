// How a program is used where it is measured: by bench, and by tuning.
#ifndef QUERN_RUNTIME_CLI_WORKLOAD_H
#define QUERN_RUNTIME_CLI_WORKLOAD_H

#include "runtime/cli/Commands.h"
#include "runtime/engine/Sequence.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>

namespace quern::runtime {

class Workload {
public:
  virtual ~Workload() = default;
  struct Part {
    std::string name; ///< prefill, decode, step
    double count;     ///< how often one use of the program makes such a call
    std::function<void()> once;
    std::function<void()> prepare = [] {}; ///< before each, in time that does not count
  };
  virtual std::vector<Part> parts() = 0;
  /// Where its calls compute.
  virtual Device &device() = 0;
};

/// What equal runs took: the median, and from the fastest to the slowest.
class Samples {
public:
  void add(double seconds);
  size_t count() const { return sorted.size(); }
  double median() const; ///< of an even number the mean of the two in the middle
  double least() const { return sorted.front(); }
  double most() const { return sorted.back(); }
  double total() const;
  /// Whether a figure needs another run: -r of them; without it three, and then more while all took less than
  /// `seconds`, at most 50.
  bool wantsMore(const Options &options, double seconds) const;

private:
  std::vector<double> sorted;
};

/// What touched memory for the first time is no part of a profile.
void forgetCalls();
/// What a device was asked to do since it had these counts.
nlohmann::json countsSince(const Device &device, const DeviceCounts &before);
/// What arithmetic can do at most, measured now: operations a second, and which. Of a device also the bytes that it reads.
struct ArithmeticLimit {
  double flops;
  std::string what;
  double bytes = 0;
  bool inPieces = false; ///< tiles multiply f32, each number as several
};
ArithmeticLimit measureArithmetic(Device &device, const Description &description);
/// -r of bench.
int64_t repetitionsOf(const Options &options, int64_t otherwise);

/// `count` numbers below `bound`, the same for a seed.
std::vector<int> randomTokens(int64_t count, int64_t bound, uint64_t seed);

/// A prefill of -p tokens and -n decode steps after it; of a model that does not generate, calls on -p tokens. Weights are
/// those of --weights, else random. Throws UserError for lengths that the model does not have, if they were asked for;
/// others become shorter.
class TextWorkload : public Workload {
public:
  TextWorkload(const Command &command, const Options &options);

  std::vector<Part> parts() override;
  Device &device() override { return session().device(); }
  /// Reads the text from its start.
  void prefill();
  /// Goes back to the text that steps continue: the prefill's, or of an encoder-decoder model a first token.
  void beginDecode();
  /// One step more, at most -n.
  void step();

  bool generates = false, hasSource = false;
  int64_t reads, writes;
  int reader = -1; ///< the function of a prefill
  std::unique_ptr<Weights> weights;
  std::optional<Engine> engine; ///< of models that generate
  std::optional<Sequence> sequence;
  Session &session() { return engine ? engine->session() : *alone; }
  /// Lengths of the next step, by the description's symbols.
  std::vector<int64_t> stepSizes() const;

private:
  const Description &d;
  std::optional<Session> alone;
  int64_t bound = 2;
  std::vector<int> text; ///< of the prefill
  int64_t steps = 0;
  void read();
};

/// A number of lengths, by the description's symbols: one row of `count` tokens after `past`.
std::vector<int64_t> textSizes(const Description &d, int64_t past, int64_t count);

} // namespace quern::runtime
#endif
