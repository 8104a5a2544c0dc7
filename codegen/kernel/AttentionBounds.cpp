// Takes: the score expression of an attention. Gives: bounds on key - query outside of which every score is masked.
// Why bounds: half of a causal mask's scores would be computed to be thrown away.
//
//   where(s <= t + past, x, -inf)                   upper = past
//   x + where(s > t + past - 256, 0, -1e9)          lower = past - 255
//
// A finite mask is not nothing: a row that sees no key at all attends to what is masked. So its bounds count only where
// they provably leave every query a key; then e^(mask - score) is 0 in f32 unless a score is below -1e4 or so too.
#include "codegen/kernel/AttentionGradient.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace quern::codegen {

namespace {
/// coefficients * positions + terms + constant
struct Affine {
  std::map<std::string, int64_t> coefficients;
  Position constant;
  std::optional<ir::Size> ring; ///< holds only from this key on: before it are old positions in another order
};

class Bounds {
public:
  Bounds(const KernelGraph &graph, AttentionPattern &p) : graph(graph), p(p) {}
  /// Notes what follows for the positions where node `i` is not masked.
  void live(int i);
  /// The same for the positions where node `i`, made from e^score, is not zero.
  void nonzero(int i);
  bool everyRowSees() const;

  bool finite = false;  ///< some mask is a large negative number
  bool complete = true; ///< masks are nothing but the bounds that were noted
  bool masked = false;  ///< there is a mask
  bool swapped = false; ///< what is summed over are the queries of the softmax
private:
  std::optional<Affine> affine(int i) const;
  std::optional<Affine> combined(const std::optional<Affine> &a, const std::optional<Affine> &b, int64_t factor) const;
  bool isMask(int i, bool &isFinite) const;
  void holds(int condition, bool truth);
  void compare(const Node &node, bool truth);
  void note(const Affine &a, const Affine &b, int64_t slack);
  void tighten(std::optional<Position> &bound, const Position &value, bool smaller);

  const KernelGraph &graph;
  AttentionPattern &p;
};
} // namespace

static Position sum(const Position &a, const Position &b, int64_t factor) {
  Position out{a.size + b.size * ir::Size(factor), a.terms};
  for (auto [node, f] : b.terms)
    out.terms.emplace_back(node, f * factor);
  return out;
}

static bool neverNegative(const ir::Size &size) {
  return std::all_of(size.getTerms().begin(), size.getTerms().end(), [](const auto &term) { return term.second >= 0; });
}

std::optional<Affine> Bounds::combined(const std::optional<Affine> &a, const std::optional<Affine> &b,
                                       int64_t factor) const {
  if (!a || !b)
    return std::nullopt;
  Affine out = *a;
  for (const auto &[name, c] : b->coefficients)
    out.coefficients[name] += factor * c;
  out.constant = sum(a->constant, b->constant, factor);
  if (b->ring)
    out.ring = b->ring;
  return out;
}

std::optional<Affine> Bounds::affine(int i) const {
  const Node &node = graph.nodes[i];
  if (node.kind() != Kind::Int)
    return std::nullopt;
  switch (node.op) {
  case Op::Index:
    return Affine{{{node.dims[0].name, 1}}, {}, {}};
  case Op::Size:
    return Affine{{}, {node.size, {}}, {}};
  case Op::Const:
    return Affine{{}, {ir::Size(node.integer), {}}, {}};
  case Op::Add:
  case Op::Sub:
    return combined(affine(node.operands[0]), affine(node.operands[1]), node.op == Op::Add ? 1 : -1);
  case Op::Neg:
    return combined(Affine{}, affine(node.operands[0]), -1);
  case Op::Expand:
  case Op::Permute:
    return affine(node.operands[0]);
  case Op::Rename: {
    std::optional<Affine> x = affine(node.operands[0]);
    for (size_t n = 0; x && n < node.names.size(); ++n)
      if (auto entry = x->coefficients.extract(node.names[n])) {
        entry.key() = node.into[n].name;
        x->coefficients.insert(std::move(entry));
      }
    return x;
  }
  case Op::
      Where: { // where(slot < filled, an old position, slot + ...): positions in a ring (passes/IncrementalWindows)
    const Node &condition = graph.nodes[node.operands[0]];
    if (condition.op != Op::Compare || condition.predicate != Predicate::Lt ||
        graph.nodes[condition.operands[0]].op != Op::Index || graph.nodes[condition.operands[1]].op != Op::Size)
      break;
    std::optional<Affine> fresh = affine(node.operands[2]);
    if (fresh)
      fresh->ring = graph.nodes[condition.operands[1]].size;
    return fresh;
  }
  default:
    break;
  }
  // Data: a position for each row of the batch.
  bool ofHeads = std::all_of(node.dims.begin(), node.dims.end(), [&](const Dim &dim) {
    return std::any_of(p.heads.begin(), p.heads.end(), [&](const Dim &head) { return head.name == dim.name; });
  });
  return ofHeads ? std::optional<Affine>(Affine{{}, {{}, {{i, 1}}}, {}}) : std::nullopt;
}

