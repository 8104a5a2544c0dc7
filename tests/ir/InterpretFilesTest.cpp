// `quern interpret` below its command line: files of tensors read and written, damaged ones refused, an encoder before
// its decoder, all misfits of a checkpoint reported at once.
#include "support/Error.h"
#include "tests/ir/Support.h"
#include "tools/interpret/Interpret.h"
#include "tools/interpret/InterpretSafetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

using namespace quern::ir;
using namespace quern::ir::test;
using namespace quern::tools;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

template <class T> OutputTensor tensor(std::string dtype, std::vector<int64_t> shape, std::vector<T> numbers) {
  return {std::move(dtype), std::move(shape),
          std::string(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(T))};
}

struct Files : testing::Test {
  Files() : folder(std::filesystem::temp_directory_path() / ("quern-interpret-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }
  ~Files() override { std::filesystem::remove_all(folder); }
  std::string at(const std::string &name) { return (folder / name).string(); }
  std::string put(const std::string &name, const std::string &bytes) {
    std::ofstream(at(name), std::ios::binary) << bytes;
    return at(name);
  }
  std::string bytes(const std::string &name) {
    std::ifstream file(at(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  /// A file with this header and so many bytes of data.
  std::string withHeader(std::string header, size_t data) {
    uint64_t length = header.size();
    std::string text(8, '\0');
    std::memcpy(text.data(), &length, 8);
    return put("made.safetensors", text + header + std::string(data, '\0'));
  }
  static std::string refusal(const std::string &path) {
    try {
      SafetensorsFiles files(path);
    } catch (const quern::support::UserError &error) {
      return error.what();
    }
    return "";
  }
  std::filesystem::path folder;
};

// ---- safetensors

TEST_F(Files, EveryTypeOfNumber) {
  writeSafetensors(at("x.safetensors"),
                   {{"f64", tensor<double>("F64", {2}, {1.5, -2})},
                    {"f32", tensor<float>("F32", {2}, {1.5, -2})},
                    {"f16", tensor<uint16_t>("F16", {5}, {0x3e00, 0xc000, 0x0001, 0x7c00, 0x8000})},
                    {"bf16", tensor<uint16_t>("BF16", {2}, {0x3fc0, 0xc000})},
                    {"i64", tensor<int64_t>("I64", {1, 2}, {7, -100})},
                    {"i32", tensor<int32_t>("I32", {1}, {-5})},
                    {"i16", tensor<int16_t>("I16", {1}, {-5})},
                    {"i8", tensor<int8_t>("I8", {1}, {-5})},
                    {"u8", tensor<uint8_t>("U8", {1}, {250})},
                    {"bool", tensor<uint8_t>("BOOL", {2}, {0, 1})},
                    {"scalar", tensor<float>("F32", {}, {4})},
                    {"empty", tensor<float>("F32", {0, 3}, {})}});
  SafetensorsFiles files(at("x.safetensors"));
  EXPECT_THAT(files.find("f64")->asDoubles(), ElementsAre(1.5, -2));
  EXPECT_THAT(files.find("f32")->asDoubles(), ElementsAre(1.5, -2));
  EXPECT_THAT(files.find("f16")->asDoubles(), ElementsAre(1.5, -2, 0x1p-24, inf, 0));
  EXPECT_THAT(files.find("bf16")->asDoubles(), ElementsAre(1.5, -2));
  EXPECT_THAT(files.find("i64")->asInts(), ElementsAre(7, -100));
  EXPECT_THAT(files.find("i64")->shape, ElementsAre(1, 2));
  EXPECT_THAT(files.find("i32")->asInts(), ElementsAre(-5));
  EXPECT_THAT(files.find("i16")->asInts(), ElementsAre(-5));
  EXPECT_THAT(files.find("i8")->asInts(), ElementsAre(-5));
  EXPECT_THAT(files.find("u8")->asInts(), ElementsAre(250));
  EXPECT_THAT(files.find("bool")->asInts(), ElementsAre(0, 1));
  EXPECT_THAT(files.find("scalar")->asDoubles(), ElementsAre(4));
  EXPECT_EQ(files.find("empty")->count, 0);
  EXPECT_FALSE(files.find("bool")->isFloat());
  EXPECT_TRUE(files.find("bf16")->isFloat());
  EXPECT_EQ(files.find("none"), nullptr);
}

TEST_F(Files, FoldersAndShards) {
  writeSafetensors(at("a.safetensors"), {{"x", tensor<float>("F32", {1}, {1})}});
  writeSafetensors(at("b.safetensors"), {{"y", tensor<float>("F32", {1}, {2})}});
  EXPECT_EQ(SafetensorsFiles(folder.string()).getTensors().size(), 2u) << "all files of the folder";
  put("model.safetensors.index.json", R"({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}})");
  EXPECT_EQ(SafetensorsFiles(folder.string()).getTensors().size(), 2u);
  EXPECT_EQ(SafetensorsFiles(at("model.safetensors.index.json")).getTensors().size(), 2u);
  put("model.safetensors.index.json", R"({"weight_map": {"x": "a.safetensors", "z": "a.safetensors"}})");
  EXPECT_THAT(refusal(folder.string()), HasSubstr("lists tensor 'z'"));
  put("model.safetensors.index.json", R"({"weight_map": {"x": "../a.safetensors"}})");
  EXPECT_THAT(refusal(folder.string()), HasSubstr("no file beside it"));
  put("model.safetensors.index.json", R"({"weight_map": 3})");
  EXPECT_THAT(refusal(folder.string()), HasSubstr("weight_map"));
  std::filesystem::remove(at("model.safetensors.index.json"));
  std::filesystem::copy(at("a.safetensors"), at("c.safetensors"));
  EXPECT_THAT(refusal(folder.string()), HasSubstr("'x' is stored twice"));
}

TEST_F(Files, LyingHeadersAreRefused) {
  auto entry = [](const char *dtype, const char *shape, const char *offsets) {
    return std::string(R"({"x": {"dtype": ")") + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" + offsets +
           "}}";
  };
  EXPECT_EQ(refusal(withHeader(entry("F32", "[2]", "[0, 8]"), 8)), "");
  EXPECT_THAT(refusal(withHeader(entry("F32", "[2]", "[0, 8]"), 7)), HasSubstr("cut short"));
  EXPECT_THAT(refusal(withHeader(entry("F32", "[3]", "[0, 8]"), 8)), HasSubstr("needs 12 bytes"));
  EXPECT_THAT(refusal(withHeader(entry("F32", "[2]", "[8, 0]"), 8)), HasSubstr("not a range"));
  EXPECT_THAT(refusal(withHeader(entry("F32", "[2]", "[-8, 0]"), 8)), HasSubstr("a negative number"));
  EXPECT_THAT(refusal(withHeader(entry("F32", "[-2]", "[0, 8]"), 8)), HasSubstr("a negative number"));
  EXPECT_THAT(refusal(withHeader(entry("F32", "[4611686018427387904, 4]", "[0, 8]"), 8)),
              HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(refusal(withHeader(entry("F32", "[4294967296, 1073741824]", "[0, 0]"), 8)),
              HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(refusal(withHeader(entry("Q4", "[2]", "[0, 8]"), 8)), HasSubstr("unknown dtype 'Q4'"));
  EXPECT_THAT(refusal(withHeader(R"({"x": 3})", 0)), HasSubstr("a number where"));
  EXPECT_THAT(refusal(withHeader("[", 0)), HasSubstr("does not begin with"));
  EXPECT_THAT(refusal(put("short.safetensors", "abc")), HasSubstr("too few for a header"));
  EXPECT_THAT(refusal(put("huge.safetensors", std::string(8, '\xff'))), HasSubstr("cut short"));
  EXPECT_THAT(refusal(at("none.safetensors")), HasSubstr("none.safetensors: No such file"));
}

TEST_F(Files, EveryTruncationIsRefused) {
  writeSafetensors(at("x.safetensors"),
                   {{"f", tensor<float>("F32", {2}, {1, 2})}, {"i", tensor<int64_t>("I64", {1}, {3})}});
  std::string whole = bytes("x.safetensors");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(refusal(put("cut.safetensors", whole.substr(0, length))), "") << length;
}

TEST_F(Files, CorruptedHeadersNeverCrash) {
  writeSafetensors(at("x.safetensors"),
                   {{"f", tensor<float>("F32", {2}, {1, 2})}, {"i", tensor<int64_t>("I64", {1}, {3})}});
  std::string whole = bytes("x.safetensors");
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::string damaged = whole;
    for (int n = random() % 4 + 1; n > 0; --n)
      damaged[random() % (whole.size() - 16)] = static_cast<char>(random());
    refusal(put("damaged.safetensors", damaged)); // refused or read: what must not happen is a signal
  }
}

TEST_F(Files, FailedWriteLeavesNothing) {
  EXPECT_THROW(writeSafetensors(at("none/x.safetensors"), {}), quern::support::UserError);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

// ---- whole runs

constexpr const char *pair = R"(
func.func @encode(%t: !quern.tensor<int[B, T]> {quern.name = "tokens"}) -> (!quern.tensor<real[B, T, D = 2]> {quern.name = "memory"}) {
  %w = quern.param [["old.w", "w"]] : !quern.tensor<real[V = 3, D = 2]>
  %r = quern.gather %w["V" = %t] : (!quern.tensor<real[V = 3, D = 2]>, !quern.tensor<int[B, T]>) -> !quern.tensor<real[B, T, D = 2]>
  return %r : !quern.tensor<real[B, T, D = 2]>
}
func.func @decode(%g: !quern.tensor<int[B, U]> {quern.name = "target"}, %m: !quern.tensor<real[B, S, D = 2]> {quern.name = "memory"}) -> (!quern.tensor<real[B, U]> {quern.name = "logits"}) {
  %s = quern.reduce sum %m over ["S", "D"] : (!quern.tensor<real[B, S, D = 2]>) -> !quern.tensor<real[B]>
  %r = quern.add %g, %s : (!quern.tensor<int[B, U]>, !quern.tensor<real[B]>) -> !quern.tensor<real[B, U]>
  return %r : !quern.tensor<real[B, U]>
})";

struct Runs : Files {
  Runs() {
    writeSafetensors(at("w.safetensors"), {{"w", tensor<float>("F32", {3, 2}, {1, 2, 3, 4, 5, 6})}});
    writeSafetensors(at("in.safetensors"), {{"tokens", tensor<int32_t>("I32", {1, 2}, {0, 2})},
                                            {"target", tensor<int64_t>("I64", {1, 3}, {10, 20, 30})}});
    options.weights = at("w.safetensors");
    options.input = at("in.safetensors");
    options.output = at("out.safetensors");
  }
  int run(const char *text = pair) {
    Module m(text);
    EXPECT_TRUE(m.module) << m.said;
    testing::internal::CaptureStderr();
    int status = interpretMain(*m.module, options);
    said = m.said + testing::internal::GetCapturedStderr();
    return status;
  }
  InterpretOptions options;
  std::string said;
};

TEST_F(Runs, EncoderThenDecoder) {
  ASSERT_EQ(run(), 0) << said;
  SafetensorsFiles out(options.output);
  EXPECT_THAT(out.find("memory")->asDoubles(), ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(out.find("memory")->shape, ElementsAre(1, 2, 2));
  EXPECT_THAT(out.find("logits")->asDoubles(), ElementsAre(24, 34, 44));
  EXPECT_EQ(out.find("logits")->dtype, "F64");
}

TEST_F(Runs, OneFunctionByName) {
  options.function = "decode";
  ASSERT_EQ(run(), 0) << said << "the memory comes from encode";
  writeSafetensors(options.input, {{"memory", tensor<double>("F64", {1, 1, 2}, {0.5, 0.25})},
                                   {"target", tensor<int64_t>("I64", {1, 1}, {1})}});
  options.weights = "";
  ASSERT_EQ(run(), 0) << said;
  EXPECT_THAT(SafetensorsFiles(options.output).find("logits")->asDoubles(), ElementsAre(1.75));
  options.function = "forward";
  EXPECT_EQ(run(), 1);
  EXPECT_THAT(said, HasSubstr("no function 'forward'; it has encode, decode"));
}

TEST_F(Runs, MistakesInInputs) {
  writeSafetensors(options.input, {{"words", tensor<int64_t>("I64", {1, 1}, {0})}});
  EXPECT_EQ(run(), 1);
  EXPECT_THAT(said, HasSubstr("unknown input 'words'; expected are tokens, target, memory"));
  writeSafetensors(options.input, {{"tokens", tensor<float>("F32", {1, 1}, {0})}});
  EXPECT_EQ(run(), 1);
  EXPECT_THAT(said, HasSubstr("'tokens' is of type F32, not int"));
  writeSafetensors(options.input, {{"tokens", tensor<int64_t>("I64", {1}, {0})}});
  EXPECT_EQ(run(), 1);
  EXPECT_THAT(said, HasSubstr("'tokens' is [1], but has 2 dimensions"));
  writeSafetensors(options.input,
                   {{"tokens", tensor<int64_t>("I64", {1, 1}, {3})}, {"target", tensor<int64_t>("I64", {1, 1}, {1})}});
  EXPECT_EQ(run(), 1);
  EXPECT_THAT(said, HasSubstr("Q028: position 3 along V, whose size is 3"));
  writeSafetensors(options.input, {{"tokens", tensor<int64_t>("I64", {1, 1}, {2})}});
  EXPECT_EQ(run(), 1);
  EXPECT_THAT(said, HasSubstr("input 'target' is missing"));
}

TEST_F(Runs, AllMisfitsOfTheWeightsAtOnce) {
  writeSafetensors(options.weights,
                   {{"x.0", tensor<float>("F32", {2}, {1, 2})}, {"y", tensor<int64_t>("I64", {2}, {1, 2})}});
  EXPECT_EQ(run(R"(
func.func @forward(%t: !quern.tensor<int[B, T]> {quern.name = "tokens"}, %g: !quern.tensor<int[B, U]> {quern.name = "target"}) -> !quern.tensor<int[B, T]> {
  %a = quern.param [["a", "b"]] : !quern.tensor<real[D = 2]>
  %x = quern.param [["x.{E}"]] : !quern.tensor<real[E = 2, D = 3]>
  %y = quern.param [["y"]] : !quern.tensor<real[D = 2]>
  return %t : !quern.tensor<int[B, T]>
})"),
            1);
  EXPECT_THAT(said, HasSubstr("the weights have no 'a' or 'b'"));
  EXPECT_THAT(said, HasSubstr("'x.0' is [2] in the weights, but [3] here"));
  EXPECT_THAT(said, HasSubstr("the weights have no 'x.1'"));
  EXPECT_THAT(said, HasSubstr("'y' is of type I64, not real"));
}

TEST_F(Runs, ErrorsShowTheUsersLineFirst) {
  put("m.quern", "quern 1\n\tx = words[V = tokens]\n");
  writeSafetensors(options.input, {{"tokens", tensor<int64_t>("I64", {1, 1}, {3})}});
  options.function = "encode";
  std::string text = pair, place = "loc(callsite(\"std.quern\":7:3 at \"" + at("m.quern") + "\":2:6))";
  text.insert(text.find("\n", text.find("quern.gather")), " " + place);
  EXPECT_EQ(run(text.c_str()), 1);
  EXPECT_THAT(
      said,
      HasSubstr(
          "m.quern:2:6: error Q028: position 3 along V, whose size is 3\n    \tx = words[V = tokens]\n    \t    ^\n"
          "  std.quern:7:3: note: inside the library's block\n"));
}

TEST_F(Runs, UnreadableFilesAreNamed) {
  options.weights = at("nowhere.safetensors");
  EXPECT_EQ(run(), 1);
  EXPECT_THAT(said, HasSubstr("nowhere.safetensors: No such file"));
}

} // namespace
