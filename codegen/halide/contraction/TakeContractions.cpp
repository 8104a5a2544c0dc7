// Takes: a kernel's contractions, by their patterns. Gives: each by the family that its form names.
#include "codegen/halide/contraction/TakeContractions.h"

#include "codegen/halide/contraction/DenseContraction.h"
#include "codegen/halide/contraction/PackedContraction.h"
#include "codegen/halide/contraction/routed/ExpertGradient.h"
#include "codegen/halide/contraction/routed/GroupedContraction.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

static void defineContraction(KernelBuilder &b, const ContractionPattern &p) {
  switch (p.form) {
  case ContractionForm::Dots: {
    if (b.onDevice())
      storeOperands(b, p);
    else
      prepareOperands(b, p);
    // Vectors run along the last dimension: that is one along which numbers are together, if there is a wide one.
    std::vector<Dim> kept = b.graph.nodes[p.node].dims;
    const Node &x = b.graph.nodes[p.x];
    auto along = std::find_if(kept.begin(), kept.end(),
                              [&](const Dim &dim) { return !x.dims.empty() && dim.name == x.dims.back().name; });
    if (!b.onDevice() && along != kept.end() && along->fixed().value_or(0) >= b.target.vector &&
        kept.back().fixed().value_or(b.target.vector) < b.target.vector)
      std::rotate(along, along + 1, kept.end());
    Func total = b.reduceOver("dot", p.node, kept, p.reduced, Kind::Real, Reduction::Sum, [&](const Index &index) {
      return readFactor(b, p.x, index) * readFactor(b, p.w, index);
    });
    return b.readFrom(p.node, total, kept);
  }
  case ContractionForm::Taps:
    return b.writeOut(p.node, p.reduced, [&b, x = p.x, w = p.w](const Index &index) {
      return readFactor(b, x, index) * readFactor(b, w, index);
    });
  case ContractionForm::Packed:
    return PackedContraction(b, p, b.part(p.node)).define();
  case ContractionForm::Dense:
    return DenseContraction(b, p, b.part(p.node)).define();
  case ContractionForm::Grouped:
    return GroupedContraction(b, p, b.part(p.node)).define();
  case ContractionForm::ByExpert:
    return ExpertGradient(b, p, b.part(p.node)).define();
  }
}

void takeContractions(KernelBuilder &b) {
  for (const auto &[node, pattern] : b.match.contractions) {
    std::vector<int> inside;
    if (pattern.form == ContractionForm::ByExpert)
      inside = {b.graph.nodes[node].operands[0]};
    b.take(node, [&b, &p = pattern] { defineContraction(b, p); }, inside);
  }
}

} // namespace quern::codegen
