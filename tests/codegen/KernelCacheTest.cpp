// The cache of compiled kernels: what is kept comes back or is compiled again, whatever happened to the files.
#include "codegen/kernel/KernelCache.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/OutputFile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <utime.h>

using namespace quern;
using namespace quern::codegen;
namespace fs = std::filesystem;

namespace {
class Cache : public testing::Test {
protected:
  Cache() : folder(fs::path(testing::TempDir()) / ("quern-cache-" + std::to_string(getpid()))) {}
  ~Cache() override { fs::remove_all(folder); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto &entry : fs::directory_iterator(folder))
      all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
  }
  static void setAge(const fs::path &path, int seconds) {
    utimbuf times{time(nullptr) - seconds, time(nullptr) - seconds};
    ASSERT_EQ(utime(path.c_str(), &times), 0);
  }

  fs::path folder;
};
} // namespace

TEST_F(Cache, KeepsPartsByContent) {
  KernelCache cache(folder);
  std::string key = KernelCache::keyOf("a kernel");
  EXPECT_EQ(key.size(), 32u);
  EXPECT_NE(key, KernelCache::keyOf("another"));
  EXPECT_FALSE(cache.find(key));
  KernelCache::Parts parts = {std::string("\0code\n", 6), "", "scratch"};
  cache.keep(key, parts);
  EXPECT_EQ(cache.find(key), parts);
  bool found = false;
  EXPECT_EQ(cache.get(key, [] { return KernelCache::Parts{"compiled again"}; }, &found), parts);
  EXPECT_TRUE(found);
}

TEST_F(Cache, EveryFlippedBitIsNoticed) {
  KernelCache cache(folder);
  std::string key = KernelCache::keyOf("a kernel");
  KernelCache::Parts parts = {std::string(300, 'c'), "scratch"};
  cache.keep(key, parts);
  fs::path file = files().at(0);
  std::string whole = support::readFile(file.string());
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    writeWhole(file, damaged);
    ASSERT_FALSE(cache.find(key)) << "bit " << bit;
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    writeWhole(file, whole.substr(0, size));
    ASSERT_FALSE(cache.find(key)) << "cut to " << size;
  }
  bool found = true;
  EXPECT_EQ(cache.get(key, [&] { return parts; }, &found), parts);
  EXPECT_FALSE(found);
  EXPECT_EQ(support::readFile(file.string()), whole); // and repaired
}

TEST_F(Cache, LeftoversOfKilledCompilationsGo) {
  fs::create_directories(folder);
  fs::path killed = folder / ".0123.kernel.0123456789abcdef.tmp",
           writing = folder / ".4567.kernel.0123456789abcdef.tmp";
  writeWhole(killed, "half");
  writeWhole(writing, "half");
  int held = open(writing.c_str(), O_RDONLY);
  ASSERT_EQ(flock(held, LOCK_EX | LOCK_NB), 0); // as the one does that writes it
  {
    KernelCache cache(folder);
    EXPECT_FALSE(fs::exists(killed));
    EXPECT_TRUE(fs::exists(writing));
  }
  close(held);
  KernelCache cache(folder);
  EXPECT_FALSE(fs::exists(writing));
}

TEST_F(Cache, WhatWasNotUsedForLongestGoesFirst) {
  std::vector<std::string> keys;
  {
    KernelCache cache(folder);
    for (int i = 0; i < 4; ++i) {
      keys.push_back(KernelCache::keyOf(std::to_string(i)));
      cache.keep(keys[i], {std::string(10000, 'x')});
      setAge(folder / (keys[i] + ".kernel"), 1000 - i);
    }
    EXPECT_TRUE(cache.find(keys[0])); // used again
  }
  EXPECT_EQ(files().size(), 4u);
  {
    KernelCache cache(folder, 25000);
  }
  EXPECT_EQ(files().size(), 2u);
  KernelCache cache(folder);
  EXPECT_TRUE(cache.find(keys[0]));
  EXPECT_FALSE(cache.find(keys[1]));
  EXPECT_FALSE(cache.find(keys[2]));
  EXPECT_TRUE(cache.find(keys[3]));
}

TEST_F(Cache, ADiskWithoutRoomIsASentence) {
  KernelCache cache(folder);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit few{1000, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  std::string message;
  try {
    cache.keep(KernelCache::keyOf("large"), {std::string(10000, 'x')});
  } catch (const support::UserError &error) {
    message = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_NE(message.find("cannot write " + folder.string()), std::string::npos) << message;
  EXPECT_NE(message.find("name another folder with --cache-dir"), std::string::npos) << message;
  EXPECT_TRUE(files().empty());
}

TEST_F(Cache, ManyAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        KernelCache cache(folder, 30000); // evicts what others just wrote
        std::string text = std::to_string(i % 5), want(8000, text[0]);
        wrong +=
            cache.get(KernelCache::keyOf(text), [&] { return KernelCache::Parts{want}; }) != KernelCache::Parts{want};
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  for (const fs::path &file : files())
    EXPECT_FALSE(support::isUnfinished(file.filename().string())) << file;
}

TEST_F(Cache, SizeLimitIsANumber) {
  setenv("QUERN_CACHE_SIZE", "3", 1);
  EXPECT_EQ(KernelCache::sizeLimit(), 3u << 20);
  for (const char *text : {"", "much", "3x"}) {
    setenv("QUERN_CACHE_SIZE", text, 1);
    EXPECT_THROW(KernelCache::sizeLimit(), std::runtime_error) << text;
  }
  unsetenv("QUERN_CACHE_SIZE");
}
