// Takes: a target with a device. Gives: what Sampler.cpp does with logits (temperature, top-k, top-p, min-p, a draw), as
// launches without a sort.
//
// A weight is a whole number of at most 2^31, so that sums are exact in any order. Everything that those rules keep is a
// beginning of the words in the order of their weights, of equals the first; so they hand on nothing but its sum. The word
// at which a sum reaches a number X has the largest weight u for which the weights of at least u sum up to X: its digits
// are found one after the other, 16 candidates at a time.
#include "codegen/halide/gpu/Sampling.h"

#include "codegen/halide/gpu/JoinModules.h"

#include <bit>
#include <vector>

using namespace Halide;

namespace quern::codegen {
namespace {

constexpr int workItems = 256, candidates = 16, digits = 8;
/// Work-items that put the parts of all others together, before one does the rest; and for each of them so many others at most.
constexpr int joined = 64, mostTogether = 64;
constexpr double heaviest = 2147483648.0; // Sampler.cpp has the same

/// One launch: a work-item for each place along `at`, which first runs the loops of `within` in registers.
Func launch(Func f, const Var &at, const std::vector<Func> &within = {}) {
  Var group("group"), thread("thread");
  f.compute_root().split(at, group, thread, workItems, TailStrategy::GuardWithIf).gpu_blocks(group).gpu_threads(thread);
  for (Func loop : within)
    loop.compute_at(f, thread);
  return f;
}
/// The same for the one place of numbers that are one each.
Func launchOne(Func f, const Var &at, const std::vector<Func> &within = {}) {
  f.bound(at, 0, 1);
  return launch(f, at, within);
}

/// So many for each: they have some sixteen words, or more.
Expr together(const Expr &count) {
  return clamp(count / (16 * joined), 1, mostTogether);
}

/// Of the vocabulary: what of it is work-item `part`'s, one after the other, and whether there is such a word.
struct Share {
  Expr all; ///< work-items
  RDom iteration;
  Expr word, there;
  Share(const Expr &count, const Expr &part)
      : all(joined * together(count)), iteration(0, (count + all - 1) / all, "iteration"), word(part + all * iteration),
        there(word < count) {}
};

class Sampling {
public:
  explicit Sampling(const CpuTarget &target)
      : target(target.halide + "-strict_float-no_runtime-no_asserts-no_bounds_query"), calls(callsDoubles(target)) {}
  Module all() { return joinModules("quern_sampling", {greedy(), weigh(), narrow(), least(), draw()}); }

private:
  Target target;
  bool calls;
  Param<int> count{"count"};
  Var part{"part"}, i{"i"}, v{"v"};

  /// A dense vector from position 0.
  template <typename T> static ImageParam vectorOf(const char *name, const Expr &length) {
    ImageParam made(type_of<T>(), 1, name);
    made.dim(0).set_bounds(0, length);
    return made;
  }
  Module compile(Pipeline pipeline, const std::vector<Argument> &arguments, const char *name) const {
    for (const Func &f : pipeline.outputs())
      for (OutputImageParam buffer : f.output_buffers())
        buffer.dim(0).set_min(0).set_stride(1);
    return pipeline.compile_to_module(arguments, std::string("quern_sample_") + name, target);
  }

  /// A logit as an integer of the same order; NaN is below all.
  static Expr keyOf(const Expr &logit) {
    Expr bits = reinterpret<int32_t>(logit), one = select(bits == INT32_MIN, 0, bits);
    return select((bits & 0x7fffffff) > 0x7f800000, INT32_MIN, one ^ ((one >> 31) & 0x7fffffff));
  }

