// Takes: a kernel's loops as Halide has lowered them. Gives: the same, with sums of a tile allocated as vectors.
// Why: Halide puts an array where one of the same type was that is no longer needed. If that one was read at places that only the run
// knows, LLVM takes neither apart, and sums that registers have room for go through memory at every step.
#include "codegen/halide/lowered/OwnPlaces.h"

#include <set>
#include <string>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {

namespace {

bool isKnown(const Expr &index) {
  const Ramp *ramp = index.as<Ramp>();
  return ramp ? is_const(ramp->base) && is_const(ramp->stride) : is_const(index);
}

class Arrays : public IRVisitor {
public:
  std::set<std::string>
      unknown; ///< what is read or written at places that only the run knows, or has its address taken

private:
  using IRVisitor::visit;
  void visit(const Load *load) override {
    look(load->name, load->index);
    IRVisitor::visit(load);
  }
  void visit(const Store *store) override {
    look(store->name, store->index);
    IRVisitor::visit(store);
  }
  void visit(const Variable *variable) override {
    if (variable->type.is_handle())
      unknown.insert(variable->name);
  }
  void look(const std::string &name, const Expr &index) {
    if (!isKnown(index))
      unknown.insert(name);
  }
};

class Places : public IRMutator {
public:
  explicit Places(const std::set<std::string> &unknown) : unknown(unknown) {}

private:
  const std::set<std::string> &unknown;

  using IRMutator::visit;
  Stmt visit(const Allocate *array) override {
    constexpr int64_t largest = 4096; // in bytes, beyond what registers hold; Halide has up to 16 KiB on the stack
    const int64_t size = Allocate::constant_allocation_size(array->extents, array->name);
    if (size <= 0 || size * array->type.bytes() > largest || !array->type.is_scalar() ||
        array->memory_type == MemoryType::Heap || array->new_expr.defined() || unknown.contains(array->name))
      return IRMutator::visit(array);
    int lanes = 16;
    while (size % lanes)
      lanes /= 2;
    return Allocate::make(array->name, array->type.with_lanes(lanes), array->memory_type, {Expr(int32_t(size / lanes))},
                          array->condition, mutate(array->body), array->new_expr, array->free_function, array->padding);
  }
};

class OwnPlaces : public IRMutator {
public:
  using IRMutator::mutate;
  Stmt mutate(const Stmt &stmt) override {
    Arrays arrays;
    stmt.accept(&arrays);
    return Places(arrays.unknown).mutate(stmt);
  }
};

} // namespace

void giveOwnPlaces(Pipeline &pipeline) {
  pipeline.add_custom_lowering_pass(new OwnPlaces);
}

} // namespace quern::codegen
