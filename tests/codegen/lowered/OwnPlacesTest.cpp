// Sums of a tile behind an array that is read where only the run knows.
#include "codegen/halide/lowered/OwnPlaces.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

using namespace Halide;
using namespace quern;

namespace {

constexpr int length = 32, rows = 3, steps = 5;

struct SumsBehindArray {
  ImageParam in{Float(32), 2, "in"}, at{Int(32), 1, "at"};
  Func out{"out"};
  Pipeline pipeline;

  SumsBehindArray() {
    Var x("x"), y("y");
    RDom k(0, in.dim(1).extent());
    Func array("array"), picked("picked"), sums("sums");
    array(x) = in(x, 0) * 2.0f;
    picked(y) = array(clamp(at(y), 0, 2 * length - 1));
    sums(x, y) = 0.0f;
    sums(x, y) += in(x, k) * in(y, k);
    out(x, y) = sums(x, y) + picked(y);
    out.bound(x, 0, length).vectorize(x, 8).unroll(x);
    array.compute_at(picked, y).bound_extent(x, 2 * length).vectorize(x, 8);
    picked.compute_at(out, y);
    sums.compute_at(out, y).vectorize(x, 8).unroll(x).update().reorder(x, k).vectorize(x, 8).unroll(x);
    pipeline = Pipeline(out);
  }
};

/// Lanes of what arrays are allocated as, by the beginning of their names.
struct Lanes : Internal::IRMutator {
  std::map<std::string, int> &lanes;
  explicit Lanes(std::map<std::string, int> &lanes) : lanes(lanes) {}
  using IRMutator::visit;
  Internal::Stmt visit(const Internal::Allocate *array) override {
    lanes[array->name.substr(0, array->name.find('$'))] = array->type.lanes();
    return IRMutator::visit(array);
  }
};

} // namespace

TEST(OwnPlaces, AreThoseOfSumsAlone) {
  SumsBehindArray made;
  std::map<std::string, int> lanes;
  codegen::giveOwnPlaces(made.pipeline);
  made.pipeline.add_custom_lowering_pass(new Lanes(lanes));
  made.pipeline.compile_to_module({made.in, made.at}, "sums");
  EXPECT_EQ(lanes, (std::map<std::string, int>{{"array", 1}, {"picked", 1}, {"sums", 16}}));
}

TEST(OwnPlaces, ValuesStayTheSame) {
  SumsBehindArray made;
  codegen::giveOwnPlaces(made.pipeline);
  Buffer<float> numbers(2 * length, steps), result(length, rows);
  Buffer<int> places(rows);
  numbers.fill([](int x, int step) { return float(x % 7 - step); });
  places.fill([](int y) { return 11 * y; });
  made.in.set(numbers);
  made.at.set(places);
  made.pipeline.realize(result);
  for (int y = 0; y < rows; ++y)
    for (int x = 0; x < length; ++x) {
      float expected = 2 * numbers(places(y), 0);
      for (int step = 0; step < steps; ++step)
        expected += numbers(x, step) * numbers(y, step);
      EXPECT_EQ(result(x, y), expected) << x << " " << y;
    }
}
