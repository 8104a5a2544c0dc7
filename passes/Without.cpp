// Takes: names on a command line. Gives: what passes ask before they apply a rule.
// Why rules have names too: an optimisation is believed when the program without it gives the same numbers and more
// time.
#include "passes/Without.h"

#include "passes/Phases.h"
#include "support/Nearest.h"

#include "llvm/ADT/StringExtras.h"

#include <cassert>
#include <stdexcept>

using namespace quern::passes;
using llvm::StringRef;

llvm::ArrayRef<Rule> quern::passes::rules() {
  static const Rule table[] = {
      {"recompute", "differentiate", "a gradient recomputes what is cheaper to recompute than to save"},
      {"fuse-epilogues", "outline-kernels", "a contraction takes along what follows element by element"},
      {"fuse-branches", "outline-kernels",
       "parts of a contraction that go different ways (queries, keys, values) are one kernel"},
      {"fuse-prologues", "outline-kernels", "a norm that one contraction reads is made in its kernel"},
      {"fuse-norms", "outline-kernels", "a reduction is part of the kernel that uses its result"},
      {"fuse-elementwise", "outline-kernels", "neighbouring elementwise operations are one kernel"},
      {"ragged-rows", "incremental", "rows of a batch may begin at different times: one more function of a program"},
      {"pack-weights", "outline-kernels", "weights of contractions are stored in tiles of rows"},
      {"write-in-place", "plan-memory",
       "a result is written over an argument that is read element by element for the last time"},
  };
  return table;
}

static bool isRule(StringRef name) {
  return llvm::any_of(rules(), [&](const Rule &rule) { return name == rule.name; });
}

std::vector<std::string> quern::passes::optionalNames() {
  std::vector<std::string> names;
  for (const Phase &phase : phases())
    for (const PassEntry &pass : phase.passes) {
      if (pass.needed.empty())
        names.push_back(pass.name);
      for (const Rule &rule : rules())
        if (pass.name == rule.pass)
          names.push_back(rule.name);
    }
  return names;
}

Without::Without(StringRef names) {
  add(names);
}

void Without::add(StringRef list) {
  llvm::SmallVector<StringRef> words;
  list.split(words, ',', -1, /*KeepEmpty=*/false);
  for (StringRef word : words) {
    StringRef name = word.trim();
    const PassEntry *pass = findPass(name);
    if (pass && !pass->needed.empty())
      throw std::runtime_error("the pass '" + name.str() + "' cannot be left out: " + pass->needed);
    if (!pass && !isRule(name)) {
      std::string meant = support::didYouMean(name.str(), optionalNames());
      throw std::runtime_error("no pass or rule is named '" + name.str() + "'" + meant +
                               (meant.empty() ? "; these" : " These") +
                               " can be left out: " + llvm::join(optionalNames(), ", "));
    }
    names.insert(name.str());
  }
}

bool Without::has(StringRef name) const {
  assert((isRule(name) || findPass(name)) && "not in the tables of passes and rules");
  return names.count(name.str());
}

std::string Without::str() const {
  return llvm::join(names, ",");
}
