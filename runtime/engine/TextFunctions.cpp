// Takes: a description. Gives: the functions that write text, or the reason why there are none.
#include "runtime/engine/TextFunctions.h"

#include "runtime/Error.h"
#include "runtime/engine/Cache.h"

#include <algorithm>

namespace quern::runtime {

int findText(const Description &d, int number) {
  const FunctionInfo &function = d.functions[size_t(number)];
  for (const char *name : {"target", "tokens"})
    for (size_t i = 0; i < function.inputs.size(); ++i)
      if (function.inputs[i].name == name && function.inputs[i].storage == Storage::I32 &&
          function.inputs[i].dims.size() == 2)
        return int(i);
  return -1;
}

int findLogits(const FunctionInfo &function) {
  for (size_t i = 0; i < function.outputs.size(); ++i)
    if (function.outputs.size() == 1 || function.outputs[i].name == "logits")
      return int(i);
  return -1;
}

namespace {

/// Whether a function gives logits, of `rank` dimensions, for a text [B, T].
bool givesLogits(const Description &d, int number, size_t rank) {
  if (number < 0)
    return false;
  const FunctionInfo &function = d.functions[size_t(number)];
  const int logits = findLogits(function);
  if (logits < 0 || findText(d, number) < 0)
    return false;
  const TensorInfo &output = function.outputs[size_t(logits)];
  return output.storage == Storage::F32 && output.dims.size() == rank && output.dims.back().isConstant();
}

/// A causal function over one text alone, compiled with rows that begin at different times.
bool isRagged(const Description &d, int number, int step) {
  if (number < 0 || d.batch < 0)
    return false;
  const FunctionInfo &function = d.functions[size_t(number)];
  return function.inputs.size() == 2 && function.inputs[0].storage == Storage::I32 &&
         function.inputs[0].dims.size() == 2 && function.inputs[1].name == "shift" && function.outputs.size() == 1 &&
         function.outputs[0].dims.size() == 2 && Cache::movesRows(d, number) && Cache::sameStates(d, number, step);
}

} // namespace

TextFunctions TextFunctions::find(const Description &d, bool cache) {
  TextFunctions result;
  result.encoder = d.findFunction("encode");
  const std::string name = result.encoder >= 0 ? "decode" : "forward";
  result.full = d.findFunction(name);
  bool lengths = d.time >= 0 && d.past >= 0 && d.cap >= 0;
  int step = d.findRole("step", name);
  if (lengths && result.full >= 0 && givesLogits(d, step, 2)) {
    result.step = step;
    result.few = d.findRole("few", name);
    if (isRagged(d, d.findRole("ragged", name), step) && result.encoder < 0) {
      result.ragged = d.findRole("ragged", name);
      result.raggedFew = d.findRole("ragged_few", name);
    }
  }
  bool anew = givesLogits(d, result.full, 3) && d.time >= 0;
  if (result.steps() || (!cache && anew)) {
    result.textInput = findText(d, result.main());
    return result;
  }
  if (step >= 0 && lengths)
    throw UserError(
        "this model cannot generate text: '" + d.functions[size_t(step)].name +
        "' does not give logits [B, V] of a text [B, T] (of several results, the one called 'logits' counts)");
  if (d.refusal)
    throw UserError(
        "this model cannot generate text step by step: " + *d.refusal +
        (anew ? "; --no-cache computes the whole text anew for each token (an encoder is for embed and eval)" : ""));
  throw UserError("this model cannot generate text: it has no causal function '" + name + "' over a growing text");
}

int TextFunctions::functionFor(const Description &d, int64_t rows) const {
  return few >= 0 && rows <= d.functions[size_t(few)].fewRows ? few : step;
}

int TextFunctions::raggedFor(const Description &d, int64_t rows) const {
  return raggedFew >= 0 && rows <= d.functions[size_t(raggedFew)].fewRows ? raggedFew : ragged;
}

int64_t TextFunctions::vocabulary(const Description &d) const {
  const FunctionInfo &function = d.functions[size_t(main())];
  return function.outputs[size_t(findLogits(function))].dims.back().evaluate(std::vector<int64_t>(d.symbols.size(), 0));
}

int64_t TextFunctions::tokenBound(const Description &d) const {
  return d.functions[size_t(main())].inputs[size_t(textInput)].below.value_or(vocabulary(d));
}

int64_t TextFunctions::sourceBound(const Description &d) const {
  int number = findText(d, encoder);
  return number < 0 ? INT64_MAX : d.functions[size_t(encoder)].inputs[size_t(number)].below.value_or(INT64_MAX);
}

int64_t TextFunctions::longestSource(const Description &d) const {
  int number = findText(d, encoder);
  int symbol = number < 0 ? -1 : d.functions[size_t(encoder)].inputs[size_t(number)].dims[1].asSymbol();
  int64_t longest = INT64_MAX;
  for (const LimitInfo &limit : d.limits)
    if (limit.symbol == symbol &&
        (limit.functions.empty() || std::count(limit.functions.begin(), limit.functions.end(), encoder)))
      longest = std::min(longest, limit.atMost);
  return longest;
}

} // namespace quern::runtime
