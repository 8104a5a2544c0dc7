// Takes: tokens. Gives: the vector that a sentence encoder makes of them.
#include "runtime/engine/Embedding.h"

#include "runtime/Error.h"
#include "support/Nearest.h"

#include <algorithm>

namespace quern::runtime {

static bool readsTokens(const FunctionInfo &function) {
  return function.role == "eval" && !function.inputs.empty() && function.inputs[0].name == "tokens" &&
         function.inputs[0].dims.size() == 2 &&
         std::all_of(function.inputs.begin() + 1, function.inputs.end(),
                     [](const TensorInfo &input) { return input.optional; });
}

EmbeddingResult findEmbedding(const Description &d, const std::string &name) {
  std::vector<std::string> names;
  std::string list;
  for (size_t i = 0; i < d.functions.size(); ++i)
    for (const TensorInfo &output : d.functions[i].outputs) {
      if (!readsTokens(d.functions[i]) || output.storage != Storage::F32 || output.dims.size() != 2 ||
          !output.dims[1].isConstant())
        continue;
      if (name.empty() || output.name == name)
        return {int(i), output.name};
      names.push_back(output.name);
      list += (list.empty() ? "" : ", ") + output.name;
    }
  if (names.empty())
    throw UserError("this model gives no vector for a text: no function goes from tokens [B, T] to [B, D]");
  throw UserError("no vector of a text is called " + quote(name) + didYouMean(name, names) + " (there is " + list +
                  ")");
}

std::vector<float> embedTokens(Session &session, const EmbeddingResult &result, const std::vector<int> &tokens) {
  if (tokens.empty())
    throw UserError("the text has no tokens");
  Values inputs;
  inputs["tokens"] = Value::ints({1, int64_t(tokens.size())}, tokens);
  Values outputs = session.evaluate(result.function, inputs);
  const Value &vector = outputs.at(result.output);
  return {vector.reals(), vector.reals() + vector.elements()};
}

} // namespace quern::runtime