/// Two bounds hold: the tighter counts, or the earlier where none is known to be.
void Bounds::tighten(std::optional<Position> &bound, const Position &value, bool smaller) {
  if (!bound) {
    bound = value;
    return;
  }
  if (!bound->terms.empty() || !value.terms.empty())
    return;
  if (neverNegative(smaller ? bound->size - value.size : value.size - bound->size))
    bound = value;
}

/// a - b + slack <= 0
void Bounds::note(const Affine &a, const Affine &b, int64_t slack) {
  std::optional<Affine> d = combined(a, b, -1);
  std::erase_if(d->coefficients, [](const auto &entry) { return entry.second == 0; });
  auto coefficient = [&](const Dim &dim) { return d->coefficients.count(dim.name) ? d->coefficients.at(dim.name) : 0; };
  d->constant.size = d->constant.size + ir::Size(slack);
  bool isUpper = d->coefficients.size() == 2 && coefficient(p.key) == 1 && coefficient(p.query) == -1;
  if (d->ring) {
    // All of the ring is looked at: an upper bound must let it through for every query, a lower one waits until there
    // is no ring.
    complete = false;
    std::optional<int64_t> spare = (ir::Size(0) - d->constant.size - *d->ring).constant();
    if (!d->constant.terms.empty() || (isUpper && !(spare && *spare >= -1)))
      return;
    p.ring = d->ring;
  }
  if (isUpper)
    return tighten(p.upper, sum({}, d->constant, -1), true);
  if (d->coefficients.size() == 2 && coefficient(p.key) == -1 && coefficient(p.query) == 1)
    return tighten(p.lower, d->constant, false);
  complete = false;
}

void Bounds::compare(const Node &node, bool truth) {
  Predicate predicate = node.predicate;
  if (!truth) {
    static const std::map<Predicate, Predicate> opposite = {
        {Predicate::Lt, Predicate::Ge}, {Predicate::Le, Predicate::Gt}, {Predicate::Gt, Predicate::Le},
        {Predicate::Ge, Predicate::Lt}, {Predicate::Eq, Predicate::Ne}, {Predicate::Ne, Predicate::Eq}};
    predicate = opposite.at(predicate);
  }
  int x = node.operands[0], y = node.operands[1];
  // |a| < b holds where both a and -a are below b.
  auto below = [&](Predicate one, Predicate other) { return predicate == one || predicate == other; };
  bool small = below(Predicate::Lt, Predicate::Le) && graph.nodes[x].op == Op::Abs;
  if (small || (below(Predicate::Gt, Predicate::Ge) && graph.nodes[y].op == Op::Abs)) {
    std::optional<Affine> inside = affine(graph.nodes[small ? x : y].operands[0]), limit = affine(small ? y : x);
    int64_t strict = below(Predicate::Lt, Predicate::Gt);
    if (inside && limit) {
      note(*inside, *limit, strict);
      note(*combined(Affine{}, inside, -1), *limit, strict);
      return;
    }
  }
  // Blocks of n positions: a // n <= b // n bounds a - b by n - 1.
  int64_t slack = 0;
  auto divisor = [&](int i) {
    const Node &division = graph.nodes[i];
    bool byNumber = division.op == Op::FloorDiv && graph.nodes[division.operands[1]].op == Op::Const;
    return byNumber ? graph.nodes[division.operands[1]].integer : 0;
  };
  if (divisor(x) > 0 && divisor(x) == divisor(y)) {
    slack = 1 - divisor(x);
    x = graph.nodes[x].operands[0], y = graph.nodes[y].operands[0];
    complete = false;
  }
  std::optional<Affine> a = affine(x), b = affine(y);
  if (!a || !b || predicate == Predicate::Ne) {
    complete = false;
    return;
  }
  bool strict = predicate == Predicate::Lt || predicate == Predicate::Gt;
  if (predicate != Predicate::Gt && predicate != Predicate::Ge)
    note(*a, *b, strict ? 1 : slack);
  if (predicate != Predicate::Lt && predicate != Predicate::Le)
    note(*b, *a, strict ? 1 : slack);
}

void Bounds::holds(int condition, bool truth) {
  const Node &node = graph.nodes[condition];
  if (node.op == Op::Not)
    return holds(node.operands[0], !truth);
  if (node.op == (truth ? Op::And : Op::Or) || node.op == Op::Expand || node.op == Op::Permute) {
    for (int operand : node.operands)
      holds(operand, truth);
    return;
  }
  if (node.op == Op::Compare)
    return compare(node, truth);
  complete &= node.op == Op::Const && (node.integer != 0) == truth;
}

/// Numbers from here on are masks: e^x of them is 0 beside any score.
static constexpr double finiteMask = -3e4;

bool Bounds::isMask(int i, bool &isFinite) const {
  const Node &node = graph.nodes[i];
  if (node.op == Op::Expand || node.op == Op::Permute)
    return isMask(node.operands[0], isFinite);
  if (node.op == Op::Neg) { // -inf may be the negative of a number
    const Node &of = graph.nodes[node.operands[0]];
    isFinite = of.op == Op::Const && of.kind() == Kind::Real && !std::isinf(of.numbers[0]);
    return of.op == Op::Const && of.kind() == Kind::Real && -of.numbers[0] <= finiteMask;
  }
  if (node.op != Op::Const || node.kind() != Kind::Real || !(node.numbers[0] <= finiteMask))
    return false;
  isFinite = !std::isinf(node.numbers[0]);
  return true;
}

