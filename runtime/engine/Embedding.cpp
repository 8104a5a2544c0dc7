// Takes: tokens of texts. Gives: the vectors that a sentence encoder makes of them.
#include "runtime/engine/Embedding.h"

#include "runtime/Error.h"
#include "support/Nearest.h"

#include <algorithm>
#include <numeric>

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

/// Together, padded: more rows of a product than this gain nothing.
static constexpr size_t tokensAtATime = 512;

/// A call for some texts of the same batch, the longest first.
static Values inputsOf(const std::vector<std::vector<int>> &texts, const std::vector<size_t> &batch, bool masked) {
  const auto count = int64_t(batch.size()), length = int64_t(texts[batch[0]].size());
  Values inputs;
  Value &tokens = inputs["tokens"] = Value::make(Storage::I32, {count, length});
  Value mask = Value::make(Storage::U8, {count, length});
  for (int64_t row = 0; row < count; ++row) {
    const std::vector<int> &text = texts[batch[size_t(row)]];
    std::copy(text.begin(), text.end(), tokens.ints() + row * length);
    std::fill_n(mask.data.begin() + row * length, text.size(), 1);
  }
  if (masked)
    inputs["mask"] = std::move(mask);
  return inputs;
}

std::vector<std::vector<float>> embedTokens(Session &session, const EmbeddingResult &result,
                                            const std::vector<std::vector<int>> &texts,
                                            const std::function<void(size_t)> &done) {
  const std::vector<TensorInfo> &inputs = session.description().functions[size_t(result.function)].inputs;
  const bool masks =
      std::any_of(inputs.begin(), inputs.end(), [](const TensorInfo &input) { return input.name == "mask"; });
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return texts[a].size() > texts[b].size(); });
  std::vector<std::vector<float>> vectors(texts.size());
  for (size_t at = 0; at < order.size();) {
    const size_t longest = texts[order[at]].size();
    std::vector<size_t> batch;
    for (; at < order.size() && (batch.empty() || (batch.size() + 1) * longest <= tokensAtATime); ++at) {
      const size_t length = texts[order[at]].size();
      if (length == 0)
        throw UserError("a text has no tokens");
      if (masks ? length * 4 < longest * 3 : length != longest)
        break;
      batch.push_back(order[at]);
    }
    Values outputs =
        session.evaluate(result.function, inputsOf(texts, batch, masks && texts[batch.back()].size() < longest));
    const Value &found = outputs.at(result.output);
    const auto width = found.elements() / int64_t(batch.size());
    for (size_t row = 0; row < batch.size(); ++row)
      vectors[batch[row]].assign(found.reals() + int64_t(row) * width, found.reals() + int64_t(row + 1) * width);
    if (done)
      done(std::accumulate(batch.begin(), batch.end(), size_t(0),
                           [&](size_t sum, size_t text) { return sum + texts[text].size(); }));
  }
  return vectors;
}

} // namespace quern::runtime
