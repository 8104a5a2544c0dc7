// What a compilation leaves out: optional passes, and rules inside of passes, by name.
#ifndef QUERN_PASSES_WITHOUT_H
#define QUERN_PASSES_WITHOUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <set>
#include <string>

namespace quern::passes {

/// One rule of a pass that can be left out: the result is slower, never different.
struct Rule {
  const char *name, *pass, *meaning;
};

/// All rules, in the order in which their passes apply them.
llvm::ArrayRef<Rule> rules();

/// The passes and rules that are left out. Passes ask with `has`.
class Without {
public:
  Without() = default;
  /// Names separated by commas, as `--without` takes them. Throws std::runtime_error, which lists what can be left out,
  /// for a name that is unknown or of a pass that the compiler cannot do without.
  explicit Without(llvm::StringRef names);
  void add(llvm::StringRef names);

  /// True if the pass or rule is left out. The name must be one of the tables', so that a slip of the pen is no rule.
  bool has(llvm::StringRef name) const;
  bool empty() const { return names.empty(); }
  /// "cse,raise-attention", in alphabetical order.
  std::string str() const;

private:
  std::set<std::string> names;
};

/// Everything that can be left out: optional passes in the order of the phase table, each followed by its rules.
std::vector<std::string> optionalNames();

} // namespace quern::passes
#endif
