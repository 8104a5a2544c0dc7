// Takes: nothing. Gives: what compiled kernels reach, beside the machine's limits measured in the same run.
// Ratios count where the machine is quiet: the limits are measured right before and after each kernel; the largest counts,
// of bandwidth of these two, of products of all so far. The runtime's probe chooses its instructions as it runs, so this file is
// compiled for any processor.
#include "codegen/schedule/ChoosePlan.h"
#include "tests/codegen/support/BenchLimits.h"
#include "tests/codegen/support/GraphMaker.h"
#include "tests/codegen/support/KernelRunner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

using namespace quern::codegen;

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What other schedules reach: `--schedules FILE`, as for the compiler.
static ScheduleTable schedules = ScheduleTable::standard();
/// Another than this machine's own: `--target NAME`.
static CpuTarget target = cpuTarget("native");

static int64_t tile(int64_t out, int64_t in) {
  return weightTile(out, in, schedules, target);
}

/// `--alone`: a figure counts only where nobody shares the core before and after; after twenty tries, whatever it is. For one thread on one
/// core: HL_NUM_THREADS=1 taskset -c 1.
static bool alone = false;

static bool tooSlow = false; ///< something promised was not reached

/// The best time counts, beside the limit.
/// `cold`: what it reads comes from memory each time, as in a program whose weights exceed the last cache.
/// `factors`: as they are multiplied; `terms`: products of bf16 that one of f32 is, where tiles multiply it.
static void report(const char *name, KernelRunner &runner, double work, bool flops, bool cold = false,
                   Storage factors = Storage::F32, int terms = 6) {
  const bool pieces = flops && factors == Storage::F32 && runner.usesTiles();
  auto most = [&] {
    return !flops ? bandwidth() : pieces ? peak(Storage::BF16, target) / terms : peak(factors, target);
  };
  double before = most();
  double best = bestTime(alone, cold, [&] {
    if (runner.run())
      std::abort();
  });
  const double limit = std::max(before, most()), reached = work / best / 1e9;
  std::printf("%-44s %9.1f us %8.1f %s of %.1f: %3.0f%%%s   compiled in %.2f s\n", name, best * 1e6, reached,
              flops ? "GFLOP/s" : "GB/s", limit, 100 * reached / limit,
              pieces ? besideMultiplyAdds(reached, target).c_str() : "", runner.compileSeconds);
  std::fflush(stdout);
}

static std::vector<DenseTensor> inputs(const KernelGraph &graph, const Lengths &lengths) {
  std::vector<DenseTensor> out;
  for (int i = 0; i < graph.argumentCount(); ++i)
    out.push_back(randomTensor(graph.nodes[i], lengths, i + 1));
  return out;
}

static Dim fixed(const char *name, int64_t size) {
  return {name, quern::ir::Size(size)};
}
static Dim run(const char *name) {
  return {name, quern::ir::Size::symbol(name)};
}

static void contraction(int64_t in, int64_t out, std::vector<int64_t> rows, bool cold = false) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {run("M"), fixed("I", in)});
  int w = g.weight({fixed("O", out), fixed("I", in)}, tile(out, in));
  g.yield(g.contract(x, w, {"I"}));
  KernelRunner runner(g.finish("contract"), target, schedules);
  for (int64_t m : rows) {
    Lengths lengths = {{"M", m}};
    runner.bind(lengths, inputs(g.graph, lengths));
    char name[80];
    std::snprintf(name, sizeof name, "contraction %ld x %ld x %ld", long(m), long(in), long(out));
    bool flops = m > 16;
    report(name, runner, flops ? 2.0 * m * in * out : 4.0 * in * out, flops, cold);
  }
}

