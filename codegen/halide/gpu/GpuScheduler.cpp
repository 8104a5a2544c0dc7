// Takes: the stages of a kernel. Gives: loops over groups and work-items for each.
//
//   sum over k of x[t, k] w[o, k]:   groups (o / 64, t)  work-items o % 64  { sum = 0; for k: sum += ...; out[t, o] = sum }
//
// Why so plain: every stage is a launch of its own and every element a work-item's, so whatever the stages are, they are
// right. Neighbouring work-items write, and of packed weights read, neighbouring numbers. Faster loops are a family's.
#include "codegen/halide/gpu/GpuScheduler.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

/// The smallest power of two that holds a length, at most `most`.
static int narrowed(std::optional<int64_t> length, int most) {
  int width = 1;
  while (width < most && (!length || width < *length))
    width *= 2;
  return width;
}

std::optional<Var> GpuScheduler::launch(Halide::Stage loops, const std::vector<Along> &along,
                                        std::vector<VarOrRVar> within, bool sums) {
  if (along.empty()) {
    loops.gpu_single_thread();
    return std::nullopt;
  }
  // A work-item that makes one element ends as soon as it has begun, so starting groups takes the time: larger ones. Sums
  // keep them small, as there may be few, which then are on more of the device.
  const PlanPart &plan = b.part("threads");
  const int times = sums ? 1 : std::max<int>(1, 256 / static_cast<int>(plan["group"]));
  const int group = static_cast<int>(plan["group"]) * times, wide = static_cast<int>(plan["wide"]) * times;
  std::vector<VarOrRVar> threads, groups;
  auto split = [&](const VarOrRVar &var, const std::string &name, int width) {
    threads.emplace_back(name + "_thread", var.is_rvar), groups.emplace_back(name + "_group", var.is_rvar);
    loops.split(var, groups.back(), threads.back(), width, TailStrategy::GuardWithIf);
  };
  int columns = narrowed(along[0].length, along.size() > 1 ? std::min(wide, group) : group);
  // Several elements, far apart, of a work-item that makes nothing else: it asks for all before it waits. Where a group has
  // its elements, none of them is guarded.
  const size_t last = std::min<size_t>(along.size(), 2) - 1;
  const bool plain = std::none_of(along.begin(), along.end(), [](const Along &one) { return one.var.is_rvar; });
  const bool several = plain && !sums && b.target.device == "cuda" && !along[last].length;
  const Var part("several"), rest("rest");
  auto splitSome = [&](size_t d, const std::string &name, int width) {
    if (!several || d != last)
      return split(along[d].var, name, width);
    threads.emplace_back(name + "_thread", false), groups.emplace_back(name + "_group", false);
    loops.split(along[d].var, groups.back(), rest, width * 4, TailStrategy::GuardWithIf)
        .split(rest, part, threads.back(), width, TailStrategy::GuardWithIf)
        .unroll(part);
  };
  splitSome(0, "x", columns);
  if (along.size() > 1)
    splitSome(1, "y", narrowed(along[1].length, group / columns));
  std::vector<VarOrRVar> order = std::move(within);
  if (several)
    order.push_back(part);
  order.insert(order.end(), threads.begin(), threads.end());
  order.insert(order.end(), groups.begin(), groups.end());
  for (size_t d = 2; d < along.size(); ++d)
    order.push_back(along[d].var);
  if (order.size() > 1)
    loops.reorder(order);
  // Three dimensions of groups are all that there are.
  for (size_t d = 2; d < along.size(); ++d) {
    VarOrRVar fused = along[d].var;
    if (d > 2) {
      fused = VarOrRVar("z" + std::to_string(d), false);
      loops.fuse(groups.back(), along[d].var, fused);
      groups.pop_back();
    }
    groups.push_back(fused);
  }
  loops.never_partition_all(); // one body with a guard, half as much to compile
  if (several)
    loops.partition(groups[last], Partition::Auto);
  for (const VarOrRVar &var : threads)
    loops.gpu_threads(var);
  for (const VarOrRVar &var : groups)
    loops.gpu_blocks(var);
  return threads[0].is_rvar ? std::nullopt : std::optional(threads[0].var);
}

void GpuScheduler::schedule(Stage &stage, bool concat) {
  std::vector<Along> pure;
  for (auto dim = stage.dims.rbegin(); dim != stage.dims.rend(); ++dim)
    pure.push_back({KernelBuilder::var(dim->name), dim->fixed()});
  const auto *call = stage.func.values()[0].as<Internal::Call>();
  bool written = !call || !call->is_intrinsic(Internal::Call::undef);
  std::optional<Var> threads;
  if (written)
    threads = launch(stage.func, pure, {}, !stage.lanes.empty());
  for (Func &lanes : stage.lanes) {
    if (threads) {
      lanes.compute_at(stage.func, *threads);
    } else {
      lanes.compute_root().gpu_single_thread();
      lanes.update().gpu_single_thread();
    }
  }
  for (int u = 0; u < stage.func.num_update_definitions(); ++u) {
    // Along a dimension that an update writes where its data say, its steps stay in order, unless they are known to write to
    // different places.
    std::vector<Expr> at = stage.func.update_args(u);
    std::vector<Along> along;
    std::vector<VarOrRVar> within;
    for (size_t d = 0; d < at.size(); ++d) {
      const auto *var = at[d].as<Internal::Variable>();
      if (var && !var->reduction_domain.defined() && var->name == pure[d].var.name())
        along.push_back(pure[d]);
    }
    bool raced = stage.func.update(u).get_schedule().allow_race_conditions(); // scatterByPlace
    for (const RVar &over : stage.over[u])
      if (raced && over.name() == stage.over[u].back().name())
        along.insert(along.begin() + (along.empty() ? 0 : 1), Along{over, std::nullopt});
      else if (concat)
        along.insert(along.begin() + (stage.vectorOver || along.empty() ? 0 : 1), Along{over, std::nullopt});
      else
        within.push_back(over);
    const bool sums = !within.empty();
    launch(stage.func.update(u), along, std::move(within), sums);
  }
}

void GpuScheduler::run() {
  for (Stage &stage : b.stages) {
    stage.func.compute_root();
    schedule(stage, b.graph.nodes[stage.node].op == Op::Concat);
  }
  for (size_t result = 0; result < b.outputs.size(); ++result) {
    Stage &stage = b.outputs[result];
    schedule(stage, !stage.over.empty() && !stage.scattered);
  }
}

void scheduleLaunches(KernelBuilder &builder) {
  GpuScheduler(builder).run();
}

} // namespace quern::codegen
