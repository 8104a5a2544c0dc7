// Which lines of memory products ask for while they multiply: those of columns that are read next, and of results; and attention
// while it copies keys and values. Requests change no number, so the kernel runs here with a function in their place that writes
// their addresses down.
#include "codegen/halide/HalideError.h"
#include "codegen/halide/HalideProducer.h"
#include "codegen/halide/KernelBuilder.h"
#include "codegen/halide/StageScheduler.h"
#include "codegen/halide/attention/AttentionFamily.h"
#include "codegen/halide/contraction/TakeContractions.h"
#include "codegen/schedule/Schedule.h"
#include "tests/codegen/support/Check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

using namespace quern::codegen;

namespace {

std::vector<uint64_t> asked; ///< lines, one after the other

int noteLine(void *address) {
  asked.push_back(reinterpret_cast<uint64_t>(address) / 64);
  return 0;
}

/// Calls `noteLine` for each request, and runs tasks one after the other.
class NoteLines : public Halide::Internal::IRMutator {
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::For *loop) override {
    return Halide::Internal::For::make(loop->name, loop->min, loop->extent, Halide::Internal::ForType::Serial,
                                       loop->partition_policy, loop->device_api, mutate(loop->body));
  }
  Expr visit(const Halide::Internal::Call *call) override {
    if (call->name != "llvm.prefetch.p0")
      return IRMutator::visit(call);
    return Halide::Internal::Call::make(call->type, "quern_note_line", {call->args[0]}, Halide::Internal::Call::Extern);
  }
};

/// Counts requests, and reads that come after one in an iteration of a loop. What the pipeline has become stays as it is.
class CountBehindRequests : public Halide::Internal::IRMutator {
public:
  int requests = 0, reads = 0;

private:
  bool asked = false;
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::For *loop) override {
    const bool before = std::exchange(asked, false);
    Halide::Internal::Stmt same = IRMutator::visit(loop);
    asked = before;
    return same;
  }
  Expr visit(const Halide::Internal::Call *call) override {
    const bool isRequest = call->name == "llvm.prefetch.p0";
    requests += isRequest;
    asked |= isRequest;
    return IRMutator::visit(call);
  }
  Expr visit(const Halide::Internal::Load *load) override {
    reads += asked;
    return IRMutator::visit(load);
  }
};

struct Form {
  const char *name;
  std::vector<Dim> w;
  Storage storage;
  int parts; ///< of the depth
};

constexpr int rows = 64, deep = 768, wideness = 960, tile = 32, group = 2;
const Dim rowsOfX = dim("M", rows), depth = dim("I", deep), columns = dim("O", wideness);

const Form forms[] = {
    {"side by side", {depth, columns}, Storage::F32, 1},
    {"side by side, in parts", {depth, columns}, Storage::F32, 3},
    {"along the depth", {columns, depth}, Storage::F32, 1},
    {"along the depth, in parts", {columns, depth}, Storage::F32, 3},
    {"pairs", {depth, columns}, Storage::BF16, 1},
};

/// Builds the kernel, and does something with it and its pipeline.
template <typename Then>
void build(const KernelGraph &graph, const CpuTarget &target, const std::string &plan, Then then) {
  ScheduleTable table = ScheduleTable::standard();
  table.add(plan, "test");
  KernelPlan chosen = halideProducer().choose(graph, target, table);
  KernelFamilies families{{takeContractions, takeAttention}, scheduleStages};
  KernelBuilder builder(graph, chosen, target, families);
  naming("kernel " + graph.name, [&] {
    BuiltKernel built = builder.build();
    then(builder, built);
    return 0;
  });
}

/// Runs the kernel for `target` as Halide compiles it for this machine. Buffers: those of the arguments, then of the result.
void noteLines(const KernelGraph &graph, const CpuTarget &target, const std::string &plan,
               std::vector<Halide::Buffer<>> buffers) {
  build(graph, target, plan, [&](KernelBuilder &builder, BuiltKernel &built) {
    Halide::Buffer<> result = buffers.back();
    buffers.pop_back();
    for (size_t i = 0; i < buffers.size(); ++i) {
      memset(buffers[i].data(), 0, buffers[i].size_in_bytes());
      builder.arguments[i].set(buffers[i]);
    }
    built.pipeline.add_custom_lowering_pass(new NoteLines);
    built.pipeline.set_jit_externs({{"quern_note_line", Halide::JITExtern(noteLine)}});
    asked.clear();
    built.pipeline.realize({result}, Halide::Target("host"));
  });
}