/// Weights in fewer bits, and rows that become int8 where `coded`; few rows read them from memory.
static void format(Storage storage, bool coded, int64_t in, int64_t out, std::vector<int64_t> rows) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {run("M"), fixed("I", in)});
  int w = g.weight({fixed("O", out), fixed("I", in)}, tile(out, in), storage);
  w = g.elementwise(bitsOfCode(storage) ? Op::Dequantize : Op::Widen, {w});
  const Storage ofRows = quern::support::rowsBeside(storage);
  g.yield(g.contract(coded ? g.elementwise(Op::Dequantize, {g.quantize(x, "I", ofRows)}) : x, w, {"I"}));
  KernelRunner runner(g.finish("format"), target, schedules);
  for (int64_t m : rows) {
    Lengths lengths = {{"M", m}};
    runner.bind(lengths, inputs(g.graph, lengths));
    char name[80];
    std::snprintf(name, sizeof name, "%s%s %ld x %ld x %ld", quern::support::storageName(storage), coded ? "+a8" : "",
                  long(m), long(in), long(out));
    bool flops = m > 16;
    report(name, runner, flops ? 2.0 * double(m * in * out) : double(quern::support::bytesOf(storage, in) * out), flops,
           !flops, coded ? storage : Storage::F32, 3);
  }
}

/// Of random numbers; pairs are routed to `experts`, if there are some.
static std::vector<DenseTensor> routedInputs(const KernelGraph &graph, const Lengths &lengths, int64_t experts) {
  std::vector<DenseTensor> given = inputs(graph, lengths);
  for (int i = 0; i < graph.argumentCount(); ++i)
    for (size_t k = 0; graph.nodes[i].storage == Storage::I32 && k < given[i].data.size(); ++k)
      given[i].data[k] = double((k * 2654435761u >> 7) % experts);
  return given;
}

/// By AMX's tiles and by vectors, in turns, as other work on the machine slows both; the best times, beside what AMX does in
/// registers.
static void inTurns(const std::string &name, const KernelGraph &graph, const char *family, const Lengths &lengths,
                    double work, bool coded, int64_t experts = 0) {
  ScheduleTable without = schedules;
  without.add(std::string(family) + " : amx 0", "vectors");
  std::unique_ptr<KernelRunner> runners[] = {std::make_unique<KernelRunner>(graph, target, schedules),
                                             std::make_unique<KernelRunner>(graph, target, without)};
  double best[] = {1e9, 1e9};
  for (auto &runner : runners)
    runner->bind(lengths, routedInputs(graph, lengths, experts));
  double end = now() + 1;
  for (int iterations = 0; iterations < 5 || now() < end; ++iterations)
    for (int i = 0; i < 2; ++i) {
      double start = now();
      if (runners[i]->run())
        std::abort();
      best[i] = std::min(best[i], now() - start);
    }
  double limit = peak(coded ? Storage::Int8 : Storage::BF16, target);
  std::printf("%-48s: tiles %9.1f us %8.1f of %.1f GFLOP/s, vectors %9.1f us: %5.2f times as fast\n", name.c_str(),
              best[0] * 1e6, work / best[0] / 1e9, limit, best[1] * 1e6, best[1] / best[0]);
  std::fflush(stdout);
}

/// Rows as they are stored or, `quantized`, in codes, with a packed weight; of experts each row is routed to `chosen`.
static void tiles(Storage ofRows, bool quantized, Storage storage, int64_t in, int64_t out, int64_t rows,
                  int64_t experts = 0, int64_t chosen = 0) {
  GraphMaker g;
  std::vector<Dim> dims = {fixed("O", out), fixed("I", in)};
  if (experts)
    dims.insert(dims.begin(), fixed("E", experts));
  int x = g.argument(ofRows, {run("M"), fixed("I", in)}), w = g.weight(dims, tile(out, in), storage);
  if (experts)
    w = g.gather(w, g.argument(Storage::I32, {run("M"), fixed("C", chosen)}), "E");
  auto real = [&](int value, Storage storage) {
    return storage == Storage::F32 ? value : g.elementwise(bitsOfCode(storage) ? Op::Dequantize : Op::Widen, {value});
  };
  g.yield(g.contract(quantized ? g.elementwise(Op::Dequantize, {g.quantize(x, "I")}) : real(x, ofRows),
                     real(w, storage), {"I"}));
  char name[80];
  std::snprintf(name, sizeof name, "%-6s %-4s %5ld x %5ld x %5ld", quern::support::storageName(storage),
                quantized ? "+a8" : quern::support::storageName(ofRows), long(rows), long(in), long(out));
  std::string of = experts ? ", " + std::to_string(chosen) + " of " + std::to_string(experts) + " experts" : "";
  inTurns(name + of, g.finish("tiles"), experts ? "grouped" : "contract", {{"M", rows}},
          2.0 * double(rows * in * out * std::max<int64_t>(1, chosen)), quantized, experts);
}

