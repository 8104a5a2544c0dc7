// Running a template: names, steps, output.
#ifndef QUERN_RUNTIME_TEMPLATE_EVALUATOR_H
#define QUERN_RUNTIME_TEMPLATE_EVALUATOR_H

#include "runtime/template/Ast.h"

#include <map>

namespace quern::runtime::jinja {

/// Names and what they mean; those of `outer` where they are not here.
struct Scope {
  Scope *outer = nullptr;
  std::map<std::string, Value, std::less<>> names;
  const Value *find(std::string_view name) const;
};

/// What a template may do at most: so many steps, where 16 bytes of a made text or an element of a made list count as one,
/// and so deep in each other. So time and memory are bounded whatever it says.
class Budget {
public:
  /// Throws UserError where it is spent.
  void spend(uint64_t steps);
  int depth = 0; // of macros and expressions

private:
  uint64_t left = 8'000'000;
};

class Evaluator {
public:
  explicit Evaluator(Budget &budget) : budget(budget) {}
  void run(const Body &body, Scope &scope, std::string &out);

private:
  enum class Flow { Next, Break, Continue };
  Budget &budget;
  int line = 0; // of the statement or expression at hand, for messages

  Flow execute(const Body &body, Scope &scope, std::string &out);
  Flow execute(const Stmt &stmt, Scope &scope, std::string &out);
  Flow loop(const Stmt &stmt, Scope &scope, std::string &out);
  void assign(const Expr &target, Value value, Scope &scope);
  Value macro(const Stmt &stmt, Scope &scope);

  Value evaluate(const Expr &expr, Scope &scope);
  Value call(const Expr &expr, Scope &scope);
  Value slice(const Expr &expr, Scope &scope);
  bool compares(const std::string &how, const Value &a, const Value &b);
  Value binary(const std::string &how, const Value &a, const Value &b);
  Arguments arguments(const Expr &expr, size_t from, Scope &scope);
  Value made(std::string text);
  Value made(List list);
};

/// `value.name` as Python and Jinja look it up: an entry of a mapping, or a method of a string or mapping.
Value attributeOf(const Value &value, const std::string &name, Budget &budget);
/// `value[key]`.
Value itemOf(const Value &value, const Value &key);
/// What `for` and list filters go over: elements, keys, or characters. Throws UserError for what has none.
List elementsOf(const Value &value);
/// How many elements, keys or characters. Throws UserError for what has none.
int64_t lengthOf(const Value &value);
/// `needle in all`.
bool contains(const Value &all, const Value &needle);

/// Elements as numbers, strings and lists are sorted; equal ones keep their order.
List sorted(List list, bool reverse, bool caseSensitive);

/// A filter or test by name. `call.positional[0]` is the value that it stands behind. Throws UserError for unknown ones.
Value applyFilter(const std::string &name, const Arguments &call, Budget &budget);
bool applyTest(const std::string &name, const Arguments &call);

/// range, namespace, dict, raise_exception, strftime_now.
void addFunctions(Scope &scope, Budget &budget);

/// Characters of a text: numbers of them, as Python counts, and parts.
std::vector<std::string> charactersOf(const std::string &text);
/// str.strip: `chars` null for white space; which ends.
std::string strip(const std::string &text, const std::string *chars, bool left, bool right);

} // namespace quern::runtime::jinja
#endif
