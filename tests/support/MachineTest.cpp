// How numbers are stored, and what machines can do.
#include "support/Machine.h"
#include "support/Error.h"
#include "support/Storage.h"

#include <gtest/gtest.h>

#include <set>

using namespace quern::support;

namespace {

TEST(Storage, BytesAreAskedOfIt) {
  EXPECT_EQ(bytesOf(Storage::F32), 4);
  EXPECT_EQ(bytesOf(Storage::BF16), 2);
  EXPECT_EQ(bytesOf(Storage::U8), 1);
  EXPECT_EQ(bytesOf(Storage::F32, 100), 400);
  EXPECT_EQ(bytesOf(Storage::Int8, 64), 2 * (2 + 32));
  EXPECT_EQ(bytesOf(Storage::Int4, 65), 3 * (2 + 16)) << "the last group is filled up";
}

TEST(Storage, EachKindHasOneThatIsComputed) {
  for (Kind kind : {Kind::Real, Kind::Int, Kind::Bool}) {
    EXPECT_EQ(kindOf(storageOf(kind)), kind);
    EXPECT_TRUE(isComputed(storageOf(kind)));
    EXPECT_STREQ(elementName(storageOf(kind)), kindName(kind));
  }
  EXPECT_FALSE(isComputed(Storage::BF16));
  EXPECT_EQ(kindOf(Storage::Int4), Kind::Real) << "codes stand for reals";
}

TEST(Storage, NamesAreReadBack) {
  std::set<std::string> elements;
  for (size_t i = 0; i < std::size(storageForms); ++i) {
    auto storage = static_cast<Storage>(i);
    EXPECT_EQ(storageByName(storageName(storage)), storage);
    EXPECT_EQ(storageByElement(elementName(storage)), storage);
    elements.insert(elementName(storage));
  }
  EXPECT_EQ(elements.size(), std::size(storageForms));
  EXPECT_EQ(storageByElement("f32"), std::nullopt) << "a type says real";
  EXPECT_EQ(storageByName("real"), std::nullopt);
}

TEST(Machine, AsSomebodyGivesIt) {
  Machine machine = machineFrom("420,20.5");
  EXPECT_EQ(machine.products, 420e9);
  EXPECT_EQ(machine.bandwidth, 20.5e9);
  EXPECT_EQ(machine.known, Machine::Known::Given);
  for (const char *bad : {"", "420", "420,", ",20", "0,20", "420,-1", "420,20,1", "fast,20", "420;20"})
    EXPECT_THROW(machineFrom(bad), UserError) << bad;
}

TEST(Machine, ThisOneHasThreadsAndCaches) {
  Machine machine = thisMachine("here");
  EXPECT_EQ(machine.name, "here");
  EXPECT_GE(machine.threads, 1);
  EXPECT_EQ(machine.bandwidth, 0) << "nothing is measured";
}

} // namespace