void Bounds::live(int i) {
  const Node &node = graph.nodes[i];
  auto positive = [&](int n) {
    const Node &number = graph.nodes[n];
    return number.op == Op::Const && (number.kind() == Kind::Real ? number.numbers[0] > 0 : number.integer > 0);
  };
  switch (node.op) {
  case Op::Where: {
    bool isFinite = false;
    if (isMask(node.operands[2], isFinite)) {
      holds(node.operands[0], true);
    } else if (isMask(node.operands[1], isFinite)) {
      holds(node.operands[0], false);
    } else {
      return;
    }
    masked = true;
    finite |= isFinite;
    return live(isMask(node.operands[2], isFinite) ? node.operands[1] : node.operands[2]);
  }
  case Op::Add: // -inf + x is -inf for every score x
  case Op::Min:
    live(node.operands[0]);
    return live(node.operands[1]);
  case Op::Sub:
  case Op::Expand:
  case Op::Permute:
    return live(node.operands[0]);
  case Op::Div:
    if (positive(node.operands[1]))
      live(node.operands[0]);
    return;
  case Op::Mul:
    if (positive(node.operands[1]))
      live(node.operands[0]);
    else if (positive(node.operands[0]))
      live(node.operands[1]);
    return;
  default:
    return;
  }
}

/// For all queries t >= 0 some key is in [max(0, t + lower), min(S - 1, t + upper)].
bool Bounds::everyRowSees() const {
  if ((p.upper && !p.upper->terms.empty()) || (p.lower && !p.lower->terms.empty()))
    return false;
  bool fits = !p.upper || neverNegative(p.upper->size);
  fits &= !p.lower || neverNegative(p.key.size - p.query.size - p.lower->size);
  return fits && (!p.upper || !p.lower || neverNegative(p.upper->size - p.lower->size));
}

void Bounds::nonzero(int i) {
  const Node &node = graph.nodes[i];
  auto isZero = [&](int n) {
    const Node &number = graph.nodes[n];
    return number.op == Op::Const && number.kind() == Kind::Real && number.numbers[0] == 0;
  };
  switch (node.op) {
  case Op::Where:
    if (isZero(node.operands[2])) {
      holds(node.operands[0], true);
      nonzero(node.operands[1]);
    } else if (isZero(node.operands[1])) {
      holds(node.operands[0], false);
      nonzero(node.operands[2]);
    }
    return;
  case Op::Mul:
    nonzero(node.operands[0]);
    return nonzero(node.operands[1]);
  case Op::Neg:
  case Op::Div:
  case Op::Expand:
  case Op::Permute:
    return nonzero(node.operands[0]);
  case Op::Exp: {
    const Node &shifted = graph.nodes[node.operands[0]];
    swapped |= shifted.op == Op::Sub && graph.nodes[shifted.operands[1]].has(p.key.name);
    return live(node.operands[0]);
  }
  default:
    return;
  }
}

void findGradientBounds(const KernelGraph &graph, GradientPattern &pattern) {
  auto text = [](const std::optional<Position> &at) {
    std::string out = at ? at->size.str() : "-";
    for (auto [node, factor] : at ? at->terms : std::vector<std::pair<int, int64_t>>())
      out += " " + std::to_string(node) + "*" + std::to_string(factor);
    return out;
  };
  std::optional<AttentionPattern> same;
  for (const GradientSum &sum : pattern.sums) {
    AttentionPattern frame = pattern.frame;
    Bounds bounds(graph, frame);
    bounds.nonzero(sum.weights);
    AttentionPattern rows = frame; // as the softmax saw it
    if (bounds.swapped) {
      std::swap(rows.key, rows.query);
      rows.upper = frame.lower ? std::optional<Position>(::quern::codegen::sum({}, *frame.lower, -1)) : std::nullopt;
      rows.lower = frame.upper ? std::optional<Position>(::quern::codegen::sum({}, *frame.upper, -1)) : std::nullopt;
    }
    if (frame.ring || (bounds.finite && !(bounds.complete && Bounds(graph, rows).everyRowSees())))
      return;
    if (same && (text(same->upper) != text(frame.upper) || text(same->lower) != text(frame.lower)))
      return;
    same = frame;
  }
  pattern.frame = *same;
}

std::optional<std::string> findBounds(const KernelGraph &graph, AttentionPattern &p) {
  Bounds bounds(graph, p);
  bounds.live(p.score);
  if (bounds.finite && (p.upper || p.lower) && !(bounds.complete && bounds.everyRowSees())) {
    p.upper = p.lower = std::nullopt;
    return "masked scores are computed: a query that sees no key would attend to them, as the mask is a finite number; "
           "-inf "
           "lets them be skipped";
  }
  return std::nullopt;
}

} // namespace quern::codegen
