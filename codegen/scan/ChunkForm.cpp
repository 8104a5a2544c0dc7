// Takes: a scan, divided. Gives: its update as a memory of keys and values or a delta rule, if it is one.
// How: the update and what is summed of the state are taken apart into a multiple of the state and one product that is added;
// factors with the dimension A are keys, the others values. Anything else makes the scan neither.
#include "codegen/scan/ChunkForm.h"

#include <algorithm>

namespace quern::codegen::scan {

namespace {
/// state * h + write; nothing: 0.
struct Linear {
  std::optional<Product> state, write;
};

class Recogniser {
public:
  Recogniser(const KernelGraph &graph, const ScanShape &shape, ChunkForm &form)
      : graph(graph), shape(shape), body(*shape.body), nodes(body.nodes), form(form) {}

  std::optional<std::string> run() {
    bool found = findDims() && findUpdate() && findReads() && findWrite() && fitOutputs();
    return found ? std::nullopt : std::optional<std::string>(reason);
  }

private:
  const KernelGraph &graph;
  const ScanShape &shape;
  const ScanBody &body;
  const std::vector<Node> &nodes;
  ChunkForm &form;
  std::string reason;
  std::vector<char> onState, direct;    // nodes that the state reaches; ... without a sum on the way
  int updated = -1;                     // the state after an update that is not held
  std::set<std::pair<bool, int>> plain; // nodes of the body or the kernel that were looked at
  Product write;                        // what the update adds to it

  bool fail(const std::string &why) {
    reason = why;
    return false;
  }
  bool hasKeys(int node) const { return nodes[node].has(form.keys.name); }
  bool hasLane(int node) const { return shape.hasLane(nodes[node].dims); }
  /// Only adds or reorders dimensions, of which a value does not depend.
  static bool isSame(Op op) { return op == Op::Expand || op == Op::Permute; }
  static bool isProduct(const Node &node) {
    return node.op == Op::Mul || (node.op == Op::Contract && node.names.empty());
  }
  int strip(int node) const {
    while (isSame(nodes[node].op))
      node = nodes[node].operands[0];
    return node;
  }

  bool findDims() {
    if (body.carried != 1)
      return fail("it carries " + std::to_string(body.carried) + " values");
    std::vector<Dim> inner = shape.inner(nodes[0].dims);
    if (nodes[0].storage != Storage::F32 || !shape.lane || inner.size() != 1 || !inner[0].fixed())
      return fail("its state is no matrix of real numbers for each head, with one dimension that sums run over");
    if (!shape.totals.empty())
      return fail("it has sums over the other dimension of its state");
    form.keys = inner[0];
    onState.assign(nodes.size(), 0), direct.assign(nodes.size(), 0);
    onState[0] = direct[0] = 1;
    for (size_t i = 1; i < nodes.size(); ++i)
      for (int operand : nodes[i].operands) {
        onState[i] |= onState[operand];
        direct[i] |= direct[operand] && !isSum(nodes[i]);
      }
    return true;
  }
  static bool isSum(const Node &node) { return isReduction(node) && !isProduct(node); }

  // ---- the update
  bool findUpdate() {
    updated = strip(body.yields[0]);
    const Node &node = nodes[updated];
    if (node.op == Op::Where) {
      int yes = strip(node.operands[1]), no = strip(node.operands[2]), when = node.operands[0];
      if ((yes != 0 && no != 0) || onState[when] || hasKeys(when) || hasLane(when))
        return fail("its state is chosen by more than a condition for each head");
      form.hold = when;
      form.holdsWhere = yes == 0;
      updated = form.holdsWhere ? no : yes;
    }
    Linear update;
    if (!linear(updated, update))
      return false;
    if (!update.state || !update.write)
      return fail("its update is no sum of the decayed state and a product");
    form.decay.minus = update.state->minus;
    for (int factor : update.state->factors) {
      form.decay.factors.push_back(strip(factor));
      if (hasKeys(form.decay.factors.back()) || hasLane(form.decay.factors.back()))
        return fail("its decay is not one number for each head");
    }
    write = *update.write;
    return true;
  }

