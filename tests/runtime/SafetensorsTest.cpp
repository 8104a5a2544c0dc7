// The safetensors reader against files that lie, and the writer against disks that are full.
#include "runtime/files/Safetensors.h"
#include "runtime/Error.h"
#include "runtime/weights/Checkpoint.h"
#include "support/OutputFile.h"
#include "tests/runtime/TestData.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

using namespace quern::runtime;
using namespace quern::runtime::test;
using testing::HasSubstr;

namespace {

std::string file(const std::string &header, size_t dataBytes) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<char *>(&length), 8) + header + std::string(dataBytes, '\1');
}

/// What reading says, or "" if it is content.
std::string complaint(const std::string &bytes) {
  try {
    for (const auto &[name, tensor] : readSafetensors(MappedFile::copy(bytes, "x.safetensors"))) {
      EXPECT_GE(tensor.data, reinterpret_cast<const uint8_t *>(0));
      // Every byte that a tensor claims can be read.
      uint8_t sum = 0;
      for (uint64_t i = 0; i < tensor.bytes; ++i)
        sum = uint8_t(sum + tensor.data[i]);
      (void)sum;
    }
    return "";
  } catch (const UserError &error) {
    EXPECT_THAT(error.what(), HasSubstr("x.safetensors"));
    return error.what();
  }
}

TEST(Safetensors, ReadsWhatTheFormatAllows) {
  EXPECT_EQ(complaint(file("{}", 0)), "");
  EXPECT_EQ(
      complaint(file(
          R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
          12)),
      "");
  EXPECT_EQ(complaint(file(R"({"a":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]}})", 0)), "");
  EXPECT_EQ(complaint(file(R"({"a":{"data_offsets":[0,3],"shape":[3],"dtype":"F8_E4M3"}})", 3)), "");
}

TEST(Safetensors, NamesWhatIsWrong) {
  const std::pair<std::string, const char *> cases[] = {
      {"", "too few"},
      {file("{}", 0).substr(0, 9), "claims 2 bytes"},
      {std::string(8, '\xff'), "claims"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"},
      {file("[]", 0), "'{'"},
      {file("{\"a\":}", 0), "no JSON"},
      {file("{} x", 0), "no JSON"},
      {file(std::string("{}\0garbage", 10), 0), "a zero byte at 10"},
      {file("{\"a\":{}}", 0), "lacks"},
      {file("{\"a\":{\"a\":{}}}", 0), "unknown field"},
      {file("{\"a\":[]}", 0), "a list"},
      {file("{\"a\":1}", 0), "a number"},
      {file(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4), "unknown dtype 'F31'"},
      {file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,5]}})", 4), "too many numbers"},
      {file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4), "not a range"},
      {file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4), "not a range"},
      {file(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "negative"},
      {file(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4), "no integer"},
      {file(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4), "a list"},
      {file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8), "needs 4 bytes"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4), "cut short"},
      {file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8), "hole"},
      {file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8), "belong to none"},
      {file(
           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
           12),
       "overlaps"},
      {file(
           R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           8),
       "twice"},
      {file(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}})", 0), "64 bits"},
      {file(R"({"a":{"dtype":"F64","shape":[9223372036854775807],"data_offsets":[0,0]}})", 0), "64 bits"},
      {file(R"({"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,0]}})", 0), "no integer"},
  };
  for (const auto &[bytes, says] : cases)
    EXPECT_THAT(complaint(bytes), HasSubstr(says)) << bytes.substr(std::min<size_t>(8, bytes.size()));
}

TEST(Safetensors, SurvivesEveryTruncation) {
  std::string whole = readFile(dataPath("bert/model.safetensors"));
  uint64_t header;
  std::memcpy(&header, whole.data(), 8);
  for (size_t size = 0; size < 8 + header + 16; ++size)
    EXPECT_NE(complaint(whole.substr(0, size)), "") << size;
  EXPECT_NE(complaint(whole.substr(0, whole.size() - 1)), "");
  EXPECT_NE(complaint(whole + "x"), "");
}

TEST(Safetensors, SurvivesRandomDamage) {
  std::string whole = readFile(dataPath("gpt2/model.safetensors"));
  uint64_t header;
  std::memcpy(&header, whole.data(), 8);
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    std::string damaged = whole;
    for (int k = 1 + int(random() % 4); k > 0; --k)
      damaged[random() % (8 + header)] = char(random());
    complaint(damaged); // an error or not, but no signal
  }
}

