// A loaded program: what all its texts share.
#ifndef QUERN_RUNTIME_ENGINE_ENGINE_H
#define QUERN_RUNTIME_ENGINE_ENGINE_H

#include "runtime/engine/Session.h"
#include "runtime/engine/TextFunctions.h"

namespace quern::runtime {

/// A program with its weights, the process's threads, and the memory that calls work in. Texts of it are `Sequence`s;
/// those that step together are in a `Batch`. One call at a time.
class Engine {
public:
  struct Options {
    bool cache = true; // false: every step computes the whole text anew
  };
  /// Throws UserError for a model that cannot write text.
  Engine(const Program &program, const Weights &weights, Options options);
  Engine(const Program &program, const Weights &weights) : Engine(program, weights, Options()) {}
  /// Works in a session that others use, too, and that outlives it.
  explicit Engine(Session &session);

  const Description &description() const { return memory.description(); }
  const TextFunctions &functions() const { return text; }
  Session &session() { return memory; }
  const Options &options() const { return how; }

  int64_t vocabulary() const { return text.vocabulary(description()); }
  int64_t tokenBound() const { return text.tokenBound(description()); }
  /// The longest text that the tables allow, INT64_MAX if none limits it.
  int64_t longest() const { return memory.longestText(text.main()); }

private:
  Options how;
  TextFunctions text;
  std::unique_ptr<Session> own; // null where it is another's
  Session &memory;
};

} // namespace quern::runtime
#endif
