// The Builder that writes the `quern` dialect: one func.func for each function of the spec.
#ifndef QUERN_FRONTEND_BUILD_MLIRBUILDER_H
#define QUERN_FRONTEND_BUILD_MLIRBUILDER_H

#include "frontend/build/NamedValue.h"
#include "frontend/check/Builder.h"
#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace quern::frontend {

class MlirBuilder : public Builder {
public:
  MlirBuilder(mlir::MLIRContext *context, mlir::Location moduleLocation);
  mlir::OwningOpRef<mlir::ModuleOp> take() { return std::move(module); }
  mlir::ModuleOp getModule() { return *module; }

  void place(Span at) override;
  void enterCall(Span at) override;
  void leaveCall() override;
  void named(const std::string &name, const Tensor &tensor, Span at) override;
  /// What the spec's statements name, in their order; valid until something is erased.
  std::vector<NamedValue> &getNamedValues() { return namedValues; }

  void beginFunction(const std::string &name) override;
  std::vector<Handle> inputs(const FunctionInfo &info) override;
  void endFunction(const std::vector<Tensor> &results) override;
  std::vector<Handle> beginIteration(const std::vector<Tensor> &carried) override;
  std::vector<Handle> endIteration(const std::vector<Tensor> &carried) override;
  void abandonIteration() override;
  std::vector<Handle> beginScan(DimRef dim, bool fromEnd, const std::vector<Tensor> &carried) override;
  Handle slice(Handle x) override;
  Handle scanPosition(DimRef dim) override;
  std::vector<Handle> endScan(const std::vector<std::optional<Tensor>> &carried,
                              const std::vector<Tensor> &made) override;
  void abandonScan() override;
  void leaveScans() override;
  void returnToScans() override;

  Handle constant(double value) override;
  Handle constant(int64_t value) override;
  Handle constant(bool value) override;
  Handle values(DimRef dim, const std::vector<double> &numbers) override;
  Handle size(const ir::Size &size) override;
  Handle index(DimRef dim) override;
  Handle param(const ParamInfo &info) override;

  Handle unary(UnaryOp op, Handle x) override;
  Handle binary(BinaryOp op, Handle a, Handle b) override;
  Handle where(Handle condition, Handle a, Handle b) override;

  Handle reduce(Reduction reduction, Handle x, const DimRefs &dims) override;
  Handle contract(Handle a, Handle b, const DimRefs &dims) override;
  Handle softmax(Handle x, const DimRefs &dims) override;
  Handle cumsum(Handle x, DimRef dim) override;
  Handle argmax(Handle x, DimRef dim) override;
  std::pair<Handle, Handle> topK(Handle x, DimRef from, DimRef into) override;

  Handle rename(Handle x, const std::vector<std::pair<DimRef, DimRef>> &table) override;
  Handle split(Handle x, DimRef dim, const DimRefs &into) override;
  Handle merge(Handle x, const DimRefs &dims, DimRef into) override;
  Handle cut(Handle x, DimRef dim, const ir::Size &offset, DimRef into) override;
  Handle concat(const std::vector<Handle> &parts, const DimRefs &axes, DimRef into) override;
  Handle unit(Handle x, DimRef into) override;
  Handle squeeze(Handle x, DimRef dim) override;
  Handle gather(Handle x, Handle positions, DimRef dim) override;
  Handle expand(Handle x, const DimRefs &dims) override;

private:
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Location location;
  std::vector<mlir::Location> callers; // of the calls that are open, the innermost last
  std::vector<ir::RepeatOp> loops;
  /// A scan whose body is being built; the operation is made when it is known what the body reads.
  struct Scan {
    DimRef dim;
    bool fromEnd;
    mlir::OpBuilder::InsertPoint outside;
    std::unique_ptr<mlir::Region> region = std::make_unique<mlir::Region>();
    mlir::SmallVector<mlir::Value> inits, slices;
    mlir::Value position;
  };
  std::vector<Scan> scans;
  std::vector<mlir::OpBuilder::InsertPoint> returns; // where building goes on after leaveScans
  mlir::func::FuncOp function;
  std::vector<std::string> resultNames;
  std::vector<NamedValue> namedValues;

  mlir::Location locationOf(Span at);
  ir::DimAttr dim(DimRef ref);
  mlir::SmallVector<ir::DimAttr> dims(const DimRefs &refs);
  ir::LabelAttr label(DimRef ref);
  mlir::ArrayAttr names(const DimRefs &refs);
  mlir::Value inOrder(const Tensor &tensor);
  template <typename Op, typename... Args> Handle make(Args &&...args);
};

/// Removes what nothing uses, in all functions: parameters that only another function reads, results thrown away.
void eraseUnused(mlir::ModuleOp module);

} // namespace quern::frontend
#endif
