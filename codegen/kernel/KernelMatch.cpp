// Takes: a kernel's graph. Gives: its attentions, contractions and what remains, each with the facts that its numbers are
// chosen by. Why apart from building: a plan must be known, shown and edited before anything is built.
#include "codegen/kernel/KernelMatch.h"

#include <algorithm>

namespace quern::codegen {

/// `fused`: whether an instruction multiplies and adds; `products`: how many of these begin in a cycle. `first`, `second`: bytes of
/// a core's caches. `ahead`: which of them takes lines that are asked for.
Facts factsOf(const CpuTarget &target) {
  const int64_t (&caches)[3] = target.machine.caches;
  const bool fuses = std::find(target.features.begin(), target.features.end(), "fma") != target.features.end();
  return {{"vector", target.vector},
          {"registers", target.registers},
          {"fused", fuses},
          {"products", productUnits(target)},
          {"threads", target.machine.threads},
          {"first", caches[0]},
          {"second", caches[1]},
          {"ahead", cacheAhead(target)}};
}

/// Products of AMX's registers that one of the numbers' is; 0 where these cannot hold what is multiplied: rows along their
/// depth, which has whole steps of 64 bytes. What is not packed, and rows of experts, are copied to that form.
static int64_t termsOfTiles(const KernelGraph &graph, const ContractionPattern &p) {
  if (p.isDense() || p.isGrouped()) {
    const bool words = hasWords(graph, p) || hasRoutedWords(graph, p) || hasRoutedFactors(graph, p);
    return words ? termsOf(piecesOf(graph, p.x), piecesOf(graph, p.w)).size() : hasRoutedCodes(graph, p);
  }
  if (p.row && hasPairs(graph, p) && !hasPairsAlone(graph, p))
    return *p.reduced[0].fixed() % depthOfTile ? 0 : termsOf(piecesOf(graph, p.x), 1).size();
  if (p.row && hasCodes(graph, p) && !hasCodesAlone(graph, p))
    return termsOf(piecesOf(graph, p.x), 1).size();
  if (p.row && hasNumbers(graph, p))
    return termsOf(piecesOf(graph, p.x), piecesOfF32).size();
  bool whole = hasCodesAlone(graph, p) || (hasPairsAlone(graph, p) && *p.reduced[0].fixed() % depthOfTile == 0);
  return whole && liesAlongDepth(graph, p);
}

static Anchor anchorOf(const KernelGraph &graph, const ContractionPattern &p, const CpuTarget &target) {
  Anchor anchor{"", p.node, factsOf(target)};
  auto fixed = [](const std::optional<Dim> &dim) { return dim ? dim->fixed().value_or(0) : 0; };
  anchor.facts["outer"] = fixed(p.column);
  anchor.facts["inner"] = p.reduced.empty() ? 0 : p.reduced.back().fixed().value_or(0);
  anchor.facts["rows"] = fixed(p.row);
  anchor.facts["tile"] = p.packed ? graph.argumentLayouts[tableOf(graph, p, p.w)].tile : 0;
  const Storage weight = storedAs(graph, p.w);
  anchor.facts["bits"] = support::formOf(weight).bits;
  anchor.facts["levels"] = support::superBlocksOf(weight) ? 2 : bitsOfCode(weight) ? 1 : 0; // of scales
  const Storage rows = storedAs(graph, p.x);
  anchor.facts["row_bits"] = support::formOf(rows).bits;
  if (bitsOfCode(weight))
    anchor.facts["scaled"] = bitsOfCode(rows) ? std::min(groupOf(weight), groupOf(rows)) : groupOf(weight);
  anchor.facts["bytes"] = byteProducts(target) == ByteProducts::Fours ? 4 : 2;
  anchor.facts["amx"] = multipliesTiles(target) ? termsOfTiles(graph, p) : 0;
  anchor.facts["parts"] = 1; // matrices whose columns a task has beside each other
  for (const Dim &dim : p.others)
    if (graph.nodes[tableOf(graph, p, p.w)].has(dim.name))
      anchor.facts["parts"] *= dim.fixed().value_or(1);
  if (p.form == ContractionForm::ByExpert) {
    anchor.family = "experts";
    anchor.facts["inner"] = 0; // as many as an expert has
  } else if (p.form == ContractionForm::Grouped) {
    anchor.family = "grouped";
  } else if (p.form == ContractionForm::Dense) {
    anchor.family = "dense";
    anchor.facts["heads"] = p.perHead;
    anchor.facts["depth"] = longestDepth(p).fixed().value_or(0);
  } else {
    anchor.family = "contract";
  }
  return anchor;
}

/// The same of an attention of several queries: the most of its products'.
static int64_t termsOfTiles(const KernelGraph &graph, const AttentionPattern &p) {
  size_t most = p.query.fixed() == 1 ? 0 : termsOf(piecesOf(graph, p.v), piecesOfWeights(p)).size();
  for (const AttentionDot &dot : p.dots) {
    if (dot.depth.size() != 1 || !dot.depth[0].fixed())
      return 0;
    if (most)
      most = std::max(most, termsOf(piecesOf(graph, dot.k), piecesOf(graph, dot.q)).size());
  }
  return static_cast<int64_t>(most);
}

static Anchor anchorOf(const AttentionPattern &p, const CpuTarget &target, const std::string &family, int node) {
  Anchor anchor{family, node, factsOf(target)};
  for (const AttentionDot &dot : p.dots)
    anchor.facts["depth"] += dot.depth.empty() ? 0 : dot.depth.back().fixed().value_or(0);
  anchor.facts["values"] = p.column.fixed().value_or(0);
  return anchor;
}

/// On a device each work-item sums what it writes: no part of a kernel has loops of its own.
static KernelMatch matchForDevice(const KernelGraph &graph, const CpuTarget &target) {
  KernelMatch match;
  match.inside.resize(graph.nodes.size());
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i)
    if (graph.nodes[i].scan) { // the body of a recurrence is its first result's
      match.inside[i] = graph.nodes[i].op != Op::Scan;
    } else if (graph.nodes[i].op == Op::Contract) {
      ContractionPattern pattern = matchContraction(graph, i, target.vector);
      if (pattern.form != ContractionForm::Taps)
        pattern.form = ContractionForm::Dots;
      match.contractions.emplace(i, std::move(pattern));
    }
  match.anchors.push_back({"threads", -1, factsOf(target)});
  return match;
}

