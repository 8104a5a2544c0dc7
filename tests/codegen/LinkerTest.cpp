// The linker as a library: what it makes, and that what it refuses is a sentence after which it goes on.
#include "codegen/link/Linker.h"

#include "codegen/link/Link.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/OutputFile.h"
#include "support/TemporaryFolder.h"

#include <dlfcn.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace quern::codegen;
using testing::HasSubstr;
using testing::Not;

namespace {
class Linker : public testing::Test {
protected:
  std::string object(const std::string &name, const std::string &source) {
    std::string path = at(name);
    quern::support::writeFile(path + ".c", source);
    EXPECT_EQ(runCommand({"cc", "-O1", "-fPIC", "-ffunction-sections", "-c", "-o", path, path + ".c"}, error), 0)
        << error;
    return path;
  }
  std::string at(const std::string &name) const { return folder.path() + "/" + name; }
  std::string namesOf(const std::string &file) {
    std::string list = at("names");
    EXPECT_EQ(std::system(("nm '" + file + "' > '" + list + "' 2>&1").c_str()), 0);
    return quern::support::readFile(list);
  }
  /// What a shared library's function `name` returns.
  static int call(const std::string &library, const char *name) {
    void *opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_TRUE(opened) << dlerror();
    auto function = opened ? reinterpret_cast<int (*)()>(dlsym(opened, name)) : nullptr;
    EXPECT_TRUE(function) << name;
    int result = function ? function() : -1;
    if (opened)
      dlclose(opened);
    return result;
  }

  quern::support::TemporaryFolder folder;
  std::string error;
};
} // namespace

TEST_F(Linker, SharedLibrariesUseWhatTheProcessHas) {
  std::string one = object("one.o", "int strcmp(const char *, const char *); int two(void);\n"
                                    "int one(void) { return two() + (strcmp(\"a\", \"a\") == 0); }");
  std::string two = object("two.o", "int two(void) { return 2; }");
  ASSERT_TRUE(linkShared({one, two}, at("both.so"), error)) << error;
  EXPECT_EQ(call(at("both.so"), "one"), 3);
}

TEST_F(Linker, SaysWhatIsUndefinedAndGoesOn) {
  std::string lacks = object("lacks.o", "int absent_function(void); int main(void) { return absent_function(); }");
  EXPECT_FALSE(runLinker({"-e", "main", lacks}, at("program"), error));
  EXPECT_THAT(error, HasSubstr("linking failed: undefined symbol: absent_function"));
  EXPECT_THAT(error, HasSubstr("lacks.o"));
  EXPECT_FALSE(std::filesystem::exists(at("program")));

  EXPECT_FALSE(linkShared({at("missing.o")}, at("program"), error));
  EXPECT_THAT(error, HasSubstr("missing.o: No such file"));
  quern::support::writeFile(at("damaged.o"), "\177ELF and no more");
  EXPECT_FALSE(linkShared({at("damaged.o")}, at("program"), error));
  EXPECT_THAT(error, HasSubstr("damaged.o"));

  ASSERT_TRUE(linkShared({object("right.o", "int right(void) { return 5; }")}, at("right.so"), error)) << error;
  EXPECT_EQ(call(at("right.so"), "right"), 5);
}

TEST_F(Linker, APlaceThatCannotBeWrittenIsNamed) {
  std::string one = object("one.o", "int one(void) { return 1; }");
  EXPECT_FALSE(linkShared({one}, at("no folder/x.so"), error));
  EXPECT_THAT(error, HasSubstr("no folder/x.so"));
  EXPECT_TRUE(linkShared({one}, at("one.so"), error)) << error;
}

/// In a process of its own, where LLD cannot go on after it.
TEST_F(Linker, AFullDiskIsAnError) {
  std::string one = object("one.o", "int one(void) { return 1; }");
  auto link = [&] {
    try {
      linkShared({one}, "/dev/full", error);
    } catch (const quern::support::UserError &thrown) {
      std::fprintf(stderr, "%s\n", thrown.what());
      std::exit(linkShared({one}, at("one.so"), error) ? 4 : 3);
    }
    std::exit(5);
  };
  EXPECT_EXIT(link(), testing::ExitedWithCode(3), "cannot write /dev/full: .*No space left");
}

TEST_F(Linker, NamesAreReplaced) {
  std::string one = object("one.o", "int two(void); int one(void) { return two(); } int two(void) { return 7; }");
  ASSERT_TRUE(linkShared({one}, at("one.so"), error)) << error;
  std::filesystem::permissions(at("one.so"), std::filesystem::perms::owner_all);
  ASSERT_TRUE(renameSymbols(at("one.so"), {{"one", "first"}, {"absent", "other"}}, error)) << error;
  EXPECT_THAT(namesOf(at("one.so")), HasSubstr(" T first\n"));
  EXPECT_THAT(namesOf(at("one.so")), Not(HasSubstr(" one\n")));
  EXPECT_NE(std::filesystem::status(at("one.so")).permissions() & std::filesystem::perms::owner_exec,
            std::filesystem::perms::none);
  EXPECT_EQ(call(at("one.so"), "two"), 7);
}

TEST_F(Linker, ArchivesShowOnlyTheNamesThatAreKept) {
  std::string one = object("one.o", "int two(void) { return 7; } int one(void) { return two() + 1; }");
  ASSERT_TRUE(keepGlobals(one, {"one"}, error)) << error;
  ASSERT_TRUE(archiveObject(one, at("libone.a"), error)) << error;
  EXPECT_THAT(namesOf(at("libone.a")), HasSubstr(" T one\n"));
  EXPECT_THAT(namesOf(at("libone.a")), Not(HasSubstr(" T two\n")));
  ASSERT_TRUE(runLinker({"-shared", "-u", "one", at("libone.a")}, at("one.so"), error)) << error;
  EXPECT_EQ(call(at("one.so"), "one"), 8);
  EXPECT_FALSE(keepGlobals(at("missing.o"), {"one"}, error));
  EXPECT_THAT(error, HasSubstr("missing.o"));
  EXPECT_FALSE(archiveObject(at("missing.o"), at("libmissing.a"), error));
  EXPECT_THAT(error, HasSubstr("missing.o"));
}
