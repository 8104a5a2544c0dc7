// Takes: texts of different lengths. Gives: the logits of what follows each.
//
// Row b with n tokens read begins at slot `end` - n; before that its slots hold what nobody looks at. So new rows are
// written at one place for all, the last of each row is in the last slot, and a step is one call:
//
//   slot      0 1 2 3 4 5 6 | 7          end = 7, the step writes slot 7
//   row 0     a b c d e f g | h
//   row 1           i j k l | m          shift = 3
//
// What is stored for a position does not depend on the slot that it is in. So where texts join or leave, rows are copied
// to their new slots (Cache::gather), and only a text that nobody has read yet is read.
#include "runtime/engine/Batch.h"

#include "runtime/Error.h"

#include <algorithm>
#include <utility>

namespace quern::runtime {

Batch::~Batch() {
  for (Sequence *text : members) {
    text->batch = nullptr;
    if (text->there)
      text->answered = 0; // its logits go with the rows
    text->there = nullptr;
    forget(*text);
    if (std::count(rows.texts.begin(), rows.texts.end(), text))
      text->read = 0;
  }
}

void Batch::add(Sequence &sequence) {
  if (sequence.batch)
    throw UserError("a text is in one batch at most");
  members.push_back(&sequence);
  sequence.batch = this;
}

void Batch::remove(Sequence &sequence) {
  giveBack(sequence);
  leave(sequence);
}

bool Batch::holds(const Sequence &sequence) const {
  return sequence.batch == this;
}

void Batch::keepOnly(const std::vector<Sequence *> &sequences) {
  for (Sequence *text : std::vector<Sequence *>(members))
    if (!std::count(sequences.begin(), sequences.end(), text))
      remove(*text);
}

/// Its rows stay where they are until the others are arranged anew.
void Batch::leave(Sequence &sequence) {
  sequence.keepLogits();
  forget(sequence);
  std::erase(members, &sequence);
  std::replace(rows.texts.begin(), rows.texts.end(), &sequence, static_cast<Sequence *>(nullptr));
  sequence.batch = nullptr;
}

/// The place that the rows have for its next token.
void Batch::forget(Sequence &sequence) {
  sequence.tokenThere = nullptr;
  sequence.lastThere = -1;
}

std::vector<int64_t> Batch::sizesFor(const Rows &r, int64_t past, int64_t count) const {
  const Description &d = engine.description();
  std::vector<int64_t> sizes(d.symbols.size(), 0);
  sizes[size_t(d.batch)] = int64_t(r.texts.size());
  sizes[size_t(d.time)] = count;
  sizes[size_t(d.past)] = past;
  sizes[size_t(d.cap)] = std::max(r.room, past + count);
  d.completeSizes(sizes, std::max(r.newRows, count));
  return sizes;
}

uint64_t Batch::epochAt(int64_t length) const {
  Rows one;
  one.texts.resize(1);
  return engine.session().epoch(engine.functions().ragged, sizesFor(one, length - 1, 1));
}

/// New rows for the slots [past, past + count) of texts that will end at slot `end`.
void Batch::run(Rows &r, int64_t end, int64_t past, int64_t count) {
  Session &session = engine.session();
  const TextFunctions &functions = engine.functions();
  const Description &d = engine.description();
  int64_t many = int64_t(r.texts.size());
  r.newRows = std::max(r.newRows, count);
  if (past + count > r.room) // half as much again, so that a growing cache is copied seldom
    r.room = std::max(past + count, std::min(engine.longest(), (past + count) * 3 / 2 + 64));
  std::vector<int64_t> sizes = sizesFor(r, past, count);
  session.checkLimits(functions.ragged, sizes);
  if (past == 0)
    session.requireMemory(functions.ragged, sizes, std::to_string(many) + " texts at once");
  std::vector<int> tokens, shifts;
  bool there = count == 1; // whether a device has the tokens that it chose, side by side
  for (const Sequence *text : r.texts) {
    there &= text->tokenThere == r.tokens.as<int32_t>() + tokens.size() && text->lastThere == text->text.back();
    int64_t shift = end - int64_t(text->text.size());
    shifts.push_back(int(shift));
    for (int64_t slot = past; slot < past + count; ++slot)
      tokens.push_back(slot < shift ? 0 : text->text[size_t(slot - shift)]);
  }
  Value given = Value::ints({many, count}, tokens), shift = Value::ints({many}, shifts);
  if (there)
    given.there = r.tokens.data();
  int number = functions.raggedFor(d, many * count);
  size_t bytes = session.outputBytes(number, sizes)[0];
  if (r.logits.size() < bytes) {
    r.logits = Buffer(bytes, session.device());
    r.tokens = Buffer(size_t(many) * sizeof(int32_t), session.device());
  }
  session.callInto(number, sizes, {&given, &shift}, {r.logits.data()}, r.cache,
                   std::exchange(r.first, false) || past == 0);
}

void Batch::answer(const Rows &r) {
  for (size_t b = 0; b < r.texts.size(); ++b) {
    Sequence &text = *r.texts[b];
    text.there = r.logits.as<float>() + b * size_t(engine.vocabulary());
    void *place = r.tokens.as<int32_t>() + b;
    if (std::exchange(text.tokenThere, place) != place)
      text.lastThere = -1;
    text.answered = text.read = text.text.size();
  }
}

/// Texts that nobody has read: from their starts to their ends, which are all at one slot.
void Batch::readTogether(Rows &group) {
  const Description &d = engine.description();
  for (const Sequence *text : group.texts) {
    group.end = std::max(group.end, int64_t(text->text.size()));
    group.room = std::max(group.room, text->options.room);
  }
  // What is kept may depend on the whole length: a row's chunks must all see the answers of its end.
  auto steady = [&](int64_t slot) {
    return std::all_of(group.texts.begin(), group.texts.end(), [&](const Sequence *text) {
      int64_t own = slot - (group.end - int64_t(text->text.size()));
      return own <= 0 || epochAt(own) == text->epoch;
    });
  };
  for (int64_t past = 0, count; past < group.end; past += count) {
    int64_t chunk = group.texts[0]->options.chunk;
    count = d.recompute ? group.end : std::min(chunk, group.end - past);
    while (past + count < group.end && !steady(past + count))
      count = std::min(count + chunk, group.end - past);
    run(group, group.end, past, count);
  }
  answer(group);
}

/// Where a text's rows are: in the batch's cache, in that of a group that was just read, or in its own.
CacheRow Batch::find(const Sequence &text, const Rows *group) const {
  for (const Rows *r : {&rows, group}) {
    if (!r)
      continue;
    if (auto at = std::find(r->texts.begin(), r->texts.end(), &text); at != r->texts.end())
      return {&r->cache, at - r->texts.begin(), r->end - int64_t(text.read), int64_t(text.read)};
  }
  return {&text.cache, 0, 0, int64_t(text.read)};
}

/// Copies a text's rows to a cache of its own, if they are in the batch's.
void Batch::giveBack(Sequence &text) {
  auto at = std::find(rows.texts.begin(), rows.texts.end(), &text);
  if (at == rows.texts.end())
    return;
  text.newRows = 1;
  text.options.room = std::max(text.options.room, int64_t(text.read) + 1);
  text.cache = Cache::gather(engine.session().device(), engine.description(), engine.functions().ragged,
                             text.sizesFor(engine.functions().step, int64_t(text.read), 1), {find(text, nullptr)},
                             int64_t(text.read));
  text.fresh = true;
  *at = nullptr;
}

/// What `from` has read is read of `to` as well. Where one of them has no row, `to` is read again at the next step.
void Batch::copyRow(const Sequence &from, Sequence &to) {
  auto source = std::find(rows.texts.begin(), rows.texts.end(), &from);
  auto target = std::find(rows.texts.begin(), rows.texts.end(), &to);
  if (source != rows.texts.end() && target != rows.texts.end()) {
    rows.cache.copyRow(engine.description(), source - rows.texts.begin(), target - rows.texts.begin(), rows.end);
    return;
  }
  if (target != rows.texts.end())
    *target = nullptr;
  to.read = to.answered = 0;
}

/// Makes the rows of exactly these texts, in this order, the batch's.
void Batch::arrange(const std::vector<Sequence *> &texts, const Rows *group) {
  for (Sequence *text : std::vector<Sequence *>(rows.texts))
    if (text && !std::count(texts.begin(), texts.end(), text))
      giveBack(*text);
  Rows made;
  made.texts = texts;
  std::vector<CacheRow> from;
  for (const Sequence *text : texts) {
    from.push_back(find(*text, group));
    made.end = std::max(made.end, int64_t(text->read));
    made.room = std::max(made.room, text->options.room);
  }
  made.room = std::max(made.room, made.end + 1);
  std::vector<int64_t> sizes = sizesFor(made, made.end, 1);
  requireMemory(Cache::plannedBytes(engine.description(), engine.functions().ragged, sizes),
                std::to_string(texts.size()) + " texts at once");
  made.newRows = 1;
  made.cache =
      Cache::gather(engine.session().device(), engine.description(), engine.functions().ragged, sizes, from, made.end);
  for (Sequence *text : texts) {
    text->keepLogits();
    forget(*text);
    text->cache = Cache();
  }
  rows = std::move(made);
}

void Batch::step() {
  const Description &d = engine.description();
  std::vector<Sequence *> going;
  Rows unread;
  for (Sequence *text : members) {
    size_t length = text->text.size();
    if (length == 0)
      throw UserError("a text without a token has no logits");
    if (text->answered == length) {
      text->keepLogits();
      continue;
    }
    uint64_t now = epochAt(int64_t(length));
    bool good = !d.recompute && text->read > 0 && text->epoch == now && text->read < length;
    if (good && text->read + 1 == length) {
      going.push_back(text);
      continue;
    }
    if (good) { // several new tokens: they are read alone
      text->advance();
      continue;
    }
    std::replace(rows.texts.begin(), rows.texts.end(), text, static_cast<Sequence *>(nullptr));
    text->epoch = now;
    text->read = 0;
    unread.texts.push_back(text);
  }
  if (!going.empty()) {
    if (going != rows.texts || rows.end + 1 > engine.longest())
      arrange(going, nullptr);
    for (Sequence *text : going)
      text->read = 0; // until all is well
    run(rows, rows.end + 1, rows.end, 1);
    ++rows.end;
    answer(rows);
  }
  if (unread.texts.empty())
    return;
  readTogether(unread);
  if (going.empty()) {
    for (Sequence *text : std::vector<Sequence *>(rows.texts))
      if (text)
        giveBack(*text);
    for (Sequence *text : unread.texts)
      text->cache = Cache();
    rows = std::move(unread);
  } else {
    std::vector<Sequence *> all = going;
    all.insert(all.end(), unread.texts.begin(), unread.texts.end());
    arrange(all, &unread);
  }
}

} // namespace quern::runtime
