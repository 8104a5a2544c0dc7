// Takes: tokens. Gives: the vector that a sentence encoder makes of them.
#include "runtime/engine/Embedding.h"

#include "runtime/Error.h"

namespace quern::runtime {

int findEmbedding(const Description &d) {
  for (size_t i = 0; i < d.functions.size(); ++i) {
    const FunctionInfo &function = d.functions[i];
    if (function.role == "eval" && function.outputs.size() == 1 && function.outputs[0].kind == Kind::Real &&
        function.outputs[0].dims.size() == 2 && function.outputs[0].dims[1].isConstant() && !function.inputs.empty() &&
        function.inputs[0].name == "tokens" && function.inputs[0].dims.size() == 2)
      return int(i);
  }
  return -1;
}

std::vector<float> embedTokens(Session &session, int function, const std::vector<int> &tokens) {
  if (tokens.empty())
    throw UserError("the text has no tokens");
  Values inputs;
  inputs["tokens"] = Value::ints({1, int64_t(tokens.size())}, tokens);
  Values outputs = session.evaluate(function, inputs);
  const Value &vector = outputs.begin()->second;
  return {vector.reals(), vector.reals() + vector.elements()};
}

} // namespace quern::runtime