/// What a training step does with each weight [in, out], as it is stored: the product, and the gradients of both factors.
static void training(int64_t in, int64_t out, int64_t rows, Storage storage) {
  struct Form {
    const char *name;
    Dim first[2], second[2];
    const char *over;
  };
  Dim m = run("M"), i = fixed("I", in), o = fixed("O", out);
  for (const Form &form : {Form{"product", {m, i}, {i, o}, "I"}, Form{"rows' gradient", {m, o}, {i, o}, "O"},
                           Form{"weight's gradient", {m, i}, {m, o}, "M"}}) {
    GraphMaker g;
    auto factor = [&](const Dim(&dims)[2]) { return g.argument(storage, {dims[0], dims[1]}); };
    auto real = [&](int x) { return storage == Storage::F32 ? x : g.elementwise(Op::Widen, {x}); };
    int a = factor(form.first), b = factor(form.second);
    g.yield(g.contract(real(a), real(b), {form.over}));
    KernelRunner runner(g.finish("training"), target, schedules);
    Lengths lengths = {{"M", rows}};
    runner.bind(lengths, inputs(g.graph, lengths));
    for (bool cold : {false, true}) {
      char name[80];
      std::snprintf(name, sizeof name, "%s, %s %ld x %ld x %ld%s", form.name, quern::support::storageName(storage),
                    long(rows), long(in), long(out), cold ? ", from memory" : "");
      report(name, runner, 2.0 * rows * in * out, true, cold, storage);
    }
  }
}

static void epilogue() {
  GraphMaker g;
  int x = g.argument(Storage::F32, {run("M"), fixed("I", 768)});
  int w = g.weight({fixed("O", 2048), fixed("I", 768)}, tile(2048, 768));
  int up = g.argument(Storage::F32, {run("M"), fixed("O", 2048)});
  int y = g.contract(x, w, {"I"});
  g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::Mul, {y, g.elementwise(Op::Sigmoid, {y})}), up}));
  KernelRunner runner(g.finish("gate"), target, schedules);
  Lengths lengths = {{"M", 512}};
  runner.bind(lengths, inputs(g.graph, lengths));
  report("contraction 512 x 768 x 2048, silu(.) * up", runner, 2.0 * 512 * 768 * 2048, true);
}

/// Gate and up in one weight, as pack-projections leaves them.
static void gated() {
  GraphMaker g;
  int x = g.argument(Storage::F32, {run("M"), fixed("I", 768)});
  int both = g.contract(x, g.weight({fixed("U", 2), fixed("O", 2048), fixed("I", 768)}, tile(2048, 768)), {"I"});
  int gate = g.squeeze(g.cut(both, "U", quern::ir::Size(0), fixed("G", 1)), "G"),
      up = g.squeeze(g.cut(both, "U", quern::ir::Size(1), fixed("V", 1)), "V");
  int opened = g.elementwise(Op::Mul, {g.elementwise(Op::Mul, {gate, g.elementwise(Op::Sigmoid, {gate})}), up});
  g.yield(g.permute(opened, {"M", "O"})); // columns are side by side
  KernelRunner runner(g.finish("gated"), target, schedules);
  for (int64_t m : {512, 1}) {
    Lengths lengths = {{"M", m}};
    runner.bind(lengths, inputs(g.graph, lengths));
    char name[80];
    std::snprintf(name, sizeof name, "gated %ld x 768 x 2 x 2048", long(m));
    bool flops = m > 16;
    report(name, runner, flops ? 4.0 * m * 768 * 2048 : 8.0 * 768 * 2048, flops);
  }
}