struct Asked {
  uint64_t lines, all; ///< of the buffer
  uint64_t times;      ///< that one was asked for
};

Asked linesOf(const Halide::Buffer<> &buffer) {
  const uint64_t begin = reinterpret_cast<uint64_t>(buffer.data()) / 64, all = buffer.size_in_bytes() / 64;
  std::set<uint64_t> lines;
  uint64_t times = 0;
  for (uint64_t line : asked)
    if (line >= begin && line < begin + all)
      lines.insert(line), ++times;
  return {lines.size(), all, times};
}

} // namespace

/// Every line of the weight, but those of the first task's first strips, which nobody could ask for; and none again and again.
TEST(FetchNext, AsksForEachLineOnce) {
  for (const Form &form : forms) {
    SCOPED_TRACE(form.name);
    GraphMaker g;
    int x = g.argument(form.storage, {rowsOfX, depth}), w = g.argument(form.storage, form.w);
    auto wide = [&](int node) { return form.storage == Storage::F32 ? node : g.elementwise(Op::Widen, {node}); };
    int wideX = wide(x), wideW = wide(w);
    g.yield(g.contract(wideX, wideW, {"I"}));
    std::string plan = "dense : amx 0, columns " + std::to_string(tile) + ", group " + std::to_string(group);
    if (form.parts > 1)
      plan += ", shallow 1, depth " + std::to_string(deep / form.parts);
    const Halide::Type type = form.storage == Storage::F32 ? Halide::Float(32) : Halide::UInt(16);
    const bool across = form.w[0].name == "O";
    Halide::Buffer<> left(type, deep, rows), right(type, across ? deep : wideness, across ? wideness : deep),
        result(Halide::Float(32), wideness, rows);
    // Pairs of bf16 run where the processor multiplies them; elsewhere they are widened on their way.
    noteLines(g.finish("next"), cpuTarget("native"), plan, {left, right, result});

    const int strips = wideness / (group * tile) * form.parts;
    const auto [found, all, times] = linesOf(right);
    EXPECT_GE(found, all - all / strips - 2) << all << " lines, " << type.bytes() << " bytes a number";
    EXPECT_LE(times, all + all / 50) << "shares of lines are rounded up";
  }
}

/// Every line of the result; and of the packed weight, but for the first tasks' columns. In the kernel of another processor as well:
/// what it asks for is no instruction of it.
TEST(AskBesideSums, AsksForResultsAndColumns) {
  constexpr int packed = 64, many = 256;
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M", many), depth}), w = g.weight({columns, depth}, packed, Storage::F32);
  g.yield(g.contract(x, w, {"I"}));
  CpuTarget target = cpuTarget("cascadelake");
  Halide::Buffer<> left(Halide::Float(32), deep, many), right(Halide::Float(32), packed, deep, wideness / packed),
      result(Halide::Float(32), wideness, many);
  noteLines(g.finish("beside"), target, "contract : row_block 100, depth 4096, ahead 0", {left, right, result});
  Asked ofResult = linesOf(result), ofWeight = linesOf(right);
  EXPECT_EQ(ofResult.lines, ofResult.all);
  const uint64_t strip = ofWeight.all / (wideness / packed);
  EXPECT_GE(ofWeight.lines, ofWeight.all - target.machine.threads * strip - 2);
}

/// Where nothing was measured, nothing is asked for.
TEST(AskBesideSums, OnIntelAlone) {
  EXPECT_TRUE(asksBesideSums(cpuTarget("icelake-server")));
  EXPECT_FALSE(asksBesideSums(cpuTarget("znver4")));
  EXPECT_FALSE(asksBesideSums(cpuTarget("cuda")));
}

/// Each tile of rows asks for the columns that it reads, but for the first of them; and nobody does where nothing was measured.
TEST(FetchAhead, AsksForColumnsOfTiles) {
  constexpr int packed = 64, many = 96;
  for (const char *processor : {"cascadelake", "znver4"}) {
    SCOPED_TRACE(processor);
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M", many), depth}), w = g.weight({columns, depth}, packed, Storage::F32);
    g.yield(g.contract(x, w, {"I"}));
    const CpuTarget target = cpuTarget(processor);
    Halide::Buffer<> left(Halide::Float(32), deep, many), right(Halide::Float(32), packed, deep, wideness / packed),
        result(Halide::Float(32), wideness, many);
    noteLines(g.finish("tiles"), target, "contract : rows 6, row_block 1, depth 4096", {left, right, result});
    const Asked ofWeight = linesOf(right);
    const uint64_t tasks = wideness / packed, skipped = uint64_t(aheadInTiles(target)) / 64;
    if (!skipped) {
      EXPECT_EQ(ofWeight.times, 0u);
      continue;
    }
    EXPECT_GE(ofWeight.lines, ofWeight.all - skipped);
    EXPECT_GE(ofWeight.times, uint64_t(many / 6) * (ofWeight.all - tasks * skipped));
  }
  EXPECT_EQ(aheadInTiles(cpuTarget("sapphirerapids")), 0);
}