TEST(Safetensors, ConvertsEveryType) {
  auto tensor = [](Dtype dtype, const void *data, size_t bytes) {
    auto content = MappedFile::copy({static_cast<const char *>(data), bytes}, "x");
    return StoredTensor{dtype, {int64_t(bytes / dtypeBytes(dtype))}, content->data(), bytes, content};
  };
  float result[4];
  uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7c00};
  toFloat(tensor(Dtype::F16, halves, 8), 0, 4, result);
  EXPECT_EQ(result[0], 1);
  EXPECT_EQ(result[1], -2);
  EXPECT_EQ(result[2], std::ldexp(1.0f, -24));
  EXPECT_TRUE(std::isinf(result[3]));
  uint16_t brains[] = {0x3f80, 0xc040};
  toFloat(tensor(Dtype::BF16, brains, 4), 0, 2, result);
  EXPECT_EQ(result[0], 1);
  EXPECT_EQ(result[1], -3);
  double doubles[] = {0.5, -8};
  toFloat(tensor(Dtype::F64, doubles, 16), 1, 1, result);
  EXPECT_EQ(result[0], -8);
  int64_t longs[] = {5, int64_t(1) << 40};
  int32_t ints[2];
  toInt(tensor(Dtype::I64, longs, 16), 0, 1, ints);
  EXPECT_EQ(ints[0], 5);
  EXPECT_THROW(toInt(tensor(Dtype::I64, longs, 16), 0, 2, ints), UserError);
  EXPECT_THROW(toFloat(tensor(Dtype::I64, longs, 16), 0, 2, result), UserError);
  uint8_t flags[2];
  toBool(tensor(Dtype::I64, longs, 16), 0, 2, flags);
  EXPECT_EQ(flags[1], 1);
}

TEST(Safetensors, WritesWhatItReads) {
  std::string path = temporaryPath("round.safetensors");
  float a[] = {1, 2, 3};
  int32_t b[] = {7};
  writeSafetensors(path, {{"a \"b\"", Dtype::F32, {3, 1}, a}, {"n", Dtype::I32, {}, b}});
  auto tensors = readSafetensors(MappedFile::open(path));
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(std::memcmp(tensors.at("a \"b\"").data, a, 12), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors.at("a \"b\"").data) % 8, 0u);
  writeSafetensors(path, {{"n", Dtype::I32, {}, b}}); // over the old one
  EXPECT_EQ(readSafetensors(MappedFile::open(path)).size(), 1u);
}

TEST(OutputFile, LeavesNothingHalfWritten) {
  std::string path = temporaryPath("atomic.txt");
  writeText(path, "old");
  {
    OutputFile file(path);
    file.write("new", 3);
  }
  EXPECT_EQ(readFile(path), "old");
  size_t files = 0;
  for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator(folderOf(path)))
    files += entry.path().string().find("atomic") != std::string::npos;
  EXPECT_EQ(files, 1u);
  OutputFile file(path);
  file.write("new", 3);
  file.commit();
  EXPECT_EQ(readFile(path), "new");
  try {
    OutputFile full("/dev/full");
    full.write("x", 1);
    FAIL();
  } catch (const UserError &error) {
    EXPECT_THAT(error.what(), HasSubstr("No space left"));
  }
}

TEST(Checkpoint, OpensShards) {
  auto folder = TensorSource::open(dataPath("formats/llama-sharded"));
  auto index = TensorSource::open(dataPath("formats/llama-sharded/model.safetensors.index.json"));
  EXPECT_EQ(folder->names(), index->names());
  EXPECT_GT(folder->names().size(), 10u);
  std::string path = temporaryPath("x.safetensors.index.json");
  for (const auto &[text, says] : {std::pair{"{", "no valid index"},
                                   {R"({"weight_map":{"a":"../b"}})", "no file beside it"},
                                   {R"({"weight_map":{"a":"gone.safetensors"}})", "gone.safetensors"}}) {
    writeText(path, text);
    try {
      TensorSource::open(path);
      FAIL() << text;
    } catch (const UserError &error) {
      EXPECT_THAT(error.what(), HasSubstr(says));
    }
  }
}

TEST(Tail, FilesRideAtTheEndOfAProgram) {
  std::string path = temporaryPath("tail"), content = std::string(4096, 'x') + "hello";
  std::string table = R"({"files":[{"name":"tokenizer.json","offset":4096,"bytes":5}]})";
  uint64_t length = table.size();
  std::string footer(reinterpret_cast<char *>(&length), 8);
  writeText(path, content + table + footer + "QUERNTL1");
  auto files = readTail(path);
  EXPECT_EQ(files.at("tokenizer.json")->text(), "hello");
  writeText(path, content);
  EXPECT_TRUE(readTail(path).empty());
  length = 1 << 20;
  writeText(path, content + table + std::string(reinterpret_cast<char *>(&length), 8) + "QUERNTL1");
  EXPECT_THROW(readTail(path), UserError);
}

} // namespace
