// The meaning of a spec: one walk that checks every rule of docs/language.md and gives a Builder what is computed.
#ifndef QUERN_FRONTEND_CHECK_ELABORATOR_H
#define QUERN_FRONTEND_CHECK_ELABORATOR_H

#include "frontend/check/Builder.h"
#include "frontend/check/Config.h"
#include "frontend/syntax/Diagnostics.h"

#include <deque>

namespace quern::frontend {

/// A mistake: reported where the statement ends, which is then given up.
struct Failure {
  Diagnostic diagnostic;
};
/// The value of something already reported is needed: the statement is given up quietly.
struct Poisoned {};
/// A return (or what decides on one) failed: the whole block or function is given up.
struct Abandoned {};
/// The spec unfolds beyond all measure: everything is given up.
struct GiveUp {
  Diagnostic diagnostic;
};

using BlockTable = std::map<std::string, const BlockDecl *>;

struct Scope {
  Scope *parent = nullptr;
  const BlockTable *blocks = nullptr;
  bool numbered = false; // its dimensions get numbers: they are a block's own, or an inlined function's
  std::map<std::string, Value> values;
  std::map<std::string, DimRef> dims;

  DimRef dim(const std::string &name) const;
  Scope *holder(const std::string &name);
};

class Elaborator {
public:
  Elaborator(const Ast &spec, const Ast &library, const ConfigFile &config, Diagnostics &diagnostics, Builder &builder);
  /// Everything: config, all functions, then what is unused.
  void run();

  const ModelDecl *getModel() const { return model; }
  /// Config fields as bound, in order.
  const std::vector<std::pair<std::string, Value>> &getFields() const { return fields; }
  std::vector<std::string> tensorIgnores() const; ///< after `run`
  std::vector<std::string> configIgnores() const;

private:
  const Ast &spec, &library;
  const ConfigFile &config;
  Diagnostics &diagnostics;
  Builder &builder;
  const ModelDecl *model = nullptr;

  BlockTable libraryBlocks, fileBlocks, modelBlocks;
  std::map<std::string, const FunctionDecl *> functions;
  std::vector<std::pair<std::string, Value>> fields;
  std::map<std::string, std::set<std::string>> mentionedBy; // names of dimensions that a block of the model may mean

  // the function that is being walked
  std::deque<Dim> dims;
  unsigned serial = 0, counter = 0;
  DimRef batch = nullptr;
  Scope outerScope, modelScope;
  std::vector<std::string> ignoredTensors; // globs of the model
  struct Call {
    std::string name;
    Span at;
  };
  std::vector<Call> calls;
  std::vector<const BlockDecl *> blockStack;
  std::vector<const FunctionDecl *> functionStack;
  /// A stretch of a parameter's name: text with {LABEL}, and the dimensions meant.
  struct PathPart {
    std::string text;
    DimRefs stacked;
  };
  std::vector<std::vector<PathPart>> path; // alternatives for each level
  struct Iteration {
    const RepeatStmt *loop;
    int64_t number, begin, end; // begin <= number < end
    bool operator==(const Iteration &) const = default;
  };
  std::vector<Iteration> iterations; // those that are walked now, outermost first
  struct Site {
    std::vector<Span> at; // calls, then the statement
    std::vector<Iteration> iterations;
  };
  std::map<std::string, Site> sites;                                // full parameter name: who declared it first
  std::set<std::pair<const RepeatStmt *, std::string>> sharedByTwo; // parameters of the first two iterations of a loop
  std::set<const RepeatStmt *> sharing;                             // loops whose shared parameters were reported
  /// A scan whose body is being walked.
  struct Scanning {
    DimRef dim;
    const Scope *scope;
    std::set<std::string> named;    // anywhere in the body, for messages
    std::set<std::string> sliced;   // values from outside with the dimension
    std::set<std::string> assigned; // by the statements that ran
    std::set<std::string> fixed;    // parameters: the same at each position
  };
  std::vector<Scanning *> scans; // the innermost last
  size_t steps = 0, iterationCount = 0;
  const char *stackBase = nullptr;