  /// (key, word) of the likeliest.
  Func likeliest(const ImageParam &logits) {
    Func own("own"), parts("parts"), all("all"), best("best");
    Share share(count, part);
    Expr key = select(share.there, keyOf(logits(clamp(share.word, 0, count - 1))), INT32_MIN);
    own(part) = Tuple(Expr(INT32_MIN), Expr(INT32_MAX));
    own(part) = select(key > own(part)[0], Tuple(key, share.word), Tuple(own(part)[0], own(part)[1]));
    parts(part) = Tuple(own(part)[0], own(part)[1]);
    launch(parts.bound(part, 0, share.all), part, {own});
    auto better = [](Func best, const Var &at, const Expr &key, const Expr &word) {
      best(at) = Tuple(Expr(INT32_MIN), Expr(INT32_MAX));
      best(at) = select(key > best(at)[0] || (key == best(at)[0] && word < best(at)[1]), Tuple(key, word),
                        Tuple(best(at)[0], best(at)[1]));
    };
    RDom over(0, together(count), "over"), rest(0, joined, "rest");
    Func some("some"), halves("halves");
    better(some, part, parts(part + joined * over)[0], parts(part + joined * over)[1]);
    halves(part) = Tuple(some(part)[0], some(part)[1]);
    launch(halves.bound(part, 0, joined), part, {some});
    better(all, i, halves(rest)[0], halves(rest)[1]);
    best(i) = Tuple(all(i)[0], all(i)[1]);
    return launchOne(best, i, {all});
  }
  /// Whether the likeliest's key is that of a finite number.
  static Expr finite(const Expr &key) { return key < 0x7f800000 && key > int32_t(0x807fffff); }

  Module greedy() {
    ImageParam logits = vectorOf<float>("logits", count);
    Func best = likeliest(logits), token("token");
    token(i) = select(finite(best(0)[0]), best(0)[1], -1);
    launchOne(token, i);
    return compile(Pipeline(token), {count, logits}, "greedy");
  }

  /// e^x for -22 <= x <= 0 by the operations of PortableMath.cpp.
  static Expr exponential(const Expr &x) {
    Expr y = x * wide(1.4426950408889634) + wide(0.5);
    Expr whole = cast<double>(cast<int32_t>(y)), n = whole - select(whole > y, wide(1), wide(0)); // its floor
    Expr r = x - n * wide(0.693147180369123816490) - n * wide(1.90821492927058770002e-10), term = wide(1),
         sum = wide(1);
    for (int k = 1; k <= 14; ++k) {
      term = term * r / wide(k);
      sum = sum + term;
    }
    return sum * cast<double>(reinterpret<float>((cast<int32_t>(n) + 127) << 23));
  }
  /// Halide 21 writes a double into SPIR-V and OpenCL with the digits of a float; its bits keep theirs.
  static Expr wide(double value) {
    return reinterpret<double>(Internal::UIntImm::make(UInt(64), std::bit_cast<uint64_t>(value)));
  }

  /// Of all words.
  template <typename Term> Func sumOf(Term term) {
    Func own("own"), parts("parts"), all("all"), sum("sum");
    Share share(count, part);
    own(part) = wide(0);
    own(part) += select(share.there, term(clamp(share.word, 0, count - 1)), wide(0));
    parts(part) = own(part);
    launch(parts.bound(part, 0, share.all), part, {own});
    RDom over(0, together(count), "over"), rest(0, joined, "rest");
    Func some("some"), halves("halves");
    some(part) = wide(0);
    some(part) += parts(part + joined * over);
    halves(part) = some(part);
    launch(halves.bound(part, 0, joined), part, {some});
    all(i) = wide(0);
    all(i) += halves(rest);
    sum(i) = all(i);
    return launchOne(sum, i, {all});
  }

  Module weigh() {
    ImageParam logits = vectorOf<float>("logits", count);
    Param<double> temperature("temperature");
    Func best = likeliest(logits), weights("weights"), total("total");
    Expr key = best(0)[0], most = reinterpret<float>(key ^ ((key >> 31) & 0x7fffffff));
    Expr x = (cast<double>(logits(v)) - cast<double>(most)) / temperature, seen = keyOf(logits(v)) != INT32_MIN;
    Expr near = seen && x > wide(-22);
    Expr weight = cast<uint32_t>(exponential(select(near, x, wide(0))) * wide(heaviest));
    weights(v) = select(near && finite(key), weight, cast<uint32_t>(0));
    weights.bound(v, 0, count);
    launch(weights, v);
    Func sum = sumOf([&](const Expr &word) { return cast<double>(weights(word)); });
    total(i) = sum(0);
    launchOne(total, i);
    return compile(Pipeline({weights, total}), {count, temperature, logits}, "weigh");
  }

