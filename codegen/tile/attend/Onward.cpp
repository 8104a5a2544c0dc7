// Takes: values of nodes at a place. Gives: the same of what is made of them, in the order of nodes. Why onward and not from
// the results back: a result whose dimensions are merged (heads side by side) would have to be divided again, and nobody
// would know that the parts are the coordinates they came from.
#include "codegen/tile/attend/Onward.h"

#include <algorithm>

namespace quern::codegen::tile {

namespace {
class Walk {
public:
  Walk(const KernelGraph &graph, Places &places, Values &v, std::map<int, Here> known)
      : graph(graph), places(places), v(v), known(std::move(known)) {}

  std::map<int, Here> run() {
    for (int i = 0; i < int(graph.nodes.size()); ++i) {
      const std::vector<int> &operands = graph.nodes[i].operands;
      if (!known.count(i) && std::any_of(operands.begin(), operands.end(), [&](int o) { return known.count(o) > 0; }))
        known[i] = graph.isElementwise(i) ? computed(graph.nodes[i]) : moved(graph.nodes[i]);
    }
    return std::move(known);
  }

private:
  const KernelGraph &graph;
  Places &places;
  Values &v;
  std::map<int, Here> known;

  Here computed(const Node &node) {
    Here here;
    for (int operand : node.operands)
      if (auto from = known.find(operand); from != known.end())
        for (const auto &[name, position] : from->second.place)
          if (auto [at, isNew] = here.place.try_emplace(name, position); !isNew && at->second != position)
            throw Refusal("it mixes elements of attention");
    for (const Dim &dim : node.dims)
      if (!here.place.count(dim.name))
        throw Refusal("it spreads the results of attention over more dimensions");
    std::vector<int> operands;
    for (int operand : node.operands) {
      auto from = known.find(operand);
      operands.push_back(from != known.end() ? from->second.value : places.at(operand, here.place));
    }
    here.value = node.op == Op::Widen ? operands[0] : places.elementwise(node, std::move(operands));
    return here;
  }

  Here moved(const Node &node) {
    const Here &from = known.at(node.operands[0]);
    Here here = from;
    switch (node.op) {
    case Op::Permute:
      return here;
    case Op::Rename:
      for (const std::string &name : node.names)
        here.place.erase(name);
      for (size_t i = 0; i < node.names.size(); ++i)
        here.place[node.into[i].name] = from.place.at(node.names[i]);
      return here;
    case Op::Merge: {
      const Node &operand = graph.nodes[node.operands[0]];
      int position = v.number(0);
      for (const std::string &name : node.names) {
        const Dim &dim = operand.dims[size_t(operand.find(name))];
        position = places.integer(Op::Add, places.integer(Op::Mul, position, v.length(dim.size)), from.place.at(name));
        here.place.erase(name);
      }
      here.place[node.into[0].name] = position;
      return here;
    }
    case Op::Split:
      here.place.erase(node.names[0]);
      for (auto &[name, position] : places.divided(node.into, from.place.at(node.names[0])))
        here.place[name] = position;
      return here;
    case Op::Squeeze:
      here.place.erase(node.names[0]);
      return here;
    case Op::Unit:
      here.place[node.into[0].name] = v.number(0);
      return here;
    default:
      throw Refusal("what it makes of attention is not computed element by element");
    }
  }
};
} // namespace

std::map<int, Here> onward(const KernelGraph &graph, Places &places, Values &values, std::map<int, Here> known) {
  return Walk(graph, places, values, std::move(known)).run();
}

} // namespace quern::codegen::tile