/// Experts: each row is routed to some; as fast as plain rows, as many as there are pairs, would be the best.
static void experts(Storage storage, int64_t count, int64_t chosen, int64_t in, int64_t out,
                    std::vector<int64_t> rows) {
  GraphMaker g;
  const bool narrow = storage == Storage::BF16, coded = bitsOfCode(storage);
  int x = g.argument(narrow ? storage : Storage::F32, {run("M"), fixed("I", in)});
  int w = g.weight({fixed("E", count), fixed("O", out), fixed("I", in)}, tile(out, in), storage);
  int picked = g.argument(Storage::I32, {run("M"), fixed("C", chosen)});
  auto real = [&](int value) {
    return narrow ? g.elementwise(Op::Widen, {value}) : coded ? g.elementwise(Op::Dequantize, {value}) : value;
  };
  g.yield(g.contract(real(coded ? g.quantize(x, "I") : x), real(g.gather(w, picked, "E")), {"I"}));
  KernelRunner runner(g.finish("experts"), target, schedules);
  for (int64_t m : rows) {
    Lengths lengths = {{"M", m}};
    std::vector<DenseTensor> given = routedInputs(g.graph, lengths, count);
    std::vector<char> used(count);
    for (double e : given[picked].data)
      used[size_t(e)] = 1;
    runner.bind(lengths, given);
    char name[80];
    std::snprintf(name, sizeof name, "experts %s %ld of %ld, %ld x %ld x %ld", quern::support::storageName(storage),
                  long(chosen), long(count), long(m), long(in), long(out));
    bool flops = m > 16;
    report(name, runner,
           flops ? 2.0 * m * chosen * in * out : 4.0 * in * out * double(std::count(used.begin(), used.end(), 1)),
           flops, false, coded ? storage : Storage::F32);
  }
}

/// What a training step does with the weights of experts [E, out, in], as they are stored.
static void trainedExperts(Storage storage, int64_t count, int64_t chosen, int64_t in, int64_t out, int64_t rows) {
  Dim m = run("M"), c = fixed("C", chosen), e = fixed("E", count), i = fixed("I", in), o = fixed("O", out);
  for (const char *form : {"product", "rows' gradient", "weights' gradient"}) {
    GraphMaker g;
    bool ofRows = form[0] == 'r', ofWeights = form[0] == 'w';
    auto real = [&](int x) { return storage == Storage::F32 ? x : g.elementwise(Op::Widen, {x}); };
    int y = g.argument(storage, ofRows || ofWeights ? std::vector<Dim>{m, c, o} : std::vector<Dim>{m, i});
    int other = g.argument(storage, ofWeights ? std::vector<Dim>{m, i} : std::vector<Dim>{e, o, i});
    int picked = g.argument(Storage::I32, {m, c});
    if (ofWeights)
      g.yield(g.scatterAdd(g.elementwise(Op::Mul, {real(y), real(other)}), picked, {"M", "C"}, e));
    else
      g.yield(g.contract(real(y), real(g.gather(other, picked, "E")), {ofRows ? "O" : "I"}));
    KernelRunner runner(g.finish("experts"), target, schedules);
    Lengths lengths = {{"M", rows}};
    runner.bind(lengths, routedInputs(g.graph, lengths, count));
    char name[80];
    std::snprintf(name, sizeof name, "%s of experts %s %ld of %ld, %ld x %ld x %ld", form,
                  quern::support::storageName(storage), long(chosen), long(count), long(rows), long(in), long(out));
    report(name, runner, 2.0 * rows * chosen * in * out, true, true, storage);
  }
}