KernelMatch matchKernel(const KernelGraph &graph, const CpuTarget &target) {
  if (!target.device.empty())
    return matchForDevice(graph, target);
  KernelMatch match;
  std::vector<std::vector<int>> users = graph.users();
  match.inside.resize(graph.nodes.size());
  match.attentions = readAttentions(graph);
  std::map<int, Anchor> families; // by the node that stands for the part
  for (const AttentionPattern &pattern : match.attentions) {
    for (int node : pattern.inside)
      match.inside[node] = graph.nodes[node].op == Op::Contract;
    for (int statistic : {pattern.shift, pattern.share})
      if (statistic >= 0)
        match.inside[statistic] = 1;
    match.inside[pattern.result] = 1;
    Anchor anchor = anchorOf(pattern, target, "attention", pattern.result);
    anchor.facts["amx"] = multipliesTiles(target) ? termsOfTiles(graph, pattern) : 0;
    anchor.facts["pairs"] = multipliesPairs(graph, pattern, target);
    anchor.facts["key_bits"] = support::formOf(storedAs(graph, pattern.dots[0].k)).bits;
    families.emplace(pattern.result, std::move(anchor));
  }
  match.gradient = readAttentionGradient(graph);
  if (match.gradient) {
    for (int node : match.gradient->frame.inside)
      match.inside[node] = graph.nodes[node].op == Op::Contract;
    int last = 0; // by then all is defined that the sums are made of
    for (const GradientSum &sum : match.gradient->sums) {
      match.inside[sum.node] = 1;
      last = std::max(last, sum.node);
    }
    families.emplace(last, anchorOf(match.gradient->frame, target, "gradient", last));
  }

  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    if (auto family = families.find(i); family != families.end()) {
      match.anchors.push_back(family->second);
    } else if (match.inside[i]) {
      continue;
    } else if (graph.nodes[i].op == Op::Contract) {
      ContractionPattern pattern = matchContraction(graph, i, target.vector);
      if (pattern.form != ContractionForm::Dots && pattern.form != ContractionForm::Taps)
        match.anchors.push_back(anchorOf(graph, pattern, target));
      match.contractions.emplace(i, std::move(pattern));
    } else if (sumsByExpert(graph, users, i)) {
      ContractionPattern pattern = matchByExpert(graph, i);
      match.anchors.push_back(anchorOf(graph, pattern, target));
      match.contractions.emplace(i, std::move(pattern));
    }
  }
  // Which stages the builder makes, and along which rows they run, follows from costs of expressions: any kernel may have some.
  match.anchors.push_back({"row", -1, factsOf(target)});
  match.anchors.push_back({"map", -1, factsOf(target)});
  return match;
}

} // namespace quern::codegen
