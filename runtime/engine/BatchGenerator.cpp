// Takes: texts of different lengths. Gives: the logits of what follows each.
//
// Row b of length n begins at slot `shift` = longest - n; before that its slots hold what nobody looks at. So new rows
// are written at one place for all, the last of each row is in the last slot, and a step is one call.
#include "runtime/engine/BatchGenerator.h"

#include "runtime/Error.h"

#include <algorithm>

namespace quern::runtime {

bool BatchGenerator::serves(const Description &d) {
  int number = d.findRole("ragged", "forward");
  if (number < 0 || d.time < 0 || d.past < 0 || d.cap < 0 || d.batch < 0)
    return false;
  const FunctionInfo &function = d.functions[size_t(number)];
  return function.inputs.size() == 2 && function.inputs[0].kind == Kind::Int && function.inputs[0].dims.size() == 2 &&
         function.inputs[1].name == "shift" && function.outputs.size() == 1 && function.outputs[0].dims.size() == 2;
}

BatchGenerator::BatchGenerator(Session &session, int64_t room) : session(session), room(room) {
  ragged = session.description().findRole("ragged", "forward");
  few = session.description().findRole("ragged_few", "forward");
}

std::vector<int64_t> BatchGenerator::sizesFor(size_t rows, int64_t past, int64_t count) const {
  const Description &d = session.description();
  std::vector<int64_t> sizes(d.symbols.size(), 0);
  sizes[size_t(d.batch)] = int64_t(rows);
  sizes[size_t(d.time)] = count;
  sizes[size_t(d.past)] = past;
  sizes[size_t(d.cap)] = std::max(room, past + count);
  d.completeSizes(sizes, std::max(newRows, count));
  return sizes;
}

void BatchGenerator::run(const std::vector<std::vector<int>> &texts, int64_t length, int64_t past, int64_t count) {
  newRows = std::max(newRows, count);
  const Description &d = session.description();
  int64_t rows = int64_t(texts.size()) * count;
  int number = few >= 0 && rows <= d.functions[size_t(few)].fewRows ? few : ragged;
  if (past + count > room) // half as much again, so that a growing cache is copied seldom
    room = std::min(session.longestText(ragged), (past + count) * 3 / 2 + 64);
  std::vector<int64_t> sizes = sizesFor(texts.size(), past, count);
  session.checkLimits(ragged, sizes);
  if (past == 0)
    requireMemory(session.plannedBytes(ragged, sizes), std::to_string(texts.size()) + " texts at once");
  std::vector<int> tokens, shifts;
  for (const std::vector<int> &text : texts) {
    int64_t shift = length - int64_t(text.size());
    shifts.push_back(int(shift));
    for (int64_t slot = past; slot < past + count; ++slot)
      tokens.push_back(slot < shift ? 0 : text[size_t(slot - shift)]);
  }
  Value text = Value::ints({int64_t(texts.size()), count}, tokens);
  Value shift = Value::ints({int64_t(texts.size())}, shifts);
  outputs = session.makeOutputs(number, sizes);
  session.call(number, sizes, {&text, &shift}, {&outputs[0]}, past == 0);
}

std::span<const float> BatchGenerator::next(const std::vector<std::vector<int>> &texts) {
  const Description &d = session.description();
  int64_t length = 0;
  std::vector<uint64_t> now;
  for (const std::vector<int> &text : texts) {
    length = std::max(length, int64_t(text.size()));
    now.push_back(session.epoch(ragged, sizesFor(1, int64_t(text.size()) - 1, 1)));
  }
  bool grown = !d.recompute && texts.size() == remembered.size() && now == epochs;
  for (size_t b = 0; grown && b < texts.size(); ++b)
    grown = texts[b].size() == remembered[b].size() + 1 &&
            std::equal(remembered[b].begin(), remembered[b].end(), texts[b].begin());
  epochs = now;
  remembered = texts;
  if (grown) {
    run(texts, length, length - 1, 1);
  } else {
    // What is remembered may depend on the whole length: a row's chunks must all see the answers of its end.
    auto steady = [&](int64_t end) {
      for (size_t b = 0; b < texts.size(); ++b)
        if (int64_t own = end - (length - int64_t(texts[b].size()));
            own > 0 && session.epoch(ragged, sizesFor(1, own - 1, 1)) != now[b])
          return false;
      return true;
    };
    for (int64_t past = 0, count; past < length; past += count) {
      count = d.recompute ? length : std::min(chunk, length - past);
      while (past + count < length && !steady(past + count))
        count = std::min(count + chunk, length - past);
      run(texts, length, past, count);
    }
  }
  return {outputs[0].reals(), size_t(outputs[0].elements())};
}

} // namespace quern::runtime