  /// Of a weight: the sum of all above it, their number.
  struct Found {
    Expr weight, above, countAbove;
  };
  /// The largest weight for which the weights of at least it sum up to `goal`, or are so many; 0 where all together do not.
  Found search(const ImageParam &weights, const Expr &goal, const Expr &counts) {
    Expr low = cast<uint32_t>(0);
    Func place;
    for (int digit = digits - 1; digit >= 0; --digit) {
      Expr width = cast<uint32_t>(Expr(uint32_t(1) << (4 * digit)));
      Func own("own"), parts("parts"), all("all"), sums("sums"), chosen("chosen"), next("next");
      Share share(count, part);
      Expr weight = weights(clamp(share.word, 0, count - 1));
      Expr counted = share.there && weight >= low + cast<uint32_t>(i) * width;
      own(part, i) = Tuple(wide(0), Expr(0));
      own(part, i) = Tuple(own(part, i)[0] + select(counted, cast<double>(weight), wide(0)),
                           own(part, i)[1] + select(counted, 1, 0));
      parts(part, i) = Tuple(own(part, i)[0], own(part, i)[1]);
      Var group("group"), thread("thread");
      parts.bound(part, 0, share.all).bound(i, 0, candidates + 1);
      parts.compute_root()
          .split(part, group, thread, workItems, TailStrategy::GuardWithIf)
          .gpu_blocks(group, i)
          .gpu_threads(thread);
      own.compute_at(parts, thread);
      RDom over(0, together(count), "over"), rest(0, joined, "rest");
      Func some("some"), halves("halves");
      some(part, i) = Tuple(wide(0), Expr(0));
      some(part, i) = Tuple(some(part, i)[0] + parts(part + joined * over, i)[0],
                            some(part, i)[1] + parts(part + joined * over, i)[1]);
      halves(part, i) = Tuple(some(part, i)[0], some(part, i)[1]);
      halves.bound(part, 0, joined).bound(i, 0, candidates + 1);
      halves.compute_root().gpu_blocks(i).gpu_threads(part);
      some.compute_at(halves, part);
      all(i) = Tuple(wide(0), Expr(0));
      all(i) = Tuple(all(i)[0] + halves(rest, i)[0], all(i)[1] + halves(rest, i)[1]);
      sums(i) = Tuple(all(i)[0], all(i)[1]);
      launch(sums.bound(i, 0, candidates + 1), i, {all});
      RDom candidate(0, candidates, "candidate");
      Expr reached = select(counts, cast<double>(sums(candidate)[1]), sums(candidate)[0]);
      chosen(i) = 0;
      chosen(i) = select(reached >= goal, candidate, chosen(i));
      // (weight, the sum of those above, their number): the last two of use after the last digit.
      Expr after = clamp(chosen(i), 0, candidates - 1) + 1;
      next(i) = Tuple(low + cast<uint32_t>(chosen(i)) * width, sums(after)[0], sums(after)[1]);
      place = launchOne(next, i, {chosen});
      low = place(0)[0];
    }
    return {place(0)[0], place(0)[1], place(0)[2]};
  }
  /// The least whole number n of which above + n * weight reaches the goal; the quotient may be off by its last bit.
  static Expr reaching(const Found &found, const Expr &goal) {
    Expr weight = cast<double>(max(found.weight, cast<uint32_t>(1))), rest = goal - found.above;
    Expr whole = cast<double>(cast<int32_t>(rest / weight));
    return select((whole - wide(1)) * weight >= rest, whole - wide(1),
                  select(whole * weight >= rest, whole, whole + wide(1)));
  }

