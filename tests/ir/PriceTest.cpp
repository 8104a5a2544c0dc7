// What operations take on a machine, and what a module was asked to be.
#include "Support.h"

#include "ir/analysis/Options.h"
#include "ir/analysis/Price.h"

#include <gtest/gtest.h>

using namespace quern::ir;
using namespace quern::ir::test;

namespace {

double at(const Size &size) {
  return static_cast<double>(size.evaluate([](const std::string &) { return 100; }));
}

TEST(Price, FollowsFromTheMachine) {
  Module m(R"(
func.func @f(%x: !quern.tensor<real[T, D = 64]>, %w: !quern.tensor<real[O = 32, D = 64]>, %i: !quern.tensor<int[T]>) {
  %0 = quern.contract %x, %w over ["D"] : (!quern.tensor<real[T, D = 64]>, !quern.tensor<real[O = 32, D = 64]>) -> !quern.tensor<real[T, O = 32]>
  %1 = quern.exp %0 : (!quern.tensor<real[T, O = 32]>) -> !quern.tensor<real[T, O = 32]>
  %2 = quern.add %1, %0 : (!quern.tensor<real[T, O = 32]>, !quern.tensor<real[T, O = 32]>) -> !quern.tensor<real[T, O = 32]>
  %3 = quern.cumsum %2 along "T" : (!quern.tensor<real[T, O = 32]>) -> !quern.tensor<real[T, O = 32]>
  return
})");
  quern::support::Machine machine;
  machine.products = 1000, machine.operations = 10, machine.bandwidth = 100;
  std::vector<double> seconds;
  for (mlir::Operation &op : m.function("f").front())
    seconds.push_back(secondsToCompute(&op, machine, at));
  EXPECT_EQ(seconds,
            (std::vector<double>{2 * 100 * 32 * 64 / 1000.0, 12 * 3200 / 10.0, 3200 / 10.0, 200 * 3200 / 10.0, 0}));
  EXPECT_EQ(secondsToMove(Storage::BF16, machine), 0.02);
  EXPECT_EQ(secondsToNarrow(Storage::F32, machine), 0);
  EXPECT_GT(secondsToNarrow(Storage::BF16, machine), 0);
}

TEST(Options, WhatIsWrittenIsRead) {
  Module m("");
  ProgramOptions plain = optionsOf(*m.module);
  EXPECT_FALSE(plain.train);
  EXPECT_EQ(plain.precision, Storage::F32);
  ProgramOptions asked;
  asked.train = true, asked.precision = Storage::BF16, asked.caches = Storage::BF16, asked.quantize = "int8,*head*=f32";
  asked.savingPrice = 1e-9, asked.segmentIterations = 3, asked.chunkRows = 48;
  setOptions(*m.module, asked);
  ProgramOptions read = optionsOf(*m.module);
  EXPECT_TRUE(read.trainsNarrow());
  EXPECT_EQ(read.caches, Storage::BF16);
  EXPECT_EQ(read.quantize, asked.quantize);
  EXPECT_EQ(read.savingPrice, 1e-9);
  EXPECT_EQ(read.segmentIterations, 3);
  EXPECT_EQ(read.chunkRows, 48);
  setOptions(*m.module, {});
  EXPECT_TRUE((*m.module)->getDiscardableAttrs().empty()) << "what is not asked for is not said";
}

} // namespace
