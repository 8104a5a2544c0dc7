// The pages of examples/, each with every pass and rule left out that can be: what `quern_random_specs --pages` checks.
#ifndef QUERN_TESTS_SPECS_CHECKPAGES_H
#define QUERN_TESTS_SPECS_CHECKPAGES_H

#include "passes/Phases.h"
#include "tests/passes/Pages.h"
#include "tests/specs/SpecGenerator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace quern::test {

struct PageWay {
  passes::test::SmallPage page;
  std::string without;
  std::string label() const { return std::string(page.name) + " without " + (without.empty() ? "nothing" : without); }
};

/// "all", or names of pages: with nothing left out, with all left out, and with each name left out alone.
inline std::vector<PageWay> pageWays(const std::string &names) {
  llvm::SmallVector<llvm::StringRef> words;
  llvm::StringRef(names).split(words, ',');
  std::vector<std::string> ways = passes::optionalNames();
  ways.insert(ways.begin(), {"", llvm::join(ways, ",")});
  std::vector<PageWay> matrix;
  for (const passes::test::SmallPage &page : passes::test::smallPages())
    if (names == "all" || llvm::is_contained(words, page.name))
      for (const std::string &way : ways)
        matrix.push_back({page, way});
  if (matrix.empty())
    throw std::runtime_error("--pages " + names + ": all, or names of tests/passes/Pages.h, are needed");
  return matrix;
}

inline RandomSpec specOf(const passes::test::SmallPage &page) {
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
  spec.text = textOf("examples/" + std::string(page.spec) + ".quern");
  spec.vocabulary = page.vocabulary, spec.longest = 30;
  if (page.config)
    spec.config = textOf("tests/data/" + std::string(page.config) + "/config.json");
  spec.settings = page.settings;
  return spec;
}

} // namespace quern::test
#endif
