// Takes: names of dimensions and expressions for them. Gives: dimensions with their sizes, and whether they may mix.
// Why apart from brackets: declarations, types and calls ask for dimensions too.
#include "frontend/check/Elaborator.h"

namespace quern::frontend {

DimRef Elaborator::makeDim(const std::string &shown, const ir::Size &size, bool numbered, Span declared) {
  std::string label;
  for (char c : shown.substr(0, 40))
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
      label += c;
  if (label.empty() || std::isdigit(static_cast<unsigned char>(label[0])))
    label = "Unit" + label;
  if (numbered)
    label += "." + std::to_string(++counter);
  dims.push_back({label, shown, size, declared, ++serial, true});
  return &dims.back();
}

DimRef Elaborator::label(const Expr &dim, Scope &scope, const std::string &like) {
  if (dim.kind != Expr::DimName)
    fail("Q012", "a single dimension is needed here, not " + (dim.isDim() ? dimText(dim) : "an expression"), dim.at);
  return labelNamed(dim.as<NamedExpr>().name, dim.at, scope, like);
}

DimRef Elaborator::labelNamed(const std::string &name, Span at, Scope &scope, const std::string &like) {
  DimRef dim = scope.dim(name);
  if (!dim) {
    std::vector<std::string> known;
    for (Scope *s = &scope; s; s = s->parent)
      for (const auto &[other, unused] : s->dims)
        if (other.size() > 1 && name.size() > 2) // one-letter names are all alike
          known.push_back(other);
    std::string hint = didYouMean(name, known);
    static const std::map<std::string, std::string> otherWords = {
        {"True", "true"}, {"False", "false"}, {"None", "null"}};
    if (auto word = otherWords.find(name); word != otherWords.end())
      hint = "; the value is written " + word->second;
    if (hint.empty())
      hint = "; declare it first: dim " + name + " = " +
             (like.empty() || like.find_first_of("(+,") != std::string::npos ? "..." : like);
    fail("Q010", "unknown dimension " + name + hint, at);
  }
  if (dim == &poisonDim)
    throw Poisoned();
  if (!dim->sized)
    fail("Q010", name + " has no size here: it comes with the inputs of another function", at, declaredHere(dim));
  return dim;
}

ir::Size Elaborator::extent(const Expr &dim, Scope &scope) {
  if (dim.kind == Expr::Unit)
    return 1;
  if (dim.kind == Expr::DimName)
    return label(dim, scope)->size;
  if (dim.kind != Expr::Group && dim.kind != Expr::Sum)
    fail("Q012", "a dimension is needed here, not an expression", dim.at);
  const Exprs &parts = dim.as<ListExpr>().values;
  ir::Size total = extent(*parts[0], scope);
  for (size_t i = 1; i < parts.size(); ++i)
    total = checkedSize(dim.kind == Expr::Sum ? Op::Add : Op::Mul, total, extent(*parts[i], scope), dim.at);
  return total;
}

std::vector<Note> Elaborator::declaredHere(DimRef dim) const {
  return dim->declared ? std::vector<Note>{{dim->shown + " is declared here", dim->declared}} : std::vector<Note>();
}

/// The scan that a dimension is run through by; null: none.
const Elaborator::Scanning *Elaborator::scanOf(DimRef dim) const {
  for (const Scanning *scan : scans)
    if (dim && scan->dim == dim)
      return scan;
  return nullptr;
}

void Elaborator::unscanned(DimRef dim, Span at) const {
  if (scanOf(dim))
    fail("Q037",
         dim->shown + " is being scanned: inside, values stand at one position and have no dimension " + dim->shown,
         at);
  if (dim && scanOf(dim->twinOf))
    fail("Q037",
         dim->shown + " is a twin of " + dim->twinOf->shown +
             ", which is being scanned: a scan sees positions one after the other, and " + dim->shown +
             " would hold all of them",
         at, declaredHere(dim));
}

/// The batch: no row may see another. And what is being scanned: nothing sees more than one position.
void Elaborator::apart(DimRef dim, Span at) const {
  unscanned(dim, at);
  if (batch && dim == batch)
    fail("Q036",
         dim->shown +
             " is the batch, whose rows are independent: no index, reduction, gather or renaming of it outside loss",
         at);
}

void Elaborator::batchIn(const Expr &dim, Scope &scope) const {
  for (const std::string &name : dimNames(dim))
    apart(scope.dim(name), dim.at);
}

} // namespace quern::frontend
