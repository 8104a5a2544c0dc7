// Schedules and targets: what is read, and what is said about what cannot be.
#include "codegen/schedule/Schedule.h"
#include "codegen/Targets.h"
#include "codegen/schedule/ChoosePlan.h"

#include <gtest/gtest.h>

using namespace quern::codegen;

static std::string failure(const std::string &text) {
  try {
    ScheduleTable table;
    table.add(text, "mine.txt");
    return "";
  } catch (const std::exception &error) {
    return error.what();
  }
}

TEST(Schedule, LaterLinesOverrideWhereTheyApply) {
  ScheduleTable table;
  table.add("contract : rows 5\ncontract inner > 100 outer < 50 : rows 3\n", "mine.txt");
  EXPECT_EQ(table.find("contract", {{"vector", 16}, {"inner", 200}, {"outer", 20}})["rows"], 3);
  EXPECT_EQ(table.find("contract", {{"vector", 16}, {"inner", 200}, {"outer", 60}})["rows"], 5);
}

TEST(Schedule, ProductsBeginWithTheLinesOfContract) {
  ScheduleTable table;
  table.add("dense : rows 4\ncontract : rows 5, row_block 3, alone 2", "mine.txt");
  std::map<std::string, int64_t> wanted = {{"rows", 4}, {"row_block", 3}}; // its own, though it stands before
  EXPECT_EQ(table.find("dense", {}), wanted);
  wanted["rows"] = 5;
  EXPECT_EQ(table.find("experts", {}), wanted);
}

/// Whoever overrides nothing has what the model chooses.
TEST(Schedule, NothingIsSaidWithoutAPerson) {
  for (const Family &family : families())
    EXPECT_TRUE(ScheduleTable::standard().find(std::string(family.name), {{"vector", 16}}).empty()) << family.name;
}

TEST(Schedule, MistakesHaveAPlace) {
  EXPECT_EQ(failure("map : work 1\nmatrix : rows 3"),
            "mine.txt:2: 'matrix' is no family; there are attend, attention, "
            "contract, dense, experts, gradient, grouped, map, row, scan, tile and threads");
  EXPECT_EQ(failure("map : work"), "mine.txt:1: 'work' has no number");
  EXPECT_EQ(failure("map : work x"), "mine.txt:1: work 'x' is not among 1 to 16777216");
  EXPECT_EQ(failure("contract : rows 0"), "mine.txt:1: rows '0' is not among 1 to 64");
  EXPECT_EQ(failure("contract : unroll 3"), "mine.txt:1: unroll '3' is not among 1, 2 ... 64");
  EXPECT_EQ(failure("map : wrk 1"), "mine.txt:1: 'wrk' is no number of map; there are work and most");
  EXPECT_EQ(failure("grouped iner > 3 : rows 1"), "mine.txt:1: 'iner' is no fact of grouped; there are vector, "
                                                  "registers, fused, threads, first, second, outer, inner, rows, "
                                                  "tile, bits, levels, row_bits, bytes, scaled, amx and parts");
  EXPECT_EQ(failure("map vector 3 : work 1"),
            "mine.txt:1: a condition reads FACT = NUMBER, FACT < NUMBER or FACT > NUMBER");
  EXPECT_EQ(failure("map work 3"), "mine.txt:1: a condition reads FACT = NUMBER, FACT < NUMBER or FACT > NUMBER");
}

TEST(Targets, NamesAndRefusal) {
  EXPECT_EQ(cpuTarget("x86-64-v3").vector, 8);
  EXPECT_NO_THROW(cpuTarget("native"));
  try {
    cpuTarget("z80");
    FAIL();
  } catch (const std::exception &error) {
    EXPECT_EQ(std::string(error.what()),
              "unknown target 'z80'; there are native, x86-64-v2, x86-64-v3, alderlake, x86-64-v4, "
              "cascadelake, icelake-server, znver4, sapphirerapids-noamx, sapphirerapids, opencl, cuda, vulkan");
  }
}

TEST(Layouts, PaddingStaysSmall) {
  ScheduleTable table = ScheduleTable::standard();
  CpuTarget cpu = cpuTarget("x86-64-v4");
  EXPECT_EQ(weightTile(768, 768, table, cpu), 64);
  EXPECT_EQ(weightTile(80, 768, table, cpu), 16);
  EXPECT_EQ(weightTile(3, 768, table, cpu), 16);
  EXPECT_EQ(weightTile(1, 768, table, cpu), 0);
}
