// What the parts of the generator share: the text so far, the dimensions, and the tensors in scope.
#ifndef QUERN_TESTS_SPECS_SPECWRITER_H
#define QUERN_TESTS_SPECS_SPECWRITER_H

#include "tests/specs/SpecGenerator.h"

#include <map>
#include <set>

namespace quern::test {

/// A real tensor in scope. `dims` are in no order; the batch B is left out.
struct Named {
  std::string name;
  std::set<std::string> dims;
  bool used = false;
};

class SpecWriter {
public:
  explicit SpecWriter(Choices &choices) : choices(choices) {}
  RandomSpec write();

private:
  // ---- text
  void line(const std::string &text);
  std::string fresh(const std::string &stem) { return stem + std::to_string(++count); }
  /// A parameter path that no other call has.
  std::string path() { return " @ \"" + fresh("p") + "\""; }

  // ---- the spec (SpecGenerator.cpp)
  void chooseDims();
  void declareDims(std::string &head);
  void forward(const std::string &head);
  void translate(const std::string &head);
  void layers(const std::string &x);
  void layer(const std::string &x, int depth);
  void block();
  std::string norm(const std::string &x);

  // ---- along time (SpecTime.cpp): expressions [B, T, D] of a tensor [B, T, D]
  std::string mixer(const std::string &h);
  std::string headed(const std::string &h);
  std::string plain(const std::string &h);
  std::string running(const std::string &h);
  std::string remembering(const std::string &h);
  std::string shifted(const std::string &h);
  std::string mask();
  std::string condition();
  std::string feedForward(const std::string &h);
  std::string experts(const std::string &h);

  // ---- algebra on the tensors in scope (SpecAlgebra.cpp)
  void algebra(int steps);
  void step();
  bool elementwise(Named &x);
  bool combine(Named &x);
  bool project(Named &x);
  bool contract(Named &x);
  bool reduce(Named &x);
  bool reshape(Named &x);
  bool select(Named &x);
  bool widen(Named &x);
  bool choose(Named &x);
  /// Adds all that was made and not used to `x`, a tensor [B, T, D] (or [.., D] in a block).
  void gatherUp(const std::string &x);
  Named &pick();
  /// Names `text` and puts it into scope.
  void keep(const std::string &text, std::set<std::string> dims);
  void keepTwo(const std::string &text, std::set<std::string> first, std::set<std::string> second);
  std::string anyDim(const std::set<std::string> &dims);
  std::string freeDim(const std::set<std::string> &dims);
  int64_t elements(const std::set<std::string> &dims) const;

  Choices &choices;
  std::string text;
  std::string indent = "  ";
  int count = 0;
  std::map<std::string, int64_t> sizes; // of the dimensions that the config fixes
  std::vector<std::string> features;    // those that algebra may use
  std::vector<std::string> blocks;      // of the model, [D](x: [.., D])
  std::vector<Named> scope;
  bool causal = true, timed = true; // timed: T is in scope
  bool hasMask = false, hasSegments = false, hasTokens = true;
  std::string twin = "S", time = "T";
  int64_t longest = 0;
};

/// "a, b"
std::string join(const std::set<std::string> &dims);
std::set<std::string> without(std::set<std::string> dims, const std::string &dim);
std::set<std::string> with(std::set<std::string> dims, const std::string &dim);

} // namespace quern::test
#endif
