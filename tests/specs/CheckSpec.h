// One spec through the whole compiler, compared with the reference interpreter on the way.
#ifndef QUERN_TESTS_SPECS_CHECKSPEC_H
#define QUERN_TESTS_SPECS_CHECKSPEC_H

#include "tests/specs/SpecGenerator.h"

#include <string>

namespace quern::test {

struct CheckOptions {
  std::string cache;   ///< of compiled kernels
  std::string without; ///< passes and rules left out; "random": some, as the choices say
  std::string target = "native";
  std::string schedules; ///< text that overrides the built-in ones; small tiles compile in a quarter of the time
  bool compile = true;   ///< else the interpreter alone, after every pass
  bool plans = false;    ///< plans of kernels drawn at random, not chosen
};

enum class Verdict {
  Same,      ///< all numbers agree
  Unstable,  ///< they differ, but no more than those of the interpreter itself when weights move by a few roundings
  Different, ///< they differ, or something failed
  Refused    ///< the frontend does not take the spec: a fault of the generator
};

struct Outcome {
  Verdict verdict = Verdict::Same;
  std::string stage;   ///< where it was seen: "after cse", "compiled", "compiled, in pieces" ...
  std::string message; ///< with the numbers, or the error
  std::string without; ///< what was left out
  bool causal = false; ///< compiled to steps
  int kernels = 0;
  double worst = 0; ///< the largest difference of the compiled program, relative to the largest number
};

/// Schedules of small tiles: less code a kernel, and more tiles' ends in small tensors.
extern const char *const smallTiles;

/// Never throws. A crash (signal) is the caller's to survive.
Outcome checkSpec(const RandomSpec &spec, Choices &choices, const CheckOptions &options);

} // namespace quern::test
#endif
