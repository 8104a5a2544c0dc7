// Attention: scores, mask, softmax and weighted sum without the matrix of scores ever being stored.
#ifndef QUERN_CODEGEN_ATTENTIONFAMILY_H
#define QUERN_CODEGEN_ATTENTIONFAMILY_H

#include "codegen/AttentionPattern.h"
#include "codegen/KernelBuilder.h"

namespace quern::codegen {

class AttentionFamily {
public:
  AttentionFamily(KernelBuilder &builder, AttentionPattern pattern);
  /// Defines the value of the pattern's `result`; all it is computed from but the scores is defined by now.
  void define();

private:
  void prepareInputs();
  Func packKeys();
  void makeScores(const Func &keys);
  void makeDirect();
  void makeWeights();
  void makeBlock();
  void schedule(Stage &out);
  Func overKeys(const std::string &what, const Func &of, bool largest);
  std::vector<Expr> blockArgs(std::vector<Expr> leading) const;

  KernelBuilder &b;
  AttentionPattern p;
  std::vector<Dim> heads; ///< dimensions of the result but queries and columns
  int block, rows, keys, width;
  Var lane{"l"}, query{"tq"}, tile{"tb"}, part{"sb"}, column{"c"}, at{"u"};
  Expr firstPart, lastPart, parts; ///< of keys that a block of queries can see
  bool bounded = false;
  Func dot, direct, score, largestLanes, largest, weight, totalLanes, total, sums, result;
  RVar directDepth;
  std::vector<RVar> depths;
  Halide::RDom positions;
};

} // namespace quern::codegen
#endif