  // Elaborator.cpp: declarations, config, functions
  void declarations();
  void bindConfig();
  Value boundField(const ConfigField &field);
  void prologue(const FunctionDecl *running);
  void function(const FunctionDecl &decl);
  void defaultFunction(const FunctionDecl &decl, const Parameter &parameter);
  void checkResultNames(const FunctionDecl &decl, const std::set<std::string> &parameters);
  std::vector<Tensor> functionBody(const FunctionDecl &decl, const std::map<std::string, Value> &arguments,
                                   bool inlined);
  Tensor spreadNumber(const Value &value, const TypeNode &type, Scope &scope, const Named &name);
  Tensor spread(const Value &value, const TypeNode &type, Scope &scope, const std::string &what, Span at);
  Tensor resultOf(const FunctionDecl &decl, const FunctionResult &result, const Value &value, Scope &scope);
  void report(Diagnostic diagnostic);
  [[noreturn]] void fail(const char *code, std::string message, Span at, std::vector<Note> notes = {}) const;
  template <typename Action> void guarded(Action action);
  void step(Span at);
  std::vector<Span> callSpans() const;

  // ElaborateStatements.cpp
  std::optional<Value> body(const Body &statements, Scope &scope);
  std::optional<Value> statement(const Stmt &stmt, Scope &scope);
  std::optional<Value> execute(const Stmt &stmt, Scope &scope);
  void poison(const Stmt &stmt, Scope &scope);
  void assign(const AssignStmt &stmt, Scope &scope);
  void declareDims(const DimStmt &stmt, Scope &scope);
  void repeat(const RepeatStmt &stmt, Scope &scope);
  bool runIteration(const Iteration &iteration, Scope &scope, std::set<std::string> &asTensors);
  void scan(const ScanStmt &stmt, Scope &scope);
  bool scanStep(const ScanStmt &stmt, Scope &scope, DimRef dim, const std::set<std::string> &named,
                std::map<std::string, Tensor> &states, const std::map<std::string, Tensor> &entry);
  bool carriedBy(const ScanStmt &stmt, Scope &scope, const std::string &name, const Tensor &entry, Tensor &state,
                 std::vector<Failure> &failures);
  void require(const RequireStmt &stmt, Scope &scope);
  bool condition(const Expr &expr, Scope &scope);

  // ElaborateParams.cpp
  void param(const ParamStmt &stmt, Scope &scope);
  void initOf(const ParamStmt &stmt, Scope &scope, ParamInfo &info);
  void noteSharing(const Site &first, const std::string &name);
  void claim(const ParamInfo &info, const ParamStmt &stmt);
  std::vector<PathPart> alternatives(const Path &path, Scope &scope);
  DimRefs stackedNow() const;

  // ElaborateExpressions.cpp
  Value eval(const Expr &expr, Scope &scope);
  Value evalString(const StringExpr &expr, Scope &scope);
  Value evalName(const NamedExpr &expr, Scope &scope);
  Value evalMember(const MemberExpr &expr, Scope &scope);
  /// A field of config.json, which so counts as read; null if there is none.
  static Value member(const Object &object, const std::string &name);
  Value evalUnary(const UnaryExpr &expr, Scope &scope);
  Value evalBinary(const Expr &expr, Scope &scope);
  Value evalChain(const ChainExpr &expr, Scope &scope);
  Value applyBinary(Op op, const Value &left, const Expr *leftExpr, const Expr &rightExpr, Scope &scope, Span at);
  Value combine(Op op, const Value &left, const Value &right, Span leftAt, Span rightAt, Span at);
  std::optional<Value> fold(Op op, const Value &left, const Value &right, Span at);
  Value logic(Op op, const Value &left, const Value &right, Span at);
  Tensor elementwise(Op op, const Value &left, const Value &right, Kind kind);
  Value single(Value value, Span at) const;
  Tensor tensorOf(const Value &value);
  Tensor tensorNamed(const Value &value, const std::string &user, Span at);
  Tensor asKind(Tensor tensor, Kind kind);
  Tensor expandTo(Tensor tensor, const DimRefs &dims);
  ir::Size checkedSize(Op op, const ir::Size &a, const ir::Size &b, Span at) const;
  int64_t listIndex(const Expr &item, Scope &scope);