/// `window`: keys that a query sees, counted from itself; 0: all before it; -1: all. `cache`: how keys and values are stored.
static KernelGraph attentionOver(int64_t window, Storage cache = Storage::F32) {
  using quern::ir::Size;
  GraphMaker g;
  Size past = Size::symbol("past");
  Dim S{"S", Size::symbol("T") + past};
  int q = g.argument(Storage::F32, {run("B"), run("T"), fixed("H", 12), fixed("K", 64)});
  int k = g.argument(cache, {run("B"), S, fixed("H", 12), fixed("K", 64)}),
      v = g.argument(cache, {run("B"), S, fixed("H", 12), fixed("V", 64)});
  if (cache == Storage::BF16)
    k = g.elementwise(Op::Widen, {k}), v = g.elementwise(Op::Widen, {v});
  int score = g.elementwise(Op::Mul, {g.contract(q, k, {"K"}), g.constant(0.125)});
  int t = g.elementwise(Op::Add, {g.index(run("T")), g.size(past)}), mask = g.compare(Predicate::Le, g.index(S), t);
  if (window > 0)
    mask = g.elementwise(Op::And,
                         {mask, g.compare(Predicate::Gt, g.index(S), g.elementwise(Op::Sub, {t, g.integer(window)}))});
  if (window >= 0)
    score = g.elementwise(Op::Where, {mask, score, g.constant(-1.0 / 0.0)});
  g.yield(g.attention(score, v, "S"));
  return g.finish("attention");
}

static void attention(int64_t window, std::vector<std::pair<int64_t, int64_t>> sizes, Storage cache = Storage::F32) {
  KernelGraph graph = attentionOver(window, cache);
  KernelRunner runner(graph, target, schedules);
  for (auto [t, before] : sizes) {
    Lengths lengths = {{"B", 1}, {"T", t}, {"past", before}};
    runner.bind(lengths, inputs(graph, lengths));
    char name[80];
    std::snprintf(name, sizeof name, "attention 12 x 64 in %s, %ld after %ld, %s", quern::support::storageName(cache),
                  long(t), long(before),
                  window < 0 ? "no mask"
                  : window   ? ("window " + std::to_string(window)).c_str()
                             : "causal");
    double pairs = 0;
    for (int64_t at = before; at < before + t; ++at)
      pairs += window < 0 ? before + t : window ? std::min(window, at + 1) : at + 1;
    const bool many = t > 1; // one reads keys and values from memory
    report(name, runner, pairs * 12 * 64 * (many ? 4 : 2 * double(quern::support::bytesOf(cache))), many, !many);
  }
}

/// What a mask saves: blocks that it empties are not computed. Both alternate, so that a machine that slows down slows both;
/// the median of the ratios.
static void masks(int64_t length, int64_t window, double least) {
  KernelGraph graphs[] = {attentionOver(-1), attentionOver(window)};
  Lengths lengths = {{"B", 1}, {"T", length}, {"past", 0}};
  std::vector<double> seconds[2], ratios;
  double end = now() + 3;
  std::vector<std::unique_ptr<KernelRunner>> runners;
  for (const KernelGraph &graph : graphs) {
    runners.push_back(std::make_unique<KernelRunner>(graph, target, schedules));
    runners.back()->bind(lengths, inputs(graph, lengths));
  }
  for (int iteration = 0; iteration < 6 || now() < end; ++iteration) {
    for (int i = 0; i < 2; ++i) {
      double start = now();
      if (runners[i]->run())
        std::abort();
      seconds[i].push_back(now() - start);
    }
    ratios.push_back(seconds[0].back() / seconds[1].back());
  }
  auto median = [](std::vector<double> &of) {
    std::nth_element(of.begin(), of.begin() + of.size() / 2, of.end());
    return of[of.size() / 2];
  };
  double full = median(seconds[0]), masked = median(seconds[1]), faster = median(ratios);
  double covers = 0;
  for (int64_t at = 0; at < length; ++at)
    covers += double(window ? std::min(window, at + 1) : at + 1) / (double(length) * length);
  std::string name = window ? "window " + std::to_string(window) : "causal";
  std::printf("%-12s T = %ld: %9.1f us, full %9.1f us: %5.2f times as fast; covers 1/%.2f of the pairs%s\n",
              name.c_str(), long(length), masked * 1e6, full * 1e6, faster, 1 / covers,
              faster < least ? "  TOO SLOW" : "");
  std::fflush(stdout);
  tooSlow |= faster < least;
}

