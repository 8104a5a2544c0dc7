// Takes: a kernel's graph. Gives: the one attention in it, or the sums of a gradient, in one form.
#include "codegen/tile/attend/AttentionForm.h"

#include <algorithm>

namespace quern::codegen::tile {

static void readFrame(const KernelGraph &graph, AttentionForm &form) {
  std::vector<AttentionPattern> attentions;
  std::optional<GradientPattern> gradient;
  try {
    attentions = readAttentions(graph);
    gradient = readAttentionGradient(graph);
  } catch (const std::logic_error &error) { // no family computes it
    throw Refusal(error.what());
  }
  if (attentions.size() + (gradient ? 1 : 0) != 1)
    throw Refusal("it makes one attention, or the sums of one gradient");
  if (gradient && gradient->diagonals)
    throw Refusal("it makes no sums along diagonals");
  form.softmax = !gradient;
  form.frame = gradient ? gradient->frame : attentions[0];
  if (gradient)
    form.sums = gradient->sums;
  else
    form.sums = {{form.frame.result, -1, form.frame.v, form.frame.column}};
}

AttentionForm formOf(const KernelGraph &graph) {
  AttentionForm form;
  readFrame(graph, form);
  const AttentionPattern &p = form.frame;
  form.rows = {p.query};
  form.rows.insert(form.rows.end(), p.together.begin(), p.together.end());
  for (int i = 0; i < int(graph.nodes.size()); ++i) {
    bool own = std::any_of(p.dots.begin(), p.dots.end(), [&](const AttentionDot &dot) { return dot.node == i; });
    if (graph.nodes[i].op == Op::Contract && !own)
      throw Refusal("it has a product beside attention");
  }
  auto fixed = [](const Dim &dim) { return dim.fixed().has_value(); };
  for (const AttentionDot &dot : p.dots)
    if (dot.depth.empty() || !std::all_of(dot.depth.begin(), dot.depth.end(), fixed) ||
        graph.nodes[dot.q].has(p.key.name))
      throw Refusal("an attention whose depth only the run knows");
  for (const GradientSum &sum : form.sums)
    if (sum.value < 0 || !sum.column.fixed())
      throw Refusal("an attention whose columns only the run knows");
  return form;
}

} // namespace quern::codegen::tile