  // ElaborateBrackets.cpp: dimensions, splitting and merging, [...]
  DimRef makeDim(const std::string &shown, const ir::Size &size, bool numbered, Span declared = {});
  DimRef fresh(const std::string &shown, const ir::Size &size) { return makeDim(shown, size, true); }
  DimRef label(const Expr &dim, Scope &scope, const std::string &like = "");
  DimRef labelNamed(const std::string &name, Span at, Scope &scope, const std::string &like = "");
  ir::Size extent(const Expr &dim, Scope &scope);
  std::vector<Note> declaredHere(DimRef dim) const;
  void apart(DimRef dim, Span at) const;
  const Scanning *scanOf(DimRef dim) const;
  void unscanned(DimRef dim, Span at) const;
  void batchIn(const Expr &dim, Scope &scope) const;
  Tensor renamed(Tensor tensor, const std::vector<std::pair<DimRef, DimRef>> &table);
  std::vector<Tensor> split(Tensor tensor, DimRef dim, const Expr &into, Scope &scope, Span at);
  std::vector<Tensor> splitGroup(Tensor tensor, DimRef dim, const Exprs &parts, Scope &scope, Span at);
  std::pair<Tensor, DimRef> merge(std::vector<Tensor> tensors, const Expr &from, Scope &scope, Span at,
                                  DimRef into = nullptr);
  std::pair<Tensor, DimRef> mergeSum(std::vector<Tensor> tensors, const Exprs &parts, Scope &scope, Span at,
                                     DimRef into);
  std::pair<Tensor, DimRef> mergeGroup(std::vector<Tensor> tensors, const Exprs &parts, Scope &scope, Span at,
                                       DimRef into);
  Value brackets(const IndexExpr &expr, Scope &scope);
  Tensor gather(const Tensor &value, const GatherItem &item, Scope &scope);
  std::pair<Tensor, DimRef> range(const Tensor &value, const RangeItem &item, Scope &scope);
  void fits(const Value &value, const TypeNode &type, Scope &scope, const std::string &what, Span at,
            const Tensor *given = nullptr, const std::map<std::string, std::string> *asked = nullptr);

  // ElaborateCalls.cpp
  Value call(const CallExpr &expr, Scope &scope);
  Value callFunction(const FunctionDecl &decl, const CallExpr &expr, Scope &scope);
  Value callBlock(const BlockDecl &decl, const CallExpr &expr, Scope &scope);
  std::map<std::string, Value> matched(const std::string &name, const std::vector<Parameter> &parameters,
                                       const CallExpr &expr, Scope &scope);
  struct Binding {
    DimRef inner;
    const Expr *given;
  };
  std::vector<Binding> bindFormals(const BlockDecl &decl, const CallExpr &expr, Scope &scope, Scope &inner,
                                   bool inModel, const DimRefs &stacked, std::map<std::string, Value> &given);
  bool mayAlias(const BlockDecl &decl, DimRef dim, bool inModel, const DimRefs &stacked);
  void bindParameters(const BlockDecl &decl, const CallExpr &expr, Scope &inner,
                      const std::map<std::string, Value> &original, std::map<std::string, Value> &given);
  std::vector<Value> results(const BlockDecl &decl, const CallExpr &expr, Scope &scope,
                             const std::vector<Binding> &bound, const Value &value, unsigned before);
  const std::set<std::string> &mentioned(const BlockDecl &decl);

  // ElaboratePrimitives.cpp
  Value primitive(const CallExpr &expr, Scope &scope);
  Value position(const CallExpr &expr, Scope &scope);
  Value overDims(const CallExpr &expr, std::vector<Value> values, Scope &scope);
  Value concat(const CallExpr &expr, const std::vector<Value> &values, Scope &scope);
  Value valuesOf(const CallExpr &expr, const std::vector<Value> &values, Scope &scope);
  Value topK(const CallExpr &expr, const Tensor &value, Scope &scope);
  DimRefs over(const CallExpr &expr, const DimRefs &dims, Scope &scope);
  Value pointwise(const CallExpr &expr, const std::vector<Value> &values);
  Value choose(const CallExpr &expr, const std::vector<Value> &values);
  Value staticUnary(const std::string &name, const Value &value, Span at);
  DimRef oneDim(const CallExpr &expr, Scope &scope);
};

/// Q035 for every value, parameter of a block and constant of the model that nothing reads.
void reportUnused(const Ast &spec, const ModelDecl &model, Diagnostics &diagnostics);

/// Whether a name is one of the language's primitives, which cannot be redefined.
bool isPrimitive(const std::string &name);
const std::vector<std::string> &primitiveNames();
bool isReduction(const std::string &name);
bool takesDims(const std::string &name);

} // namespace quern::frontend
#endif