  bool linear(int i, Linear &out) {
    const Node &node = nodes[i];
    if (!direct[i]) {
      out.write = Product{{i}, false};
      return true;
    }
    if (i == 0) {
      out.state = Product{};
      return true;
    }
    if (isSame(node.op))
      return linear(node.operands[0], out);
    if (node.op == Op::Neg) {
      if (!linear(node.operands[0], out))
        return false;
      negate(out);
      return true;
    }
    if (isProduct(node)) {
      int of = direct[node.operands[0]] ? node.operands[0] : node.operands[1],
          by = of == node.operands[0] ? node.operands[1] : node.operands[0];
      if (onState[by])
        return fail("it multiplies its state by what it reads of it");
      if (!linear(of, out))
        return false;
      for (std::optional<Product> *part : {&out.state, &out.write})
        if (*part)
          (*part)->factors.push_back(by);
      return true;
    }
    if (node.op != Op::Add && node.op != Op::Sub)
      return fail("its update is no sum of the decayed state and a product");
    Linear right;
    if (!linear(node.operands[0], out) || !linear(node.operands[1], right))
      return false;
    if (node.op == Op::Sub)
      negate(right);
    if ((out.state && right.state) || (out.write && right.write))
      return fail("its update adds more than one product to the decayed state");
    if (right.state)
      out.state = right.state;
    if (right.write)
      out.write = right.write;
    return true;
  }
  static void negate(Linear &value) {
    for (std::optional<Product> *part : {&value.state, &value.write})
      if (*part)
        (*part)->minus = !(*part)->minus;
  }

  /// Products of keys and values taken apart: of what remains each factor has one of the dimensions at most.
  bool flatten(const Product &product, Product &out) {
    out.minus ^= product.minus;
    for (int factor : product.factors) {
      int i = strip(factor);
      if (!hasKeys(i) || !hasLane(i)) {
        out.factors.push_back(i);
        continue;
      }
      const Node &node = nodes[i];
      if (node.op != Op::Neg && !isProduct(node))
        return fail(
            "what it adds to its state, or multiplies what it reads of it by, is no product of keys and values");
      if (!flatten({node.operands, node.op == Op::Neg}, out))
        return false;
    }
    return true;
  }

  /// Keys are evaluated for neighbouring positions of A at once.
  bool isPlainAlongKeys(bool inside, int i) {
    const Node &node = (inside ? nodes : graph.nodes)[i];
    if (!node.has(form.keys.name) || !plain.insert({inside, i}).second)
      return true;
    bool moves = node.op >= Op::Rename && node.op <= Op::Gather && node.op != Op::Permute;
    if (moves || isReduction(node) || node.op == Op::Scan)
      return false;
    if (inside && node.op == Op::Argument)
      return isPlainAlongKeys(false, shape.operands[i]);
    return std::all_of(node.operands.begin(), node.operands.end(),
                       [&](int operand) { return isPlainAlongKeys(inside, operand); });
  }
  bool areKeys(const Product &keys) {
    for (int factor : keys.factors) {
      if (onState[factor] || hasLane(factor))
        return fail("its keys depend on the state or on the values' dimension");
      if (!isPlainAlongKeys(true, factor))
        return fail("its keys are moved along " + form.keys.name);
    }
    return true;
  }

  // ---- what is read of the state
  bool findReads() {
    for (int i : reached())
      if (isSum(nodes[i]) && !addRead(i))
        return false;
    return true;
  }
  std::vector<int> reached() const {
    std::vector<char> seen(nodes.size());
    for (size_t number = 0; number < body.yields.size(); ++number)
      if (number == 0 || shape.results.count(static_cast<int>(number)))
        seen[body.yields[number]] = 1;
    std::vector<int> found;
    for (size_t i = nodes.size(); i-- > 0;)
      if (seen[i]) {
        found.insert(found.begin(), static_cast<int>(i));
        for (int operand : nodes[i].operands)
          seen[operand] = 1;
      }
    return found;
  }

