// Takes: the beginning of a text. Gives: its best continuations.
//
// As many texts run as there are beams. In each iteration the best continuations of all of them together run on; those
// that ended are kept if they are among the best. More candidates are looked at than there are beams, as some of them
// end: with them there are always enough that run on.
//
// A text whose continuation is chosen keeps its memory for the first of them; each other one takes over the memory of a
// text that was not continued, so that little is copied.
#include "runtime/engine/BeamSearch.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cmath>

namespace quern::runtime {

namespace {

struct Running {
  Sequence *text;
  Beam beam; // its score is not yet divided
};

struct Candidate {
  double total;
  size_t from;
  int token;
  double logProbability; // the model's own
};

class BeamSearch {
public:
  BeamSearch(Engine &engine, const BeamOptions &options)
      : options(options), rules(options.sampling), batch(engine),
        together(options.beams > 1 && engine.options().cache && engine.functions().batches()) {}
  std::vector<Beam> run(std::unique_ptr<Sequence> begin, const std::function<std::unique_ptr<Sequence>()> &make);

private:
  const BeamOptions &options;
  Sampler rules;
  std::vector<std::unique_ptr<Sequence>> texts; // before the batch, which they leave
  Batch batch;
  bool together;
  std::vector<Running> running;
  std::vector<Beam> finished; // the best first, as many as there are beams
  size_t kept() const { return size_t(options.beams); }

  std::vector<Candidate> candidates();
  void finish(const Candidate &candidate);
  void advance(const std::vector<Candidate> &chosen);
  bool done() const;
};

std::vector<Candidate> BeamSearch::candidates() {
  if (together && running.size() > 1)
    batch.step();
  std::vector<Candidate> all;
  std::vector<double> own, numbers;
  for (size_t from = 0; from < running.size(); ++from) {
    Running &one = running[from];
    logProbabilities(one.text->logits(), own);
    numbers = own;
    rules.adjust(one.text->tokens(), numbers);
    for (size_t token = 0; token < numbers.size(); ++token)
      if (double total = one.beam.score + numbers[token]; total > -__builtin_inf())
        all.push_back({total, from, int(token), own[token]});
  }
  if (all.empty())
    throw UserError("the sampling rules forbid every token here");
  size_t looked = std::min(all.size(), std::max<size_t>(2, 1 + options.ends.size()) * kept());
  auto better = [](const Candidate &a, const Candidate &b) {
    return a.total != b.total ? a.total > b.total : a.from != b.from ? a.from < b.from : a.token < b.token;
  };
  std::partial_sort(all.begin(), all.begin() + std::ptrdiff_t(looked), all.end(), better);
  all.resize(looked);
  return all;
}

Beam continued(const Running &from, const Candidate &by) {
  Beam beam = from.beam;
  beam.made.push_back(by.token);
  beam.logProbabilities.push_back(by.logProbability);
  beam.score = by.total;
  return beam;
}

void BeamSearch::finish(const Candidate &candidate) {
  Beam beam = continued(running[candidate.from], candidate);
  beam.score /= std::pow(double(beam.made.size()), options.lengthPenalty);
  auto after = std::find_if(finished.begin(), finished.end(), [&](const Beam &b) { return b.score < beam.score; });
  finished.insert(after, std::move(beam));
  if (finished.size() > kept())
    finished.pop_back();
}

/// The running texts become the chosen continuations.
void BeamSearch::advance(const std::vector<Candidate> &chosen) {
  std::vector<Sequence *> place(chosen.size(), nullptr);
  std::vector<bool> taken(running.size(), false);
  for (size_t i = 0; i < chosen.size(); ++i)
    if (!taken[chosen[i].from]) {
      taken[chosen[i].from] = true;
      place[i] = running[chosen[i].from].text;
    }
  std::vector<Sequence *> free;
  for (const std::unique_ptr<Sequence> &text : texts)
    if (std::none_of(place.begin(), place.end(), [&](Sequence *used) { return used == text.get(); }))
      free.push_back(text.get());
  std::vector<Running> next;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const Running &from = running[chosen[i].from];
    if (!place[i]) {
      place[i] = free.back();
      free.pop_back();
      place[i]->become(*from.text);
    }
    next.push_back({place[i], continued(from, chosen[i])});
  }
  for (const Running &one : next) // only now: until here they were copied from
    one.text->append(one.beam.made.back());
  running = std::move(next);
}

bool BeamSearch::done() const {
  if (finished.size() < kept())
    return false;
  if (options.early == EarlyStop::Full)
    return true;
  int64_t length = int64_t(running[0].beam.made.size());
  if (options.early == EarlyStop::Impossible && options.lengthPenalty > 0)
    length = options.most;
  return running[0].beam.score / std::pow(double(length), options.lengthPenalty) <= finished.back().score;
}

std::vector<Beam> BeamSearch::run(std::unique_ptr<Sequence> begin,
                                  const std::function<std::unique_ptr<Sequence>()> &make) {
  running.push_back({begin.get(), {}});
  texts.push_back(std::move(begin));
  for (int64_t count = 1; count <= options.most; ++count) {
    std::vector<Candidate> found = candidates(), open;
    bool last = count == options.most || !running[0].text->hasRoom();
    for (size_t i = 0; i < found.size(); ++i) {
      bool ends = last || options.ends.count(found[i].token);
      if (ends && i < kept())
        finish(found[i]);
      else if (!ends && open.size() < kept())
        open.push_back(found[i]);
    }
    if (last || open.empty())
      break;
    if (texts.size() == 1) // the beginning has been read once, for all
      while (texts.size() < kept()) {
        texts.push_back(make());
        texts.back()->become(*texts[0]);
      }
    if (together && batch.size() == 0)
      for (const std::unique_ptr<Sequence> &text : texts)
        batch.add(*text);
    advance(open);
    if (done())
      break;
  }
  return std::move(finished);
}

} // namespace

std::vector<Beam> searchBeams(Engine &engine, std::unique_ptr<Sequence> begin,
                              const std::function<std::unique_ptr<Sequence>()> &make, const BeamOptions &options) {
  return BeamSearch(engine, options).run(std::move(begin), make);
}

} // namespace quern::runtime