static void norm() {
  GraphMaker g;
  int x = g.argument(Storage::F32, {run("M"), fixed("D", 768)}), w = g.argument(Storage::F32, {fixed("D", 768)});
  int mean = g.reduce(Reduction::Mean, g.elementwise(Op::Mul, {x, x}), {"D"});
  int y = g.elementwise(Op::Div, {x, g.elementwise(Op::Sqrt, {g.elementwise(Op::Add, {mean, g.constant(1e-5)})})});
  g.yield(g.elementwise(Op::Mul, {y, w}));
  KernelRunner runner(g.finish("norm"), target, schedules);
  for (int64_t m : {1, 512, 16384}) {
    Lengths lengths = {{"M", m}};
    runner.bind(lengths, inputs(g.graph, lengths));
    char name[80];
    std::snprintf(name, sizeof name, "rms norm %ld x 768 (read and written)", long(m));
    report(name, runner, 8.0 * m * 768, false);
  }
}

static void rotation() {
  GraphMaker g;
  int x = g.argument(Storage::F32, {run("M"), fixed("H", 12), fixed("K", 64)});
  int c = g.argument(Storage::F32, {run("M"), fixed("J", 32)}),
      s = g.argument(Storage::F32, {run("M"), fixed("J", 32)});
  int a = g.cut(x, "K", quern::ir::Size(0), fixed("J", 32)), b = g.cut(x, "K", quern::ir::Size(32), fixed("J", 32));
  auto mul = [&](int p, int q) { return g.elementwise(Op::Mul, {p, q}); };
  int left = g.elementwise(Op::Sub, {mul(a, c), mul(b, s)}), right = g.elementwise(Op::Add, {mul(b, c), mul(a, s)});
  g.yield(g.concat({left, right}, {"J", "J"}, fixed("K", 64)));
  KernelRunner runner(g.finish("rotation"), target, schedules);
  for (int64_t m : {1, 512, 16384}) {
    Lengths lengths = {{"M", m}};
    runner.bind(lengths, inputs(g.graph, lengths));
    char name[80];
    std::snprintf(name, sizeof name, "rope %ld x 12 x 64 (read and written)", long(m));
    report(name, runner, 8.0 * m * 768, false);
  }
}