/// A row by itself reads streams that go on from task to task: of its part of the weight each asks for one line after the other.
TEST(FetchAhead, StreamsGoOnFromTaskToTask) {
  constexpr int packed = 16, wide = 1024, side = 4, ahead = 512 / 64;
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M", 1), depth}), w = g.weight({dim("O", wide), depth}, packed, Storage::F32);
  g.yield(g.contract(x, w, {"I"}));
  Halide::Buffer<> left(Halide::Float(32), deep, 1), right(Halide::Float(32), packed, deep, wide / packed),
      result(Halide::Float(32), wide, 1);
  noteLines(g.finish("streams"), cpuTarget("x86-64-v3"), "contract : side 4, ahead 512", {left, right, result});
  const uint64_t begin = reinterpret_cast<uint64_t>(right.data()) / 64, all = right.size_in_bytes() / 64;
  std::vector<std::vector<uint64_t>> streams(side);
  for (uint64_t line : asked) // what is read there, as it asks
    if (line >= begin + ahead && line < begin + ahead + all)
      streams[(line - ahead - begin) * side / all].push_back(line);
  for (const std::vector<uint64_t> &stream : streams) {
    EXPECT_GE(stream.size(), all / side);
    EXPECT_TRUE(std::is_sorted(stream.begin(), stream.end()));
  }
}

/// LLVM moves no read across a request, so a request between reads makes it keep vectors on the stack.
TEST(FetchAhead, AsksBehindWhatAnIterationReads) {
  for (Storage storage : {Storage::Int8, Storage::Int4, Storage::Q4K})
    for (const char *processor : {"x86-64-v3", "znver4"})
      for (bool inCodes : {false, true}) {
        SCOPED_TRACE(std::string(quern::support::storageName(storage)) + " for " + processor);
        GraphMaker g;
        const CpuTarget target = cpuTarget(processor);
        const int x = g.argument(Storage::F32, {dim("M", 1), depth});
        const int w = g.weight({columns, depth}, target.vector == 16 ? 64 : 16, storage);
        auto real = [&](int codes) { return g.elementwise(Op::Dequantize, {codes}); };
        g.yield(g.contract(inCodes ? real(g.quantize(x, "I")) : x, real(w), {"I"}));
        CountBehindRequests count;
        build(g.finish("row"), target, "", [&](KernelBuilder &, BuiltKernel &built) {
          built.pipeline.add_custom_lowering_pass(&count, [] {});
          built.pipeline.compile_to_module(built.arguments, "row", Halide::Target("host"));
        });
        EXPECT_GT(count.requests, 3);
        EXPECT_EQ(count.reads, 0);
      }
}

/// Every line of keys and values, but for those of the first rows: rows of a head stand apart, so no processor sees a stream.
TEST(FetchRowsAhead, OfKeysAndValues) {
  constexpr int positions = 256, heads = 3, width = 64, ahead = 2048 / (width * 4);
  const Dim T = dim("T", 64), S = dim("S", positions), G = dim("G", heads), K = dim("K", width);
  GraphMaker g;
  int q = g.argument(Storage::F32, {T, G, K}), k = g.argument(Storage::F32, {S, G, K}),
      v = g.argument(Storage::F32, {S, G, K});
  g.yield(g.attention(g.contract(q, k, {"K"}), v, "S"));
  Halide::Buffer<> queries(Halide::Float(32), width, heads, 64), keys(Halide::Float(32), width, heads, positions),
      values(Halide::Float(32), width, heads, positions), result(Halide::Float(32), width, heads, 64);
  noteLines(g.finish("rows"), cpuTarget("native"), "attention : amx 0", {queries, keys, values, result});
  for (const Halide::Buffer<> &rows : {keys, values}) {
    const Asked ofRows = linesOf(rows);
    EXPECT_GE(ofRows.lines, ofRows.all - ofRows.all * ahead / positions);
  }
  EXPECT_EQ(linesOf(queries).lines, 0u);
}
