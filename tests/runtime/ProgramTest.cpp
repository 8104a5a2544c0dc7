// Whole programs without the compiler: subcommands on toy models, through the same entry as an emitted program's main.
#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/cli/JsonWriter.h"
#include "runtime/engine/Batch.h"
#include "runtime/engine/StopRules.h"
#include "tests/runtime/TestData.h"
#include "tests/runtime/ToyProgram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

using namespace quern::runtime;
using namespace quern::runtime::test;
using testing::HasSubstr;
using Json = nlohmann::json;

namespace {

struct Answer {
  int status;
  std::string out, err;
};

Answer run(const quern_program_table &table, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "toy");
  std::vector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  int status = runProgram(table, int(pointers.size()), pointers.data());
  std::fflush(stderr);
  return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

std::string list(const std::vector<int> &tokens) {
  std::string text;
  for (int token : tokens)
    text += (text.empty() ? "" : ",") + std::to_string(token);
  return text;
}

std::vector<int> expected(std::vector<int> text, int count) {
  std::vector<int> made;
  for (int i = 0; i < count; ++i) {
    made.push_back(toyNext(text));
    text.push_back(made.back());
  }
  return made;
}

class ToyTest : public testing::Test {
protected:
  std::string weights = writeToyWeights();
  std::string input = temporaryPath("in.safetensors"), output = temporaryPath("out.safetensors");
  void SetUp() override { std::filesystem::remove(output); }
  void writeInput(const std::string &name, Dtype dtype, std::vector<int64_t> shape, const void *data) {
    writeSafetensors(input, {{name, dtype, std::move(shape), data}});
  }
  Answer eval(const quern_program_table &table, std::vector<std::string> more = {}) {
    std::vector<std::string> all = {"eval", "--weights", weights, "--input", input, "--output", output};
    all.insert(all.end(), more.begin(), more.end());
    return run(table, all);
  }
};

TEST_F(ToyTest, GeneratesTheSameThroughTheCacheAndAnew) {
  for (std::vector<int> prompt :
       {std::vector<int>{3}, {1, 2, 3}, {5, 4, 3, 2, 1, 0, 9}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    // Up to 8 tokens and beyond: the epoch flips in the middle of some of these.
    std::vector<int> want = expected(prompt, 9);
    for (const char *how : {"--json", "--no-cache"}) {
      Answer answer =
          run(toyDecoder, {"generate", "--weights", weights, "--tokens", list(prompt), "-n", "9", "--json", how});
      ASSERT_EQ(answer.status, 0) << answer.err;
      EXPECT_EQ(Json::parse(answer.out)["tokens"].get<std::vector<int>>(), want) << how;
    }
  }
}

int likeliest(std::span<const float> logits) {
  return int(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TEST_F(ToyTest, ReadsLongTextsInChunksOfOneEpoch) {
  Program program(toyDecoder);
  auto loaded = Weights::load(program.description, TensorSource::open(weights));
  std::vector<int> text = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  for (int64_t chunk : {1, 3, 5, 100}) {
    Engine engine(program, *loaded);
    Sequence::Options options;
    options.chunk = chunk;
    Sequence sequence(engine, options);
    sequence.append(text);
    EXPECT_EQ(likeliest(sequence.logits()), toyNext(text)) << chunk;
    sequence.truncate(5); // back to another epoch
    EXPECT_EQ(likeliest(sequence.logits()), toyNext({text.begin(), text.begin() + 5}));
    sequence.append(9);
    sequence.append(2);
    sequence.truncate(6);
    EXPECT_EQ(likeliest(sequence.logits()), toyNext({1, 2, 3, 4, 5, 9}));
    sequence.truncate(0);
    sequence.append({4, 4});
    EXPECT_EQ(likeliest(sequence.logits()), toyNext({4, 4}));
  }
}

TEST_F(ToyTest, TextsJoinAndLeaveABatch) {
  Program program(toyBatch);
  auto loaded = Weights::load(program.description, TensorSource::open(weights));
  Engine engine(program, *loaded);
  Batch batch(engine);
  std::vector<std::unique_ptr<Sequence>> texts;
  auto begin = [&](std::vector<int> tokens) {
    texts.push_back(std::make_unique<Sequence>(engine));
    texts.back()->append(tokens);
    batch.add(*texts.back());
  };
  auto step = [&](int64_t rows) {
    int64_t before = toyRaggedRows;
    batch.step();
    EXPECT_EQ(toyRaggedRows - before, rows);
    for (const std::unique_ptr<Sequence> &text : texts) {
      std::vector<int> known = text->tokens();
      EXPECT_EQ(text->choose(), toyNext(known)) << testing::PrintToString(known);
    }
  };
  begin({3});
  begin({5, 4, 3});
  step(2 * 3); // read together, the shorter one padded
  step(2);
  begin({2, 7}); // shorter than the longest
  step(2 + 2);
  step(3);
  begin({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}); // longer: the others move to later slots
  step(3 + 12);
  EXPECT_EQ(texts[1]->tokens().size(), 8u);
  step(4);
  step(3 + 9);                    // text 1 has grown from 8 tokens to 9: only it is read again
  texts.erase(texts.begin() + 3); // the longest leaves
  step(3);
  batch.remove(*texts[0]); // goes on alone, with what it has read
  int64_t before = toyRaggedRows;
  for (int i = 0; i < 2; ++i) {
    std::vector<int> known = texts[0]->tokens();
    EXPECT_EQ(texts[0]->choose(), toyNext(known));
  }
  EXPECT_EQ(toyRaggedRows, before);
  batch.add(*texts[0]); // and comes back
  step(3);
  texts[0]->append({1, 2});   // more than one new token is read alone
  step(1 + 9);                // and text 2 has grown to 9
  while (texts[1]->hasRoom()) // to the last position
    batch.step(), texts[1]->choose();
}

TEST_F(ToyTest, GeneratesForSeveralPromptsAsForEachAlone) {
  std::vector<std::vector<int>> prompts = {{3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {4, 4}};
  for (const quern_program_table *program : {&toyBatch, &toyDecoder}) {
    std::vector<std::string> all = {"generate", "--weights", weights, "-n", "17", "--json", "--logprobs"};
    for (const std::vector<int> &prompt : prompts)
      all.insert(all.end(), {"--tokens", list(prompt)});
    Answer together = run(*program, all);
    ASSERT_EQ(together.status, 0) << together.err;
    std::istringstream lines(together.out);
    for (const std::vector<int> &prompt : prompts) {
      std::string line;
      std::getline(lines, line);
      Json result = Json::parse(line);
      int count = std::min(17, 25 - int(prompt.size()));
      EXPECT_EQ(result["tokens"].get<std::vector<int>>(), expected(prompt, count));
      EXPECT_EQ(result["logprobs"].size(), size_t(count));
      EXPECT_LT(result["logprobs"][0].get<double>(), 0);
    }
  }
}

TEST_F(ToyTest, StopsAtAString) {
  writeToyTokenizer();
  std::vector<int> made = expected({0, 1, 2}, 9);
  std::string text;
  for (int token : made)
    text += std::string(" ") + char('a' + token);
  std::string stop = text.substr(7, 3); // from the middle of a token on
  std::string want = text.substr(0, text.find(stop));
  for (const quern_program_table *program : {&toyBatch, &toyDecoder}) {
    std::vector<std::string> words = {"generate", "--weights", weights,  "-p",      "a b c",  "-n", "9",
                                      "--eos",    "ignore",    "--stop", "nowhere", "--stop", stop};
    EXPECT_EQ(run(*program, words).out, "a b c" + want + "\n");
    words.insert(words.end(), {"-p", "a b c"});
    EXPECT_EQ(run(*program, words).out, "a b c" + want + "\na b c" + want + "\n");
  }
}

TEST_F(ToyTest, TheGenerationConfigEndsTexts) {
  writeToyTokenizer();
  std::string path = temporaryPath("generation_config.json");
  int end = expected({0, 1, 2}, 3).back();
  writeText(path, R"({"eos_token_id": [99, )" + std::to_string(end) + R"(], "bos_token_id": 2})");
  std::vector<std::string> words = {"generate", "--weights", weights, "-n", "9", "--json", "-p"};
  words.push_back("a b c");
  EXPECT_EQ(Json::parse(run(toyDecoder, words).out)["tokens"].get<std::vector<int>>().back(), end);
  words.back() = ""; // begins as generation_config.json says, not config.json
  EXPECT_EQ(Json::parse(run(toyDecoder, words).out)["tokens"][0], toyNext({2}));
  words.insert(words.end(), {"--start-token", "3"});
  EXPECT_EQ(Json::parse(run(toyDecoder, words).out)["tokens"][0], toyNext({3}));
  writeText(path, "[]");
  EXPECT_THAT(run(toyDecoder, words).err, HasSubstr("generation_config.json"));
  std::filesystem::remove(path);
}

TEST_F(ToyTest, WithoutACacheWhereOnlyThatIsImpossible) {
  std::vector<std::string> words = {"generate", "--weights", weights, "--tokens", "1,2,3", "-n", "4", "--json"};
  Answer refused = run(toyWhole, words);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("sum[T] is not causal; --no-cache computes the whole text anew"));
  words.push_back("--no-cache");
  Answer answer = run(toyWhole, words);
  ASSERT_EQ(answer.status, 0) << answer.err;
  EXPECT_EQ(Json::parse(answer.out)["tokens"].get<std::vector<int>>(), expected({1, 2, 3}, 4));
}

TEST_F(ToyTest, CachesGrowWithWhatIsInThem) {
  Program program(toyDecoder);
  auto loaded = Weights::load(program.description, TensorSource::open(weights));
  Session session(program, *loaded);
  Cache cache;
  std::vector<std::vector<int>> rows = {{1, 2, 3, 4, 5, 6}, {9, 8, 7, 6, 5, 4}};
  for (int64_t t = 0; t < 6; ++t) {
    Value tokens = Value::ints({2, 1}, {rows[0][size_t(t)], rows[1][size_t(t)]});
    std::vector<int64_t> sizes = {2, 0, 1, t + 1 + t % 2, t}; // B, S, T, cap, past
    std::vector<Value> outputs = session.makeOutputs(1, sizes);
    session.call(1, sizes, {&tokens}, {&outputs[0]}, cache, t == 0);
    for (size_t b : {0, 1}) {
      const float *logits = outputs[0].reals() + b * 16;
      EXPECT_EQ(std::max_element(logits, logits + 16) - logits, toyNext({rows[b].begin(), rows[b].begin() + t + 1}));
    }
  }
}

TEST_F(ToyTest, WritesTextWithATokenizer) {
  std::string tokenizer = writeToyTokenizer();
  std::vector<int> made = expected({0, 1, 2}, 4);
  std::string want = "a b c";
  for (int token : made)
    want += std::string(" ") + char('a' + token);
  EXPECT_EQ(run(toyDecoder, {"generate", "--weights", weights, "-p", "a b c", "-n", "4", "--eos", "ignore"}).out,
            want + "\n");
  Answer json = run(toyDecoder, {"generate", "--weights", weights, "--tokenizer", tokenizer, "-p", "a b c", "-n", "4",
                                 "--json", "--eos", "ignore"});
  EXPECT_EQ(Json::parse(json.out)["text"].get<std::string>(), want.substr(5));
}

TEST_F(ToyTest, GeneratesFromASource) {
  Answer cached = run(toyPair, {"generate", "--weights", weights, "--tokens", "3,1,4,1,5", "-n", "6", "--json"});
  ASSERT_EQ(cached.status, 0) << cached.err;
  Answer anew =
      run(toyPair, {"generate", "--weights", weights, "--tokens", "3,1,4,1,5", "-n", "6", "--json", "--no-cache"});
  EXPECT_EQ(cached.out, anew.out);
  EXPECT_EQ(Json::parse(cached.out)["tokens"].size(), 6u);
}

TEST_F(ToyTest, SamplesTheSameForASeed) {
  auto sample = [&](const char *seed) {
    return run(toyDecoder, {"generate", "--weights", weights, "--tokens", "1,2", "-n", "12", "--temp", "1", "--top-k",
                            "8", "--top-p", "0.95", "--min-p", "0.01", "--seed", seed, "--json"})
        .out;
  };
  EXPECT_EQ(sample("1"), sample("1"));
  EXPECT_NE(sample("1"), sample("2"));
}

TEST_F(ToyTest, EvaluatesByName) {
  std::vector<int64_t> tokens = {1, 2, 3, 4, 5, 6};
  writeInput("tokens", Dtype::I64, {2, 3}, tokens.data());
  Answer answer = eval(toyDecoder);
  ASSERT_EQ(answer.status, 0) << answer.err;
  auto results = readSafetensors(MappedFile::open(output));
  ASSERT_EQ(results.size(), 1u);
  const StoredTensor &logits = results.at("logits");
  EXPECT_EQ(logits.shape, (std::vector<int64_t>{2, 3, 16}));
  std::vector<float> values(2 * 3 * 16);
  toFloat(logits, 0, int64_t(values.size()), values.data());
  for (int row : {0, 1}) {
    std::vector<int> text;
    for (int t = 0; t < 3; ++t) {
      text.push_back(int(tokens[size_t(row * 3 + t)]));
      auto begin = values.begin() + (row * 3 + t) * 16;
      EXPECT_EQ(std::max_element(begin, begin + 16) - begin, toyNext(text));
    }
  }
}

TEST_F(ToyTest, EvaluatesEncoderAndDecoder) {
  std::vector<int32_t> source = {1, 2, 3, 4, 5}, target = {2, 7, 8};
  writeSafetensors(input,
                   {{"tokens", Dtype::I32, {1, 5}, source.data()}, {"target", Dtype::I32, {1, 3}, target.data()}});
  Answer answer = eval(toyPair);
  ASSERT_EQ(answer.status, 0) << answer.err;
  auto results = readSafetensors(MappedFile::open(output));
  EXPECT_EQ(results.at("memory").shape, (std::vector<int64_t>{1, 5, 4}));
  EXPECT_EQ(results.at("logits").shape, (std::vector<int64_t>{1, 3, 16}));
  Answer missing = eval(toyPair, {"--function", "decode"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, HasSubstr("'memory' is missing"));
}

TEST_F(ToyTest, FillsInDefaultsAndMasks) {
  std::vector<int32_t> tokens = {1, 2, 3, 1, 2, 0};
  std::vector<uint8_t> mask = {1, 1, 1, 1, 1, 0};
  writeInput("tokens", Dtype::I32, {2, 3}, tokens.data());
  ASSERT_EQ(eval(toyEncoder).status, 0);
  auto plain = readSafetensors(MappedFile::open(output)).at("logits");
  writeSafetensors(input, {{"tokens", Dtype::I32, {2, 3}, tokens.data()}, {"mask", Dtype::BOOL, {2, 3}, mask.data()}});
  ASSERT_EQ(eval(toyEncoder).status, 0);
  auto masked = readSafetensors(MappedFile::open(output)).at("logits");
  EXPECT_EQ(std::memcmp(plain.data, masked.data, 16), 0);
  EXPECT_NE(std::memcmp(plain.data + 16, masked.data + 16, 16), 0);
}

TEST_F(ToyTest, Embeds) {
  writeToyTokenizer();
  Answer answer = run(toyEncoder, {"embed", "--weights", weights, "--json", "a b", "-p", "b a", "c d e f g h i j k"});
  ASSERT_EQ(answer.status, 0) << answer.err;
  Json results = Json::parse(answer.out)["results"];
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0]["embedding"], results[1]["embedding"]);
  EXPECT_EQ(results[2]["tokens"].size(), 6u); // cut to what the model has positions for
  Answer table = run(toyEncoder, {"embed", "--weights", weights, "--similarity", "a b", "b a"});
  EXPECT_THAT(table.out, HasSubstr("1.0000  1.0000"));
  Answer cosines = run(toyEncoder, {"embed", "--weights", weights, "--similarity", "--json", "a b", "c d e"});
  Json rows = Json::parse(cosines.out)["similarity"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_NEAR(rows[0][0].get<double>(), 1, 1e-6);
  EXPECT_EQ(rows[0][1], rows[1][0]);
}

TEST(JsonWriter, WritesWhatParsersRead) {
  JsonWriter json;
  json.object(JsonWriter::Lines::Elements).key("text").text("a \"b\" \\ \n\x01 \xff");
  json.key("numbers").list().whole(-3).real(double(0.1f)).real(INFINITY).thousandths(1234005).end();
  json.key("lists").list(JsonWriter::Lines::Elements).wholes({}).wholes({1, 2}).end();
  json.key("none").object().end().end();
  std::string text = json.take();
  EXPECT_EQ(text, "{\n\"text\": \"a \\\"b\\\" \\\\ \\u000a\\u0001 \xef\xbf\xbd\",\n\"numbers\": [-3, 0.100000001, "
                  "null, 1234.005],\n"
                  "\"lists\": [\n[],\n[1, 2]\n],\n\"none\": {}\n}\n");
  Json read = Json::parse(text);
  EXPECT_EQ(read["text"].get<std::string>(), "a \"b\" \\ \n\x01 \xef\xbf\xbd");
  EXPECT_EQ(read["numbers"][1].get<float>(), 0.1f);
}

TEST_F(ToyTest, BenchesAndTellsAboutItself) {
  Answer bench = run(toyDecoder, {"bench", "-p", "8", "-n", "4", "--json"});
  ASSERT_EQ(bench.status, 0) << bench.err;
  for (const char *part : {"prefill", "decode"}) {
    EXPECT_GT(Json::parse(bench.out)[part]["tokens_per_s"].get<double>(), 0);
    EXPECT_GT(Json::parse(bench.out)[part]["limit"]["value"].get<double>(), 0);
    EXPECT_GT(Json::parse(bench.out)[part]["ratio"].get<double>(), 0);
  }
  EXPECT_EQ(Json::parse(run(toyDecoder, {"info", "--json"}).out)["parameters"], 16 * 4 * 2 + 4);
  EXPECT_THAT(run(toyPair, {"info"}).out, HasSubstr("encode(tokens: int[B, S])"));
}

TEST_F(ToyTest, RefusesWithOneClearMessage) {
  std::vector<int32_t> tokens(30, 1), bad = {1, 16}, reals = {0, 0};
  auto generate = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "--weights", weights});
    return run(toyDecoder, more);
  };
  struct Case {
    Answer answer;
    std::vector<const char *> says;
  };
  std::vector<Case> cases;
  cases.push_back({generate({"--tokens", "1,16"}), {"16", "vocabulary"}});
  cases.push_back({generate({"--tokens", "1,-3"}), {"-3"}});
  cases.push_back({generate({"--tokens", "1,x"}), {"'x'"}});
  cases.push_back({generate({"--tokens", list(std::vector<int>(tokens.begin(), tokens.end()))}), {"30 tokens", "24"}});
  cases.push_back({generate({"--tokens", "1", "--temperatur", "1"}), {"--temperatur"}});
  cases.push_back({generate({"--tokens", "1", "--temp", "hot"}), {"--temp", "'hot'"}});
  cases.push_back({generate({"--tokens", "1", "-n"}), {"-n needs a value"}});
  cases.push_back({generate({"--tokens", "13,13", "-n", "2", "--json"}), {"toy.quern:7:2", "bad luck"}});
  cases.push_back({generate({"-p", "a", "--tokenizer", weights}), {"toy.safetensors", "tokenizer"}});
  cases.push_back({run(toyEncoder, {"generate", "--weights", weights, "--tokens", "1"}), {"sum[T] is not causal"}});
  cases.push_back({run(toyDecoder, {"embed", "--weights", weights, "a"}), {"no function goes from tokens"}});
  cases.push_back({run(toyDecoder, {"generat"}), {"'generat'", "did you mean 'generate'?"}});
  cases.push_back({run(toyDecoder, {}), {"usage"}});
  cases.push_back({run(toyDecoder, {"generate", "--tokens", "1", "--weights", "/nowhere.safetensors"}),
                   {"/nowhere.safetensors", "No such file"}});
  writeInput("words", Dtype::I32, {1, 2}, bad.data());
  cases.push_back({eval(toyDecoder), {"'words'", "'tokens' is missing", "tokens: int[B, T]"}});
  writeInput("tokens", Dtype::I32, {1, 2}, bad.data());
  cases.push_back({eval(toyDecoder), {"'tokens' holds 16", "from 0 to 15"}});
  cases.push_back({eval(toyDecoder, {"--function", "forwrad"}), {"'forwrad'", "did you mean 'forward'?"}});
  writeInput("tokens", Dtype::I32, {2}, bad.data());
  cases.push_back({eval(toyDecoder), {"tokens: int[B, T]", "[2]"}});
  writeInput("tokens", Dtype::F32, {1, 2}, reals.data());
  cases.push_back({eval(toyDecoder), {"tokens", "F32"}});
  writeInput("tokens", Dtype::I32, {1, 30}, tokens.data());
  cases.push_back({eval(toyDecoder), {"30 tokens", "24", "toy.quern:9:3"}});
  writeInput("tokens", Dtype::I32, {1, 2}, bad.data());
  bad[1] = 2;
  writeInput("tokens", Dtype::I32, {1, 2}, bad.data());
  cases.push_back({run(toyDecoder, {"eval", "--weights", weights, "--input", input, "--output", "/dev/full"}),
                   {"/dev/full", "No space left"}});
  cases.push_back({run(toyDecoder, {"eval", "--weights", weights, "--input", input, "--output", "/no/such/out"}),
                   {"/no/such/out"}});
  for (const Case &one : cases) {
    EXPECT_EQ(one.answer.status, 1) << one.answer.err;
    EXPECT_TRUE(one.answer.out.empty());
    for (const char *word : one.says)
      EXPECT_THAT(one.answer.err, HasSubstr(word));
  }
}

TEST_F(ToyTest, StopsWhereThePositionsEnd) {
  Answer answer = run(
      toyDecoder, {"generate", "--weights", weights, "--tokens", list(std::vector<int>(20, 1)), "-n", "50", "--json"});
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(Json::parse(answer.out)["tokens"].size(), 5u); // the last one needs no position
  EXPECT_THAT(answer.err, HasSubstr("24 positions"));
}

TEST(Processor, MissingFeaturesAreASentence) {
  static const char text[] =
      R"({"quern": 1, "model": "old", "cpu": ["sse2", "warpdrive"], "symbols": [], "functions": []})";
  quern_program_table table = {QUERN_ABI_VERSION, 0, text, sizeof(text) - 1, nullptr};
  Answer answer = run(table, {"generate", "--tokens", "1"});
  EXPECT_EQ(answer.status, 2);
  EXPECT_THAT(answer.err, HasSubstr("warpdrive"));
  const char *level = __builtin_cpu_supports("x86-64-v4")   ? "x86-64-v4"
                      : __builtin_cpu_supports("x86-64-v3") ? "x86-64-v3"
                                                            : "x86-64-v2";
  EXPECT_THAT(answer.err, HasSubstr(std::string("--target ") + level + ",")) << "what this processor runs";
  EXPECT_EQ(run(table, {"info"}).status, 0);
}

class StopTest : public testing::Test {
protected:
  std::string path = writeToyTokenizer();
  Tokenizer tokenizer = Tokenizer::parse(readFile(path), path);
  /// What is shown of these tokens, piece by piece.
  std::vector<std::string> shown(const StopRules &rules, const std::vector<int> &tokens, Stop reason) {
    StopCheck check(rules, &tokenizer, {0});
    std::vector<std::string> pieces;
    for (int token : tokens)
      if (!check.done())
        pieces.push_back(check.push(token));
    pieces.push_back(check.finish());
    EXPECT_EQ(check.reason(), reason);
    return pieces;
  }
};

TEST_F(StopTest, EndsBeforeAString) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(shown({{}, {"d e"}, 100}, {1, 3, 3, 4, 5}, Stop::String), (Pieces{" b", " ", "d ", "", ""}));
  EXPECT_EQ(shown({{}, {"d e"}, 100}, {1, 3}, Stop::No), (Pieces{" b", " ", "d"}));
  EXPECT_EQ(shown({{}, {"c", " b"}, 100}, {1, 2}, Stop::String), (Pieces{"", ""}));
  EXPECT_EQ(shown({{}, {}, 2}, {1, 2, 3}, Stop::Length), (Pieces{" b", " c", ""}));
  EXPECT_EQ(shown({{2}, {}, 9}, {1, 2, 3}, Stop::EndOfText), (Pieces{" b", "", ""}));
}

} // namespace