int main(int argc, char **argv) {
  if (argc > 2 && !std::strcmp(argv[1], "--schedules")) {
    std::ifstream file(argv[2]);
    schedules.add(std::string(std::istreambuf_iterator<char>(file), {}), argv[2]);
    argc -= 2, argv += 2;
  }
  if (argc > 2 && !std::strcmp(argv[1], "--target")) {
    target = cpuTarget(argv[2]);
    argc -= 2, argv += 2;
  }
  if (argc > 1 && !std::strcmp(argv[1], "--alone"))
    alone = true, --argc, ++argv;
  auto wanted = [&](const char *name) {
    return argc < 2 || std::any_of(argv + 1, argv + argc, [&](char *a) { return !std::strcmp(a, name); });
  };
  if (wanted("contract")) {
    contraction(768, 768, {512, 1});
    contraction(768, 2048, {512, 1, 4});
    contraction(2048, 768, {512, 1});
    contraction(768, 32000, {512, 1});
    epilogue();
    gated();
  }
  if (wanted("steps")) { // few rows, weights from memory
    contraction(768, 2304, {1}, true);
    contraction(2048, 768, {1}, true);
    contraction(768, 32000, {1, 2, 3, 4, 6});
  }
  if (wanted("large")) { // what ./dev bench asks for
    contraction(768, 2048, {512});
    contraction(2048, 2048, {512});
  }
  if (wanted("prefill")) { // of a Llama with 1.1B parameters: each weight comes from memory
    contraction(2048, 2560, {512}, true);
    contraction(2048, 11264, {512}, true);
    contraction(5632, 2048, {512}, true);
  }
  if (wanted("long"))
    attention(0, {{2048, 0}});
  if (wanted("formats"))
    for (Storage storage : {Storage::BF16, Storage::Int8, Storage::Int8G128, Storage::Int4, Storage::Q4K, Storage::Q5K,
                            Storage::Q6K, Storage::F8E4M3})
      for (bool coded : {false, true})
        if (!coded || (bitsOfCode(storage) && !quern::support::floatCodesOf(storage)))
          format(storage, coded, 768, 12288, {512, 1, 2, 3, 4, 6, 8});
  if (wanted("integers")) // prefill of a Llama with 110M parameters, rows in codes
    for (Storage storage : {Storage::Int8, Storage::Int8G128, Storage::Int4, Storage::Q4K, Storage::Q6K})
      for (auto [in, out] : {std::pair(768, 2048), std::pair(2048, 768)})
        format(storage, true, in, out, {512});
  if (wanted("tiles"))
    for (Storage storage : {Storage::BF16, Storage::Int8, Storage::Int4, Storage::Q4K, Storage::Q5K, Storage::Q6K})
      for (auto [in, out] : {std::pair(768, 2048), std::pair(2048, 768), std::pair(2048, 11264)})
        for (int64_t rows : {512, 64, 9})
          tiles(storage == Storage::BF16 ? storage : Storage::F32, bitsOfCode(storage), storage, in, out, rows);
  if (wanted("pieces")) // rows in f32; in bf16, beside codes
    for (Storage storage : {Storage::BF16, Storage::Int8, Storage::Int4, Storage::Q4K, Storage::Q6K, Storage::F8E4M3})
      for (auto [in, out] : {std::pair(768, 2048), std::pair(2048, 768), std::pair(2048, 11264)})
        for (int64_t rows : {512, 64, 9, 1}) {
          tiles(Storage::F32, false, storage, in, out, rows);
          if (storage != Storage::BF16)
            tiles(Storage::BF16, false, storage, in, out, rows);
        }
  if (wanted("tiles") || wanted("expert-tiles"))
    for (auto [ofRows, storage] : {std::pair(Storage::BF16, Storage::BF16), std::pair(Storage::F32, Storage::BF16),
                                   std::pair(Storage::F32, Storage::Int8), std::pair(Storage::F32, Storage::Int4),
                                   std::pair(Storage::F32, Storage::Q4K)})
      for (auto [in, out] : {std::pair(512, 1792), std::pair(1792, 512)})
        for (int64_t rows : {512, 64, 16, 9, 4, 1})
          tiles(ofRows, bitsOfCode(storage), storage, in, out, rows, 8, 2);
  if (wanted("training"))
    for (Storage storage : {Storage::F32, Storage::BF16})
      for (int64_t rows : {256, 1024}) {
        training(768, 3072, rows, storage);
        training(3072, 768, rows, storage);
      }
  if (wanted("experts") || wanted("experts-training"))
    for (Storage storage : {Storage::F32, Storage::BF16}) {
      trainedExperts(storage, 8, 2, 512, 1792, 256);
      trainedExperts(storage, 8, 2, 1792, 512, 256);
    }
  if (wanted("experts"))
    for (Storage storage : {Storage::F32, Storage::BF16, Storage::Int8}) {
      experts(storage, 8, 2, 512, 1792, {512, 64, 16, 1, 4});
      experts(storage, 8, 2, 1792, 512, {512, 1});
      experts(storage, 64, 4, 512, 512, {512, 64, 1});
    }
  if (wanted("attention"))
    attention(0, {{512, 0}, {1024, 0}, {2048, 0}, {4096, 0}, {1, 511}, {1, 2047}});
  if (wanted("queries")) // few and many, keys and values as caches store them
    for (Storage cache : {Storage::F32, Storage::BF16})
      attention(0, {{1, 511}, {1, 575}, {1, 2047}, {9, 500}, {16, 500}, {32, 500}, {128, 0}, {512, 0}, {2048, 0}},
                cache);
  if (wanted("masks")) {
    masks(2048, 0, 1.8);
    masks(4096, 256, 10);
  }
  if (wanted("row")) {
    norm();
    rotation();
  }
  return tooSlow;
}