  /// top-k (`counts`) or top-p: the sum of what is kept.
  Module narrow() {
    ImageParam weights = vectorOf<uint32_t>("weights", count), total = vectorOf<double>("total", 1);
    Param<int> counts("counts");
    Param<double> value("value");
    Func goal("goal"), kept("kept");
    Expr part = value * total(0), whole = cast<double>(cast<int64_t>(part));
    goal(i) = select(counts != 0, value, max(select(whole < part, whole + wide(1), whole), wide(1)));
    launchOne(goal, i);
    Found found = search(weights, goal(0), counts != 0);
    Expr ties = select(counts != 0, goal(0) - cast<double>(found.countAbove), reaching(found, goal(0)));
    kept(i) = found.above + ties * cast<double>(found.weight);
    launchOne(kept, i);
    return compile(Pipeline(kept), {count, counts, value, weights, total}, "narrow");
  }

  /// min-p: at most the sum of the weights of at least `value`.
  Module least() {
    ImageParam weights = vectorOf<uint32_t>("weights", count), total = vectorOf<double>("total", 1);
    Param<double> value("value");
    Func kept("kept"), sum = sumOf([&](const Expr &word) {
                         Expr weight = cast<double>(weights(word));
                         return select(weight >= value, weight, wide(0));
                       });
    kept(i) = min(sum(0), total(0));
    launchOne(kept, i);
    return compile(Pipeline(kept), {count, value, weights, total}, "least");
  }

  /// The word at which the sum passes `point` times the total; -1 where there is nothing to choose from.
  Module draw() {
    ImageParam weights = vectorOf<uint32_t>("weights", count), total = vectorOf<double>("total", 1);
    Param<double> point("point");
    Func goal("goal"), wanted("wanted"), own("own"), parts("parts"), find("find"), found("found"), walk("walk"),
        token("token");
    goal(i) = cast<double>(cast<int64_t>(point * total(0))) + wide(1);
    launchOne(goal, i);
    Found last = search(weights, goal(0), Internal::const_false());
    // (the weight, how many of its words come before).
    wanted(i) = Tuple(last.weight, cast<int32_t>(reaching(last, goal(0))) - 1);
    launchOne(wanted, i);
    // Neighbouring words, for once: the order counts.
    Expr each = (count + workItems - 1) / workItems;
    RDom in(0, each, "in"), over(0, workItems, "over");
    auto equal = [&](const Expr &at) {
      return select(at < count && weights(clamp(at, 0, count - 1)) == wanted(0)[0], 1, 0);
    };
    own(part) = 0;
    own(part) += equal(part * each + in);
    parts(part) = own(part);
    launch(parts.bound(part, 0, workItems), part, {own});
    // (the first part with more of them than are to be passed, how many of its own are).
    find(i) = Tuple(Expr(-1), wanted(0)[1]);
    Expr still = find(i)[0] < 0, here = still && parts(over) > find(i)[1];
    find(i) = Tuple(select(here, over, find(i)[0]), find(i)[1] - select(still && !here, parts(over), 0));
    found(i) = Tuple(clamp(find(i)[0], 0, workItems - 1), find(i)[1]);
    launchOne(found, i, {find});
    Expr at = found(0)[0] * each + in;
    walk(i) = Tuple(Expr(-1), found(0)[1]);
    Expr fits = walk(i)[0] < 0 && equal(at) == 1;
    walk(i) = Tuple(select(fits && walk(i)[1] == 0, at, walk(i)[0]), walk(i)[1] - select(fits, 1, 0));
    token(i) = select(total(0) > wide(0), walk(i)[0], -1);
    launchOne(token, i, {walk});
    return compile(Pipeline(token), {count, point, weights, total}, "draw");
  }
};

} // namespace

Module samplingModule(const CpuTarget &target) {
  return Sampling(target).all();
}

} // namespace quern::codegen
