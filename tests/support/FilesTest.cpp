// Which files are one GGUF model.
#include "support/Files.h"
#include "support/OutputFile.h"
#include "support/TemporaryFolder.h"

#include <gtest/gtest.h>

using namespace quern::support;
using Paths = std::vector<std::string>;

TEST(Files, PartsAreKnownByTheirNames) {
  const Paths three = {"a/b-00001-of-00003.gguf", "a/b-00002-of-00003.gguf", "a/b-00003-of-00003.gguf"};
  for (const std::string &part : three)
    EXPECT_EQ(ggufParts(part), three);
  for (const char *alone : {"model.gguf", "-00001-of-00003.gguf", "a-00000-of-00003.gguf", "a-00004-of-00003.gguf",
                            "a-0001-of-00003.gguf", "a-00001-of-0000x.gguf", "a-00001-of-00003.safetensors", ""})
    EXPECT_EQ(ggufParts(alone), Paths{alone});
}

TEST(Files, AFolderIsItsOnlyModel) {
  TemporaryFolder folder("/tmp", "quern-checkpoint-files-");
  const std::string at = folder.path() + "/";
  EXPECT_EQ(ggufOf(folder.path()), "");
  writeFile(at + "b-00003-of-00003.gguf", "");
  writeFile(at + "b-00002-of-00003.gguf", "");
  writeFile(at + "readme.md", "");
  EXPECT_EQ(ggufOf(folder.path()), at + "b-00002-of-00003.gguf") << "what is missing is said by who reads it";
  writeFile(at + "c.gguf", "");
  EXPECT_EQ(ggufOf(folder.path()), "");
  EXPECT_EQ(ggufModels(folder.path()), (Paths{at + "b-00002-of-00003.gguf", at + "c.gguf"}));
  writeFile(at + "model.gguf", "");
  EXPECT_EQ(ggufOf(folder.path()), at + "model.gguf");
}
