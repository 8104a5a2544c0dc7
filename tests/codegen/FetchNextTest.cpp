// Which lines of memory products ask for while they multiply: those of the strip of columns that is copied next. Requests change no
// number, so the kernel runs here with a function in their place that writes their addresses down.
#include "codegen/halide/HalideError.h"
#include "codegen/halide/HalideProducer.h"
#include "codegen/halide/KernelBuilder.h"
#include "codegen/halide/StageScheduler.h"
#include "codegen/halide/contraction/Contraction.h"
#include "codegen/schedule/Schedule.h"
#include "tests/codegen/support/Check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>

using namespace quern::codegen;

namespace {

std::mutex guard;
std::map<uint64_t, int> asked; ///< how often for each line

int noteLine(void *address) {
  std::lock_guard<std::mutex> lock(guard);
  ++asked[reinterpret_cast<uint64_t>(address) / 64];
  return 0;
}

class NoteLines : public Halide::Internal::IRMutator {
  using IRMutator::visit;
  Expr visit(const Halide::Internal::Call *call) override {
    if (call->name != "llvm.prefetch.p0")
      return IRMutator::visit(call);
    return Halide::Internal::Call::make(call->type, "quern_note_line", {call->args[0]}, Halide::Internal::Call::Extern);
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
    const KernelGraph &graph = g.finish("next");
    // Pairs of bf16 run where the processor multiplies them; elsewhere they are widened on their way.
    CpuTarget target = cpuTarget("native");
    ScheduleTable table = ScheduleTable::standard();
    std::string plan = "dense : amx 0, columns " + std::to_string(tile) + ", group " + std::to_string(group);
    if (form.parts > 1)
      plan += ", shallow 1, depth " + std::to_string(deep / form.parts);
    table.add(plan, "test");
    KernelPlan chosen = halideProducer().choose(graph, target, table);
    KernelFamilies families{{takeContractions}, scheduleStages};
    KernelBuilder builder(graph, chosen, target, families);
    BuiltKernel built = naming(form.name, [&] { return builder.build(); });

    const Halide::Type type = form.storage == Storage::F32 ? Halide::Float(32) : Halide::UInt(16);
    const bool across = form.w[0].name == "O";
    Halide::Buffer<> left(type, deep, rows), right(type, across ? deep : wideness, across ? wideness : deep),
        result(Halide::Float(32), wideness, rows);
    memset(left.data(), 0, left.size_in_bytes());
    memset(right.data(), 0, right.size_in_bytes());
    builder.arguments[x].set(left);
    builder.arguments[w].set(right);
    built.pipeline.add_custom_lowering_pass(new NoteLines);
    built.pipeline.set_jit_externs({{"quern_note_line", Halide::JITExtern(noteLine)}});
    asked.clear();
    naming(form.name, [&] {
      built.pipeline.realize({result}, Halide::Target("host"));
      return 0;
    });

    const int strips = wideness / (group * tile) * form.parts;
    const uint64_t begin = reinterpret_cast<uint64_t>(right.data()) / 64, all = right.size_in_bytes() / 64;
    uint64_t found = 0, times = 0;
    for (auto [line, often] : asked) {
      found += line >= begin && line < begin + all;
      times += often;
    }
    EXPECT_GE(found, all - all / strips - 2) << all << " lines, " << type.bytes() << " bytes a number";
    EXPECT_LE(times, all + all / 50) << "shares of lines are rounded up";
  }
}
