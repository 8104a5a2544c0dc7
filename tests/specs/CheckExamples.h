// The specs of examples/, each with every pass and rule left out that can be: what `quern_random_specs --examples` checks.
#ifndef QUERN_TESTS_SPECS_CHECKEXAMPLES_H
#define QUERN_TESTS_SPECS_CHECKEXAMPLES_H

#include "passes/Phases.h"
#include "tests/passes/ExampleSpecs.h"
#include "tests/specs/SpecGenerator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace quern::test {

struct ExampleWay {
  passes::test::ExampleSpec example;
  std::string without;
  std::string label() const {
    return std::string(example.name) + " without " + (without.empty() ? "nothing" : without);
  }
};

/// "all", or names of specs: with nothing left out, with all left out, and with each name left out alone.
inline std::vector<ExampleWay> exampleWays(const std::string &names) {
  llvm::SmallVector<llvm::StringRef> words;
  llvm::StringRef(names).split(words, ',');
  std::vector<std::string> ways = passes::optionalNames();
  ways.insert(ways.begin(), {"", llvm::join(ways, ",")});
  std::vector<ExampleWay> matrix;
  for (const passes::test::ExampleSpec &example : passes::test::exampleSpecs())
    if (names == "all" || llvm::is_contained(words, example.name))
      for (const std::string &way : ways)
        matrix.push_back({example, way});
  if (matrix.empty())
    throw std::runtime_error("--examples " + names + ": all, or names of tests/passes/ExampleSpecs.h, are needed");
  return matrix;
}

inline RandomSpec specOf(const passes::test::ExampleSpec &example) {
  const char *root = std::getenv("QUERN_SOURCE");
  if (!root)
    throw std::runtime_error("QUERN_SOURCE must name the repository");
  auto textOf = [&](const std::string &path) {
    std::ifstream file(root + ("/" + path));
    std::string text(std::istreambuf_iterator<char>(file), {});
    if (text.empty())
      throw std::runtime_error("cannot read " + path + " below " + root);
    return text;
  };
  RandomSpec spec;
  spec.text = textOf("examples/" + std::string(example.spec) + ".quern");
  spec.vocabulary = example.vocabulary, spec.longest = 30;
  if (example.config)
    spec.config = textOf("tests/data/" + std::string(example.config) + "/config.json");
  spec.settings = example.settings;
  return spec;
}

} // namespace quern::test
#endif
