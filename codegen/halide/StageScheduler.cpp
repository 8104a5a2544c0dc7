// Takes: the stages and results that no family scheduled. Gives: loops for them.
// Why two ways: where all sums run within a row (norms, softmax over a vocabulary), a task computes whole rows and what
// is between stays in the cache; anything else is computed stage by stage, each vectorised and in parallel.
#include "codegen/halide/StageScheduler.h"

#include "support/Machine.h"

#include <algorithm>
#include <functional>

using namespace Halide;

namespace quern::codegen {

static bool has(const std::vector<Dim> &dims, const std::string &name) {
  return std::any_of(dims.begin(), dims.end(), [&](const Dim &dim) { return dim.name == name; });
}

/// Per node: whether `node` is computed from it.
std::vector<char> StageScheduler::leadingTo(int node) const {
  std::vector<char> leads(b.graph.nodes.size());
  leads[node] = 1;
  for (int i = node; i >= 0; --i)
    if (leads[i])
      for (int operand : b.graph.nodes[i].operands)
        leads[operand] = 1;
  leads[node] = 0;
  return leads;
}

/// The stages that only `target` needs, which can therefore live in its loops; none if any of them is needed elsewhere.
/// `result`: the value is computed again by whoever else reads its node.
std::vector<Stage *> StageScheduler::madeFor(Stage &target, bool result) const {
  const auto &results = b.graph.results;
  if (result && (!b.users[target.node].empty() || std::count(results.begin(), results.end(), target.node) > 1))
    return {};
  std::vector<char> leads = leadingTo(target.node);
  leads[target.node] = 1;
  std::vector<char> only = leads; // whatever is computed from it ends in the target
  for (int i = target.node; i-- > 0;)
    only[i] = leads[i] && std::count(results.begin(), results.end(), i) == 0 &&
              std::all_of(b.users[i].begin(), b.users[i].end(), [&](int user) { return only[user]; });
  std::vector<Stage *> stages;
  for (Stage &stage : b.stages) {
    if (stage.scheduled || &stage == &target || !leads[stage.node])
      continue;
    if (!only[stage.node])
      return {};
    stages.push_back(&stage);
  }
  return stages;
}

/// True if each update of the stage writes the element of the dimension that its loop stands at. A running sum goes
/// from one to the next: inside of a loop over them it would begin anew at every one.
bool StageScheduler::standsStill(const Stage &stage, const std::string &name) {
  auto found = std::find_if(stage.dims.begin(), stage.dims.end(), [&](const Dim &dim) { return dim.name == name; });
  size_t place = stage.dims.end() - found - 1; // arguments stand innermost first
  for (size_t u = 0; u < stage.over.size(); ++u) {
    std::vector<Expr> args = stage.func.update_args(u);
    const auto *pure = args[place].as<Internal::Variable>();
    if (!pure || pure->name != KernelBuilder::var(name).name())
      return false;
  }
  return true;
}

/// The leading dimensions of the target that every stage with a reduction has too, if there is one.
bool StageScheduler::rowDims(const Stage &target, const std::vector<Stage *> &inside, std::vector<Dim> &rows) {
  bool any = false;
  for (const Dim &dim : target.dims) {
    bool everywhere = true;
    for (const Stage *stage : inside) {
      if (stage->over.empty() && stage->lanes.empty())
        continue;
      if (stage->scattered)
        return false;
      any = true;
      everywhere &= has(stage->dims, dim.name) && standsStill(*stage, dim.name);
    }
    if (!everywhere)
      break;
    rows.push_back(dim);
  }
  // Sums that do not run along memory are made in vectors of their last dimension, which a row then holds.
  auto wide = [&](const Dim &dim) { return dim.fixed().value_or(0) >= b.target.vector; };
  for (const Stage *stage : inside)
    if (!stage->over.empty() && !stage->dims.empty() && stage->lanes.empty() && !stage->vectorOver &&
        wide(stage->dims.back()))
      if (auto vectors = std::find_if(rows.begin(), rows.end(),
                                      [&](const Dim &dim) { return dim.name == stage->dims.back().name; });
          vectors != rows.end())
        rows.erase(vectors, rows.end());
  return any && !rows.empty();
}

/// Vectors along the innermost dimension of a stage: its pure loop, or the parts of a concatenation.
void StageScheduler::vectorizeInner(Stage &stage) {
  if (stage.dims.empty() || stage.oneByOne)
    return;
  const Dim &last = stage.dims.back();
  int width = b.target.vector;
  while (width > 1 && last.fixed() && width > *last.fixed())
    width /= 2;
  if (width < 2)
    return;
  Var inner = KernelBuilder::var(last.name);
  if (!stage.vectorOver)
    stage.func.vectorize(inner, width, TailStrategy::GuardWithIf);
  for (size_t u = 0; u < stage.over.size(); ++u) {
    if (stage.vectorOver) {
      stage.func.update(u).vectorize(stage.over[u][0], width, TailStrategy::GuardWithIf);
      continue;
    }
    // The sum's own loop runs along another dimension: vectors of sums.
    std::vector<VarOrRVar> order = {inner};
    order.insert(order.end(), stage.over[u].begin(), stage.over[u].end());
    const std::vector<Expr> &args = stage.func.update_args(u);
    const auto *pure = args[0].as<Internal::Variable>();
    if (!pure || pure->name != inner.name())
      continue;
    stage.func.update(u).reorder(order).vectorize(inner, width, TailStrategy::GuardWithIf);
  }
}

static int64_t elements(const std::vector<Dim> &dims, size_t from) {
  int64_t count = 1;
  for (size_t i = from; i < dims.size(); ++i)
    count *= std::min<int64_t>(dims[i].fixed().value_or(support::assumed::elements), 1 << 20);
  return count;
}

/// Outer pure loops of a definition, fused and in parallel.
template <typename Definition>
static Var fuseOuter(Definition definition, const std::vector<Dim> &dims, size_t count, int chunk,
                     const std::function<Var(const std::string &)> &var) {
  Var loop = var(dims[count - 1].name);
  for (size_t i = count - 1; i-- > 0;) {
    Var fused("rows" + std::to_string(i));
    definition.fuse(loop, var(dims[i].name), fused);
    loop = fused;
  }
  Var task("task"), within("within");
  if (chunk > 1) {
    definition.split(loop, task, within, chunk, TailStrategy::GuardWithIf);
    definition.parallel(task);
    return within;
  }
  definition.parallel(loop);
  return loop;
}

/// Numbers one after the other: tasks of so many. Returns false where there are less, or what is summed runs along them.
bool StageScheduler::cutIntoTasks(Stage &stage) {
  const int64_t work = b.part("map")["work"] / b.target.vector * b.target.vector;
  if (stage.dims.size() != 1 || !stage.over.empty() || stage.vectorOver || !stage.lanes.empty() || !work ||
      stage.dims[0].fixed().value_or(work + 1) <= work)
    return false;
  Var vectors("vectors"), lane("lane"), task("task"), within("within");
  stage.func.split(KernelBuilder::var(stage.dims[0].name), vectors, lane, b.target.vector, TailStrategy::GuardWithIf)
      .vectorize(lane)
      .split(vectors, task, within, static_cast<int>(work) / b.target.vector, TailStrategy::GuardWithIf)
      .parallel(task);
  return true;
}

void StageScheduler::atRoot(Stage &stage) {
  if (cutIntoTasks(stage))
    return;
  vectorizeInner(stage);
  if (stage.dims.size() >= 2) {
    // All outer loops in one, unless an update runs along one of them.
    const PlanPart &plan = b.part("map");
    int work = plan["work"], most = plan["most"];
    auto fusable = [&](const std::vector<Expr> *args) {
      size_t count = 0; // leading dimensions (outermost first) that are plain loops
      for (; count + 1 < stage.dims.size(); ++count) {
        if (!args)
          continue;
        const auto *pure = (*args)[stage.dims.size() - 1 - count].as<Internal::Variable>();
        if (!pure || pure->name != KernelBuilder::var(stage.dims[count].name).name())
          break;
      }
      return count;
    };
    auto chunkOf = [&](size_t count) {
      return static_cast<int>(std::clamp<int64_t>(work / std::max<int64_t>(1, elements(stage.dims, count)), 1, most));
    };
    if (size_t count = fusable(nullptr); count && !stage.vectorOver)
      fuseOuter(stage.func, stage.dims, count, chunkOf(count), KernelBuilder::var);
    for (size_t u = 0; u < stage.over.size(); ++u) {
      std::vector<Expr> args = stage.func.update_args(u);
      size_t count = fusable(&args);
      if (!count)
        continue;
      fuseOuter(stage.func.update(u), stage.dims, count, chunkOf(count), KernelBuilder::var);
    }
  }
  for (Func &lanes : stage.lanes) {
    if (stage.dims.empty())
      lanes.compute_root();
    else
      lanes.compute_at(stage.func, KernelBuilder::var(stage.dims.back().name));
  }
}

void StageScheduler::asRows(Stage &out, const std::vector<Stage *> &within, const std::vector<Dim> &rows) {
  Var loop;
  const PlanPart &plan = b.part("row");
  int64_t inside = elements(out.dims, rows.size());
  for (const Stage *stage : within)
    if (!stage->lanes.empty())
      inside = std::max<int64_t>(inside, plan["inside"]);
  int chunk = static_cast<int>(std::clamp<int64_t>(plan["work"] / inside, 1, plan["most"]));
  std::vector<VarOrRVar> order;
  for (auto dim = out.dims.rbegin(); dim != out.dims.rend(); ++dim)
    if (!has(rows, dim->name))
      order.push_back(KernelBuilder::var(dim->name));
  for (auto dim = rows.rbegin(); dim != rows.rend(); ++dim)
    order.push_back(KernelBuilder::var(dim->name));
  if (order.size() > 1)
    out.func.reorder(order);
  if (out.dims.size() > rows.size())
    vectorizeInner(out);
  loop = fuseOuter(out.func, rows, rows.size(), chunk, KernelBuilder::var);
  out.scheduled = true;
  for (Stage *stage : within) {
    stage->scheduled = true;
    bool inRow = std::all_of(rows.begin(), rows.end(), [&](const Dim &row) { return has(stage->dims, row.name); });
    if (!inRow) {
      stage->func.compute_root();
      atRoot(*stage);
      continue;
    }
    stage->func.compute_at(out.func, loop);
    for (Func &lanes : stage->lanes)
      lanes.compute_at(stage->func, KernelBuilder::var(stage->dims.back().name));
    if (stage->lanes.empty() && (stage->dims.size() > rows.size() || stage->vectorOver))
      vectorizeInner(*stage);
  }
}

/// What a contraction reads (a norm) is made before it, row by row; so is all else that it needs.
void StageScheduler::prologues() {
  for (int node : b.prologues)
    for (Stage &stage : b.stages) {
      if (stage.node != node || stage.scheduled || !stage.over.empty())
        continue;
      std::vector<Stage *> inside = madeFor(stage);
      std::vector<Dim> rows;
      if (!rowDims(stage, inside, rows))
        continue;
      stage.func.compute_root();
      asRows(stage, inside, rows);
    }
  // What a stage with loops of its own reads cannot live in the loops of the result.
  for (const Stage &family : b.stages) {
    if (!family.scheduled)
      continue;
    std::vector<char> leads = leadingTo(family.node);
    for (Stage &stage : b.stages)
      if (!stage.scheduled && leads[stage.node]) {
        stage.func.compute_root();
        atRoot(stage);
        stage.scheduled = true;
      }
  }
}

void StageScheduler::run() {
  for (auto &[result, schedule] : b.fused)
    schedule(b.outputs[result]);
  prologues();
  for (Stage &out : b.outputs) {
    if (out.scheduled || !out.over.empty()) // a result written part by part has no single loop over rows
      continue;
    std::vector<Stage *> rest;
    if (b.outputs.size() > 1)
      rest = madeFor(out, true);
    else
      for (Stage &stage : b.stages)
        if (!stage.scheduled)
          rest.push_back(&stage);
    std::vector<Dim> rows;
    if (rowDims(out, rest, rows))
      asRows(out, rest, rows);
  }
  for (Stage &stage : b.stages)
    if (!stage.scheduled) {
      stage.func.compute_root();
      atRoot(stage);
    }
  for (Stage &stage : b.outputs)
    if (!stage.scheduled)
      atRoot(stage);
}

void scheduleStages(KernelBuilder &builder) {
  StageScheduler(builder).run();
}

} // namespace quern::codegen
