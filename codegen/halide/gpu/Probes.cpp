// Takes: a target with a device. Gives: a kernel that reads memory, and one that multiplies and adds in registers.
#include "codegen/halide/gpu/Probes.h"

#include "codegen/halide/gpu/JoinModules.h"

using namespace Halide;

namespace quern::codegen {
namespace {

constexpr int workItems = 256, chains = 8; // DeviceProbe.cpp has the second

Target targetOf(const CpuTarget &target) {
  return Target(target.halide + "-no_runtime-no_asserts-no_bounds_query-large_buffers");
}

/// `within`: what each element of `result` computes first, in registers.
Module compile(Func result, Func within, const Var &at, const std::vector<Argument> &arguments, const char *name,
               const CpuTarget &target) {
  Var group("group"), thread("thread");
  result.split(at, group, thread, workItems, TailStrategy::GuardWithIf).gpu_blocks(group).gpu_threads(thread);
  within.compute_at(result, thread);
  result.output_buffer().dim(0).set_min(0).set_stride(1);
  return result.compile_to_module(arguments, std::string("quern_probe_") + name, targetOf(target));
}

/// The sums of every `parts`-th number: neighbouring work-items read neighbours, as kernels do.
Module read(const CpuTarget &target) {
  Param<int> parts("parts"), iterations("iterations");
  ImageParam numbers(Float(32), 2, "numbers");
  numbers.dim(0).set_bounds(0, parts).dim(1).set_bounds(0, iterations).set_stride(parts);
  Var at("at");
  Func sum("sum"), result("sums");
  RDom iteration(0, iterations, "iteration");
  sum(at) = 0.0f;
  sum(at) += numbers(at, iteration);
  result(at) = sum(at);
  result.bound(at, 0, parts);
  return compile(result, sum, at, {parts, iterations, numbers}, "read", target);
}

/// Chains of products and sums that wait for themselves alone.
Module multiply(const CpuTarget &target) {
  Param<int> parts("parts"), iterations("iterations");
  Param<float> factor("factor"), added("added");
  Var at("at");
  Func chain("chain"), result("ends");
  RDom iteration(0, iterations, "iteration");
  std::vector<Expr> begin, next;
  for (int i = 0; i < chains; ++i)
    begin.push_back(cast<float>(at + i) * 1e-6f);
  chain(at) = Tuple(begin);
  Expr sum = 0.0f;
  for (int i = 0; i < chains; ++i) {
    next.push_back(chain(at)[i] * factor + added + cast<float>(iteration) * 0);
    sum += chain(at)[i];
  }
  chain(at) = Tuple(next);
  result(at) = sum;
  result.bound(at, 0, parts);
  return compile(result, chain, at, {parts, iterations, factor, added}, "multiply", target);
}

} // namespace

Module probeModule(const CpuTarget &target) {
  return joinModules("quern_probes", {read(target), multiply(target)});
}

} // namespace quern::codegen
