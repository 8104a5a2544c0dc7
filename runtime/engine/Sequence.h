// One text: its tokens, what chooses the next one, and what the model keeps of those it has read.
#ifndef QUERN_RUNTIME_ENGINE_SEQUENCE_H
#define QUERN_RUNTIME_ENGINE_SEQUENCE_H

#include "runtime/engine/Engine.h"
#include "runtime/sampling/Sampler.h"

#include <span>
#include <vector>

namespace quern::runtime {

class Batch;

/// Alone, or one of a `Batch`.
class Sequence {
public:
  struct Options {
    SamplerOptions sampling;
    int64_t room = 0;    // positions to make room for at once; more come as needed
    int64_t chunk = 512; // rows of one call while a long text is read
  };
  Sequence(Engine &engine, const Options &options);
  explicit Sequence(Engine &engine) : Sequence(engine, Options()) {}
  /// Leaves its batch.
  ~Sequence();
  Sequence(const Sequence &) = delete;

  /// Runs the encoder (encoder-decoder).
  void setSource(const std::vector<int> &tokens);
  /// What belongs to the text beside its tokens, of one row each, by the names of inputs: those of the encoder, which
  /// is run, and others of the function that writes.
  void setRequest(Values given);

  const std::vector<int> &tokens() const { return text; }
  void append(int token) { text.push_back(token); }
  void append(const std::vector<int> &tokens) { text.insert(text.end(), tokens.begin(), tokens.end()); }
  /// Goes on as `other` would, without a new prefill of its text: from one engine, both alone or both of one batch.
  void become(const Sequence &other);
  /// Goes back to the first `length` tokens.
  void truncate(size_t length);
  /// Whether the model has a position for one token more.
  bool hasRoom() const { return int64_t(text.size()) <= engine.longest(); }

  /// Logits of what follows the text; reads what is new in it. They hold until the text changes. A text has a token.
  std::span<const float> logits();
  /// Makes the logits without fetching them from the device that has them.
  void advance();
  /// Chooses what follows and appends it. Throws UserError where the model has no embedding for its choice. A device that
  /// has chosen reads its choice while the host waits for it.
  int choose();
  Chosen chooseScored();

  /// Bytes of its cache that are in memory, in whole pages.
  uint64_t touchedBytes() const { return cache.touched(); }

private:
  friend class Batch;
  Engine &engine;
  Batch *batch = nullptr; // that it is in
  Options options;
  Sampler sampler;
  std::vector<int> text;
  Values request;              // inputs that stay: memory, mask, the encoder's others
  Cache cache;                 // empty while its rows are in the batch's
  size_t read = 0;             // so many tokens are in the cache
  uint64_t epoch = 0;          // of the length for which they were read
  int64_t planned = 0;         // positions that memory was asked for
  int64_t newRows = 0;         // of the longest call so far: rings have room for them
  bool fresh = true;           // the next call is the request's first
  std::vector<Buffer> results; // of the last call, where the program computes
  // The logits of the text's first `answered` tokens: at `there`, in its results or its batch's, or null when fetched.
  const void *there = nullptr;
  std::vector<float> answer;
  size_t answered = 0;
  // The token that was chosen last where the program computes, as a device chose it.
  Buffer ownToken;
  void *tokenThere = nullptr; // in a batch: the row's of the batch's
  int lastThere = -1;

  void run(int function, int64_t past, int64_t count);
  void readOn();
  void fetch();
  void keepLogits();
  int chooseThere(const Draw &draw);
  bool readsAhead() const;
  std::vector<int64_t> sizesFor(int function, int64_t past, int64_t count) const;
  void checkToken(int token) const;
};

} // namespace quern::runtime
#endif
