// Random specs that the frontend accepts: what real specs are made of, in combinations that no spec has.
#ifndef QUERN_TESTS_SPECS_SPECGENERATOR_H
#define QUERN_TESTS_SPECS_SPECGENERATOR_H

#include "tests/specs/Choices.h"

#include <string>
#include <vector>

namespace quern::test {

struct RandomSpec {
  std::string text;
  bool causal = true;                     ///< written so that no position needs a later one
  int64_t vocabulary = 0;                 ///< of `tokens`
  int64_t longest = 0;                    ///< positions that its tables have
  std::string config = "";                ///< config.json, for a spec that is not random
  std::vector<std::string> settings = {}; ///< NAME=VALUE
};

RandomSpec makeSpec(Choices &choices);

} // namespace quern::test
#endif
