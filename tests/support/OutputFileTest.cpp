// Results reach devices, links and files as a shell's own redirection would, and whole.
#include "support/OutputFile.h"

#include "support/Error.h"
#include "support/Files.h"
#include "support/TemporaryFolder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace quern::support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// This thread's calls of the two functions below: what is left after a power cut follows from their order.
static thread_local std::vector<std::string> systemCalls;
extern "C" int fsync(int descriptor) {
  struct stat status;
  systemCalls.push_back(fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode) ? "fsync of a folder"
                                                                                   : "fsync of a file");
  return int(syscall(SYS_fsync, descriptor));
}
extern "C" int rename(const char *from, const char *to) noexcept {
  systemCalls.push_back("rename");
  return int(syscall(SYS_rename, from, to));
}

namespace {

class OutputFileTest : public ::testing::Test {
protected:
  TemporaryFolder folder;
  std::string at(const std::string &name) const { return folder.path() + "/" + name; }
  std::string failure(const std::string &path, size_t bytes = 1) {
    try {
      OutputFile file(path);
      file.write(std::string(bytes, 'x'));
      file.commit();
      return "";
    } catch (const UserError &error) {
      return error.what();
    }
  }
};

TEST_F(OutputFileTest, IsThereWholeOrNotAtAll) {
  writeFile(at("a"), "old");
  {
    OutputFile file(at("a"));
    file.write("new");
  }
  EXPECT_EQ(readFile(at("a")), "old");
  writeFile(at("a"), "new");
  EXPECT_EQ(readFile(at("a")), "new");
  EXPECT_THAT(namesIn(folder.path()), ElementsAre("a"));
}

TEST_F(OutputFileTest, IsOnTheDiskBeforeItHasItsName) {
  systemCalls.clear();
  writeFile(at("a"), "text");
  EXPECT_THAT(systemCalls, ElementsAre("fsync of a file", "rename", "fsync of a folder"));
}

TEST_F(OutputFileTest, WritesThroughDevices) {
  writeFile("/dev/null", "x");
  struct stat status;
  ASSERT_EQ(stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode)) << "the device was replaced by a file";
  EXPECT_THAT(failure("/dev/full"), HasSubstr("No space left"));
  // A device of another name, so that a broken writer does no harm to the machine.
  ASSERT_EQ(symlink("/dev/null", at("null").c_str()), 0);
  writeFile(at("null"), "x");
  ASSERT_EQ(lstat(at("null").c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
}

TEST_F(OutputFileTest, WritesThroughPipes) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = readFile(at("pipe")); });
  writeFile(at("pipe"), "through");
  reader.join();
  EXPECT_EQ(got, "through");
}

TEST_F(OutputFileTest, GoesOnWhereStandardOutputIs) {
  int file = open(at("log").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(write(file, "a", 1), 1);
  writeFile("/dev/fd/" + std::to_string(file), "b");
  ASSERT_EQ(write(file, "c", 1), 1);
  close(file);
  EXPECT_EQ(readFile(at("log")), "abc");
}

TEST_F(OutputFileTest, FollowsLinks) {
  ASSERT_EQ(symlink("there", at("link").c_str()), 0); // to nothing, yet
  writeFile(at("link"), "one");
  EXPECT_EQ(readFile(at("there")), "one");
  writeFile(at("link"), "two");
  struct stat status;
  ASSERT_EQ(lstat(at("link").c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  EXPECT_EQ(readFile(at("there")), "two");
}

TEST_F(OutputFileTest, KeepsAFilesMode) {
  writeFile(at("a"), "x");
  ASSERT_EQ(chmod(at("a").c_str(), 0640), 0);
  writeFile(at("a"), "y");
  struct stat status;
  ASSERT_EQ(stat(at("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  OutputFile program(at("a"), /*executable=*/true);
  program.commit();
  ASSERT_EQ(stat(at("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0750u) << "who may read may run";
}

TEST_F(OutputFileTest, ManyWritersOfOneFile) {
  std::vector<std::thread> writers;
  for (char c : std::string("abcdefgh"))
    writers.emplace_back([&, c] {
      for (int i = 0; i < 20; ++i)
        writeFile(at("one"), std::string(100'000, c));
    });
  for (std::thread &writer : writers)
    writer.join();
  std::string text = readFile(at("one"));
  EXPECT_EQ(text, std::string(100'000, text[0])) << "two results are mixed";
  EXPECT_THAT(namesIn(folder.path()), ElementsAre("one"));
}

TEST_F(OutputFileTest, RemovesWhatKilledWritersLeft) {
  pid_t child = fork();
  if (child == 0) {
    OutputFile file(at("a"));
    file.write("half");
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(namesIn(folder.path()).size(), 1u) << "the test does not leave what it should";
  OutputFile living(at("a"));
  writeFile(at("a"), "whole");
  living.write("last");
  living.commit();
  EXPECT_THAT(namesIn(folder.path()), ElementsAre("a"));
  EXPECT_EQ(readFile(at("a")), "last");
}

TEST_F(OutputFileTest, SaysWhatIsWrong) {
  EXPECT_THAT(failure(at("no/file")), HasSubstr("no/file: No such file"));
  EXPECT_THAT(failure(folder.path()), HasSubstr("it is a folder"));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit few{4096, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  std::string message = failure(at("long"), 10'000);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_THAT(message, HasSubstr("File too large"));
  EXPECT_FALSE(fileExists(at("long")));
}

TEST(TemporaryFolder, GoesAwayAlsoOfTheKilled) {
  TemporaryFolder base;
  setenv("TMPDIR", base.path().c_str(), 1);
  pid_t child = fork();
  if (child == 0) {
    TemporaryFolder left;
    writeFile(left.path() + "/x", "x");
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  ASSERT_EQ(namesIn(base.path()).size(), 1u);
  std::string left = base.path() + "/" + namesIn(base.path())[0];
  {
    TemporaryFolder soon;
  }
  EXPECT_TRUE(isFolder(left)) << "a folder this young may be one that is just being made";
  timespec old[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, left.c_str(), old, 0), 0);
  std::string own;
  {
    TemporaryFolder other;
    own = other.path();
    ASSERT_EQ(utimensat(AT_FDCWD, own.c_str(), old, 0), 0);
    TemporaryFolder next;
    EXPECT_TRUE(isFolder(own)) << "its process lives";
  }
  EXPECT_FALSE(isFolder(own));
  EXPECT_FALSE(isFolder(left));
  unsetenv("TMPDIR");
}

} // namespace
