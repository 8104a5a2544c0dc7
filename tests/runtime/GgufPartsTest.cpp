// GGUF models in several parts: the same as in one file, and what may be wrong with the set.
#include "runtime/Error.h"
#include "runtime/gguf/Gguf.h"
#include "runtime/weights/Checkpoint.h"
#include "support/TemporaryFolder.h"
#include "tests/runtime/Damage.h"
#include "tests/runtime/GgufBuilder.h"
#include "tests/runtime/TestData.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace quern::runtime;
using namespace quern::runtime::test;
using testing::HasSubstr;

namespace {

/// What the parts say of themselves.
struct Split {
  uint32_t number = 0, count = 3, tensors = 4;
};

void add(GgufBuilder &file, const Split &split) {
  file.integer("split.no", split.number);
  file.integer("split.count", split.count);
  file.integer("split.tensors.count", split.tensors);
}

std::string first(const Split &split = {}) {
  GgufBuilder file("llama");
  file.integer("llama.block_count", 1);
  file.integer("llama.attention.head_count", 2);
  file.texts("tokenizer.ggml.tokens", {"a", "<s>"});
  file.integer("tokenizer.ggml.bos_token_id", 1);
  add(file, split);
  file.floats("token_embd.weight", {2, 3}, {1, 2, 3, 4, 5, 6});
  return file.file();
}
std::string second(const Split &split = {1}, const std::string &tensor = "blk.0.attn_norm.weight") {
  GgufBuilder file;
  add(file, split);
  file.floats(tensor, {3}, {7, 8, 9});
  file.tensor("blk.0.ffn_down.weight", 8, {32, 1}, std::string(34, '\1'));
  return file.file();
}
std::string third(const Split &split = {2}, const std::string &architecture = "llama") {
  GgufBuilder file(architecture);
  add(file, split);
  file.floats("output_norm.weight", {3}, {10, 11, 12});
  return file.file();
}

/// A folder with the parts of a model, by number; an empty one is not there.
class Folder {
public:
  explicit Folder(const std::vector<std::string> &parts) : folder("/tmp", "quern-gguf-parts-") {
    for (size_t i = 0; i < parts.size(); ++i)
      if (!parts[i].empty())
        writeText(path(i), parts[i]);
  }
  std::string path(size_t i) const { return folder.path() + format("/m-%05zu-of-00003.gguf", i + 1); }
  const std::string &name() const { return folder.path(); }

private:
  quern::support::TemporaryFolder folder;
};

std::string complaint(const std::vector<std::string> &parts, size_t given = 0) {
  Folder folder(parts);
  try {
    ggufTensors(GgufFile(MappedFile::open(folder.path(given))));
    return "";
  } catch (const UserError &error) {
    return error.what();
  }
}

std::map<std::string, std::shared_ptr<const MappedFile>> carried(const std::vector<std::string> &parts) {
  std::map<std::string, std::shared_ptr<const MappedFile>> files;
  for (size_t i = 0; i < parts.size(); ++i)
    files[i ? format("model-%05zu-of-00003.gguf", i + 1) : "model.gguf"] = MappedFile::copy(parts[i], "program");
  return files;
}

TEST(GgufParts, AnyPartIsTheWholeModel) {
  Folder folder({first(), second(), third()});
  for (size_t given = 0; given < 3; ++given) {
    const GgufFile file(MappedFile::open(folder.path(given)));
    EXPECT_EQ(file.file()->name(), folder.path(0));
    EXPECT_EQ(file.architecture(), "llama");
    EXPECT_EQ(file.integer("~.attention.head_count"), 2);
    const auto tensors = ggufTensors(file);
    EXPECT_EQ(tensors.size(), 4u);
    for (const auto &[name, part, value] : {std::tuple{"model.embed_tokens.weight", 0, 1.0f},
                                            {"model.layers.0.input_layernorm.weight", 1, 7.0f},
                                            {"model.layers.0.mlp.down_proj.weight", 1, 1.5318394e-05f},
                                            {"model.norm.weight", 2, 10.0f}}) {
      const StoredTensor &tensor = tensors.at(name);
      EXPECT_EQ(tensor.file->name(), folder.path(size_t(part)));
      float number = 0;
      toFloat(tensor, 0, 1, &number);
      EXPECT_EQ(number, value) << name;
    }
    EXPECT_EQ(textInside(folder.path(given), "tokenizer_config.json"), R"({"bos_token":"<s>"})");
  }
  EXPECT_EQ(TensorSource::open(folder.name())->names().size(), 4u) << "a folder that holds nothing else";
}

TEST(GgufParts, TheFirstMayHoldNoTensor) {
  GgufBuilder file("llama");
  add(file, {0, 3, 3});
  EXPECT_EQ(complaint({file.file(), second({1, 3, 3}), third({2, 3, 3})}), "");
}

TEST(GgufParts, AreCarriedByAProgram) {
  const auto files = carried({first(), second(), third()});
  EXPECT_EQ(TensorSource::open("program", files)->names().size(), 4u);
  EXPECT_EQ(textInside(files, "tokenizer_config.json"), R"({"bos_token":"<s>"})");
}

TEST(GgufParts, SayWhatIsWrong) {
  EXPECT_THAT(complaint({first(), "", third()}),
              HasSubstr("m-00002-of-00003.gguf, part 2 of 3 of a model, is not there"));
  EXPECT_THAT(complaint({"", second(), third()}, 2), HasSubstr("m-00001-of-00003.gguf, part 1 of 3"));
  EXPECT_THAT(complaint({first(), third(), second()}), "") << "the numbers inside are what counts";
  EXPECT_THAT(complaint({first(), third(), third()}),
              AllOf(HasSubstr("00002-of"), HasSubstr("00003-of-00003.gguf and "), HasSubstr("have the same split.no")));
  EXPECT_THAT(complaint({first(), second(), third({3})}), HasSubstr("00003-of-00003.gguf is no valid part"));
  EXPECT_THAT(complaint({first(), second(), GgufBuilder("llama").file()}),
              HasSubstr("00003-of-00003.gguf is no part of the same model"));
  EXPECT_THAT(complaint({first(), second({1, 4}), third()}), HasSubstr("its split.count is missing or another one"));
  EXPECT_THAT(complaint({first(), second({1, 3, 9}), third()}), HasSubstr("its split.tensors.count is missing"));
  EXPECT_THAT(complaint({first({0, 3, 9}), second({1, 3, 9}), third({2, 3, 9})}),
              HasSubstr("hold 4 tensors, but 9 by their split.tensors.count"));
  EXPECT_THAT(complaint({first(), second({1}, "output_norm.weight"), third()}),
              AllOf(HasSubstr("both hold tensor 'output_norm.weight'"), HasSubstr("00002-of"), HasSubstr("00003-of")));
  EXPECT_THAT(complaint({first(), second(), third({2}, "gemma")}),
              HasSubstr("its general.architecture is missing or another one"));
  EXPECT_THAT(complaint({first(), second(), "GGUX"}), HasSubstr("00003-of-00003.gguf is no valid GGUF file"));
  EXPECT_THAT(complaint({first({0, 70000}), "", ""}), HasSubstr("split.count is over 65535"));
  EXPECT_THAT(complaint({first({0, 4}), "", ""}), HasSubstr("must end in -00001-of-00004.gguf"));
  EXPECT_THAT(complaint({GgufBuilder("llama").file(), "", ""}), "") << "a whole file of such a name";
  EXPECT_THAT(complaint({GgufBuilder("llama").file(), second(), ""}), HasSubstr("is a whole one"));
  EXPECT_THAT([] { GgufFile(MappedFile::copy(second(), "renamed.gguf")); },
              testing::ThrowsMessage<UserError>(
                  HasSubstr("renamed.gguf is part 2 of 3 of a model, and the others are found by its name")));
}

TEST(GgufParts, SurviveDamage) {
  const std::vector<std::string> whole = {first(), second(), third()};
  for (size_t part = 0; part < whole.size(); ++part) {
    const auto tables = [&](const std::string &damaged) {
      std::vector<std::shared_ptr<const MappedFile>> files;
      for (size_t i = 0; i < whole.size(); ++i)
        files.push_back(MappedFile::copy(i == part ? damaged : whole[i], "program"));
      return ggufTensors(GgufFile(files));
    };
    useDamaged(whole[part], readingAll(tables, [](const StoredTensor &tensor, int64_t at) {
                 uint8_t room[64];
                 tensor.reader->block("Q8_0", at, 1, 32, room);
               }));
  }
}

} // namespace