  bool addRead(int i) {
    const Node &sum = nodes[i];
    bool plain = sum.op == Op::Contract || sum.reduction == Reduction::Sum;
    if (!onState[i] || !plain || sum.names != std::vector<std::string>{form.keys.name})
      return fail("it has other sums than those of its state over " + form.keys.name);
    Product by;
    int at = -1;
    auto take = [&](const std::vector<int> &operands) {
      at = -1;
      for (int operand : operands)
        if (at < 0 && direct[operand])
          at = operand;
        else
          by.factors.push_back(operand);
      return at >= 0;
    };
    if (!take(sum.operands))
      return fail("it sums what it read of its state before");
    for (at = strip(at); at != 0 && at != updated; at = strip(at)) {
      const Node &node = nodes[at];
      if (node.op != Op::Neg && !isProduct(node))
        return fail("it reads something else than its state before or after the update");
      by.minus ^= node.op == Op::Neg;
      if (!take(node.operands))
        return fail("it reads something else than its state before or after the update");
    }
    ChunkRead read{i, at == updated, {}, {}};
    Product factors;
    if (!flatten(by, factors))
      return false;
    for (int factor : factors.factors)
      (hasKeys(factor) ? read.query : read.scale).factors.push_back(factor);
    read.scale.minus = factors.minus;
    if (!areKeys(read.query))
      return false;
    for (int factor : read.scale.factors)
      if (onState[factor] || hasLane(factor))
        return fail("what it reads of its state is not scaled by one number for each head");
    form.reads.push_back(read);
    return true;
  }

  // ---- what is written
  bool findWrite() {
    Product factors;
    if (!flatten(write, factors))
      return false;
    for (int factor : factors.factors)
      (hasKeys(factor) ? form.key : form.value).factors.push_back(factor);
    form.value.minus = factors.minus;
    if (!areKeys(form.key))
      return false;
    int reader = -1;
    for (int factor : form.value.factors)
      if (onState[factor]) {
        if (reader >= 0)
          return fail("what it writes depends on its state twice");
        reader = factor;
      }
    if (reader < 0)
      return true;
    for (size_t r = 0; r < form.reads.size(); ++r)
      if (reaches(reader, form.reads[r].node)) {
        if (form.inner >= 0)
          return fail("what it writes depends on more than one sum of its state");
        form.inner = static_cast<int>(r);
      }
    const ChunkRead &inner = form.reads[form.inner];
    form.rate.minus = form.value.minus;
    for (int factor : form.value.factors)
      if (factor != reader)
        form.rate.factors.push_back(factor);
    return takeRate(reader, inner.node) ||
           fail("what it writes is no multiple of a sum of its state, plus what does not depend on it");
  }
  bool reaches(int from, int node) const {
    std::vector<char> made(nodes.size());
    made[node] = 1;
    for (int i = node + 1; i <= from; ++i)
      for (int operand : nodes[i].operands)
        made[i] |= made[operand];
    return made[from] != 0;
  }
  /// What the read is multiplied by in a node.
  bool takeRate(int i, int read) {
    if (i == read)
      return true;
    const Node &node = nodes[i];
    if (isSame(node.op))
      return takeRate(node.operands[0], read);
    bool sum = node.op == Op::Add || node.op == Op::Sub;
    if (!sum && node.op != Op::Neg && !isProduct(node))
      return false;
    size_t on = node.operands.size() > 1 && onState[node.operands[1]] ? 1 : 0;
    if (on == 1 && onState[node.operands[0]])
      return false;
    form.rate.minus ^= node.op == Op::Neg || (node.op == Op::Sub && on == 1);
    if (isProduct(node))
      form.rate.factors.push_back(node.operands[1 - on]);
    return takeRate(node.operands[on], read);
  }

  bool fitOutputs() {
    for (auto [number, result] : shape.results)
      if (number > 0 && (direct[body.yields[number]] || hasKeys(body.yields[number])))
        return fail("its states themselves are results");
    return true;
  }
};
} // namespace

std::optional<std::string> recognise(const KernelGraph &graph, const ScanShape &shape, ChunkForm &form) {
  return Recogniser(graph, shape, form).run();
}

} // namespace quern::codegen::scan
