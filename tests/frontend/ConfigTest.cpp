// config.json: spellings, overrides, sorts, and what is not used.
#include "Support.h"
#include "frontend/Architectures.h"
#include "frontend/Embedded.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

using namespace quern::frontend;
using namespace quern::frontend::testing;

namespace {

const std::string spec = R"(quern 1
model m {
  config {
    size @ "hidden" | "attn.size" = 4, layers = 2, eps = 1e-5, act = "relu", window = null
    rope = null, theta = rope.theta ?? 100.0, flag = false, entries = len(rope) if rope != null else 0
    ignore "training_*"
  }
  require entries < 3
  dim D = size
  act_used = act
  forward(x: [B, T, D]) -> [B, T, D] {
    repeat i in layers { x = x * eps }
    return (x if flag else x + theta) if window == null else activation(x, act_used)
  }
})";

Checked bound(std::optional<std::string> config, std::vector<Setting> settings, Outcome &outcome) {
  SpecInput input;
  input.name = "case.quern";
  input.text = spec;
  input.configText = std::move(config);
  input.settings = std::move(settings);
  Diagnostics diagnostics;
  Builder silent;
  Checked checked = checkSpec(input, diagnostics, silent);
  outcome = outcomeOf(diagnostics);
  return checked;
}

nlohmann::json fields(std::optional<std::string> config, std::vector<Setting> settings = {}) {
  Outcome outcome;
  Checked checked = bound(std::move(config), std::move(settings), outcome);
  EXPECT_EQ(outcome.text, "");
  return nlohmann::json::parse(checked.configJson);
}

TEST(Config, FieldsByNamesThatAreComputed) {
  auto of = [](const std::string &use) {
    return check(R"(quern 1
model m {
  config { layers = null, width = 4 }
  dim D = width
  forward(x: [B, T, D]) -> [B, T, D] {
    repeat i in 2 { x = x * ()" +
                     use + R"() }
    return x
  }
})",
                 R"({"layers": {"0": {"size": 2}, "1": {"size": 3, "other": 4}}})");
  };
  EXPECT_EQ(of(R"(layers["{i}"].size * (layers["{i + 1}"].other ?? 1))").text, ""); // what is so read is used
  EXPECT_NE(of(R"(layers["{i}"].size)").text.find("layers.1.other = 4"), std::string::npos);
  for (const char *wrong : {"layers[i].size", "layers[\"0\", \"1\"].size", "layers[D -> T].size"})
    EXPECT_EQ(of(wrong).codes, "Q018") << wrong;
}

TEST(Config, DefaultsSpellingsAndObjects) {
  EXPECT_EQ(fields({})["size"], 4);
  EXPECT_EQ(fields(R"({"hidden": 6})")["size"], 6);
  EXPECT_EQ(fields(R"({"attn": {"size": 7}})")["size"], 7);
  EXPECT_EQ(fields(R"({"hidden": null, "attn": {"size": 7}})")["size"], 7);
  EXPECT_EQ(fields(R"({"rope": {"theta": 5.5}})")["theta"], 5.5);
  EXPECT_EQ(fields(R"({"rope": null})")["theta"], 100.0);
  EXPECT_EQ(fields(R"({"rope": {"theta": 5.5, "training_x": 1}})")["entries"], 2);
}

TEST(Config, SortsAreThoseOfTheDefault) {
  EXPECT_EQ(fields(R"({"layers": 3.0})")["layers"], 3);
  EXPECT_EQ(fields(R"({"eps": 1})")["eps"], 1);
  EXPECT_EQ(fields(R"({"window": 12})")["window"], 12);
  Outcome outcome;
  for (const char *wrong :
       {R"({"layers": 2.5})", R"({"layers": true})", R"({"act": 3})", R"({"flag": 1})", R"({"hidden": "6"})"}) {
    bound(wrong, {}, outcome);
    EXPECT_EQ(outcome.codes, "Q041") << wrong << outcome.text;
  }
  EXPECT_NE(outcome.text.find("config.json:1:2: note: the file's value"), std::string::npos) << outcome.text;
}

TEST(Config, SettingsOverride) {
  EXPECT_EQ(fields(R"({"hidden": 6})", {{"size", "8"}})["size"], 8);
  EXPECT_EQ(fields(R"({"hidden": 6})", {{"hidden", "9"}})["size"], 9);
  EXPECT_EQ(fields({}, {{"attn.size", "5"}})["size"], 5);
  EXPECT_EQ(fields({}, {{"act", "gelu"}})["act"], "gelu");
  EXPECT_EQ(fields({}, {{"rope.theta", "7"}})["theta"], 7);
  EXPECT_EQ(fields(R"({"window": 3})", {{"window", "null"}})["window"], nullptr);
  Outcome outcome;
  bound({}, {{"sise", "8"}}, outcome);
  EXPECT_EQ(outcome.codes, "Q010");
  EXPECT_NE(outcome.text.find("did you mean 'size'?"), std::string::npos);
  Checked checked =
      bound(R"({"eos_token_id": 2})", {{"eos_token_id", "3"}}, outcome); // for the runtime: the library ignores it
  EXPECT_EQ(nlohmann::json::parse(checked.fileConfigJson)["eos_token_id"], 3);
}

TEST(Config, WarnsOfFieldsThatNothingReads) {
  Outcome outcome;
  bound(R"({"hidden": 4, "training_steps": 3, "torch_dtype": "float32", "extra": 1, "gone": null})", {}, outcome);
  EXPECT_EQ(outcome.warnings, 1u) << outcome.text;
  EXPECT_NE(outcome.text.find("config.json:1:62: warning Q043: config.json has extra = 1"), std::string::npos)
      << outcome.text;
  bound("{\"rope\": {\"theta\": 5.0,\n \"beta_fast\": 32}}", {}, outcome);
  EXPECT_NE(outcome.text.find("config.json:2:2: warning Q043: config.json has rope.beta_fast = 32"), std::string::npos)
      << outcome.text;
}

TEST(Config, TextPartOfAMultimodalModel) {
  const std::string config =
      R"({"hidden": 5, "pad_token_id": 7, "eos_token_id": 8, "tie_word_embeddings": false, "image_token": 9,
  "vision": {"hidden": 3}, "text_config": {"hidden": 6, "rope": {"theta": 5.5}, "extra": 1, "eos_token_id": 2, "tie_word_embeddings": true}})";
  Outcome outcome;
  Checked checked = bound(config, {}, outcome);
  EXPECT_EQ(nlohmann::json::parse(checked.configJson)["size"], 6);
  EXPECT_EQ(nlohmann::json::parse(checked.configJson)["theta"], 5.5);
  EXPECT_EQ(outcome.warnings, 2u) << "extra and tie_word_embeddings, nothing of the whole: " << outcome.text;
  EXPECT_NE(outcome.text.find("config.json:2:81: warning Q043: config.json has extra = 1"), std::string::npos)
      << outcome.text;
  const nlohmann::json file = nlohmann::json::parse(checked.fileConfigJson); // for the runtime
  EXPECT_EQ(file["eos_token_id"], 2);
  EXPECT_EQ(file["pad_token_id"], 7) << "where the part has none";
  EXPECT_EQ(file["tie_word_embeddings"], false) << "the whole says how its head is tied";
  EXPECT_FALSE(file.contains("vision"));
  EXPECT_EQ(nlohmann::json::parse(bound(config, {{"hidden", "9"}}, outcome).configJson)["size"], 9);

  // A spec of the whole names the part itself.
  const std::string whole = ("quern 1\nmodel m {\n  config { a @ \"hidden\" = 1, b @ \"text_config.hidden\" = 1 }\n  "
                             "require a == 5 and b == 6\n"
                             "  forward(tokens: int[B, T]) -> [B, T] { return real(tokens) }\n}\n");
  EXPECT_EQ(check(whole, R"({"hidden": 5, "text_config": {"hidden": 6}})").codes, "");
}

TEST(Config, InfinityInBothSpellings) {
  std::string spec = ("quern 1\nmodel m {\n  config { least = 0.0, most = [0.0, 1.0], name = \"\" }\n"
                      "  require least == -inf and most[1] == inf and name == \"Infinity\"\n"
                      "  forward(tokens: int[B, T]) -> [B, T] { return real(tokens) }\n}\n");
  for (const char *config :
       {R"({"least": -Infinity, "most": [0.0, Infinity], "name": "Infinity"})",
        R"({"least": {"__float__": "-Infinity"}, "most": [0.0, {"__float__": "Infinity"}], "name": "Infinity"})"})
    EXPECT_EQ(check(spec, config).codes, "") << check(spec, config).text;
  Outcome broken = check(spec, "{\"most\": [0.0, Infinity],\n \"name\" 3}");
  EXPECT_NE(broken.text.find(":2:9: error Q041"), std::string::npos) << broken.text; // the place in the file
}

TEST(Config, HostileFilesAreRefused) {
  Outcome outcome;
  bound("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", {}, outcome);
  EXPECT_EQ(outcome.codes, "Q041");
  bound(std::string(100000, '['), {}, outcome);
  EXPECT_EQ(outcome.codes, "Q041");
  bound("\xff\xfe", {}, outcome);
  EXPECT_EQ(outcome.codes, "Q041");
}

TEST(Architectures, FindTheSpecOfACheckpoint) {
  auto found = [](const std::string &config) {
    Diagnostics diagnostics;
    auto known = findArchitecture(config, "config.json", diagnostics);
    return known ? known->architecture->spec + (known->otherClass.empty() ? "" : " but " + known->otherClass)
                 : outcomeOf(diagnostics).codes;
  };
  EXPECT_EQ(found(R"({"architectures": ["LlamaForCausalLM"]})"), "llama");
  EXPECT_EQ(found(R"({"architectures": ["BertModel"], "model_type": "bert"})"), "sentence");
  EXPECT_EQ(found(R"({"model_type": "gpt_bigcode"})"), "gpt_bigcode");
  EXPECT_EQ(found(R"({"model_type": "t5"})"), "t5");
  EXPECT_EQ(found(R"({"model_type": "t5", "architectures": ["T5EncoderModel"]})"), "sentence_t5");
  EXPECT_EQ(found(R"({"model_type": "mpnet"})"), "sentence");
  EXPECT_EQ(found(R"({"model_type": "bert", "architectures": ["BertForTokenClassification"]})"),
            "bert but BertForTokenClassification");
  EXPECT_EQ(found(R"({"model_type": "wav2vec2"})"), "Q010");
  EXPECT_EQ(found(R"({"architectures": [3], "model_type": {}})"), "Q010");
  EXPECT_EQ(found("oops"), "Q041");
  EXPECT_EQ(found("[]"), "Q041");
  for (const auto &[fixture, name] : fixtures())
    EXPECT_EQ(found(read(dataDir() / fixture / "config.json")), name) << fixture;
}

TEST(Architectures, TextPartsAreFound) {
  Diagnostics diagnostics;
  auto found = [&](const std::string &config) { return findArchitecture(config, "config.json", diagnostics); };
  auto part = found(
      R"({"architectures": ["AriaForConditionalGeneration"], "model_type": "aria", "text_config": {"model_type": "llama"}})");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->architecture->spec + " " + part->foundBy + " " + part->whole,
            "llama llama AriaForConditionalGeneration");
  EXPECT_EQ(part->otherClass, "");
  auto known = found(R"({"architectures": ["SiglipModel"], "text_config": {"model_type": "llama"}})");
  ASSERT_TRUE(known);
  EXPECT_EQ(known->architecture->spec + known->whole, "siglip") << "a spec of the whole comes first";
  EXPECT_FALSE(found(R"({"model_type": "aria", "text_config": {"model_type": {}}})"));
  EXPECT_FALSE(found(R"({"model_type": "aria", "text_config": [3]})"));
}

TEST(Architectures, UnknownOnesNameTheNearest) {
  auto message = [](const std::string &config) {
    Diagnostics diagnostics;
    EXPECT_FALSE(findArchitecture(config, "config.json", diagnostics));
    return outcomeOf(diagnostics).text;
  };
  std::string text = message(R"({"model_type": "qwen9_next", "architectures": ["Qwen9NextForCausalLM"]})");
  EXPECT_NE(text.find("model_type 'qwen9_next' (Qwen9NextForCausalLM); near it: qwen3_next, qwen"), std::string::npos)
      << text;
  EXPECT_NE(text.find("docs/porting.md"), std::string::npos) << text;
  text = message(R"({"model_type": "shield_gemma"})");
  EXPECT_NE(text.find("near it: gemma"), std::string::npos) << text;
  text = message(R"({"model_type": "zzzzzz"})");
  EXPECT_EQ(text.find("near it"), std::string::npos) << text;
  text = message("{}");
  EXPECT_NE(text.find("neither 'model_type' nor 'architectures'"), std::string::npos) << text;
}

TEST(Architectures, TheTableHasEverySpec) {
  std::set<std::string> specs, classes;
  for (const Architecture &one : architectures()) {
    EXPECT_TRUE(specs.insert(one.spec).second) << one.spec << " twice";
    for (const std::string &name : one.classes) {
      EXPECT_TRUE(classes.insert(name).second) << name << " twice";
      EXPECT_NE(one.text.substr(0, one.text.find("\nmodel")).find(name), std::string_view::npos)
          << one.spec << ".quern's head comment does not name " << name;
    }
    EXPECT_EQ(one.classes.empty(), one.modelTypes.empty()) << one.spec;
    EXPECT_TRUE(one.command == "generate" || one.command == "embed" || one.command == "eval") << one.spec;
  }
  for (const EmbeddedSpec &spec : embeddedSpecs())
    EXPECT_TRUE(specs.count(spec.name)) << "examples/" << spec.name << ".quern is not in examples/architectures.json";
  EXPECT_EQ(specs.size(), embeddedSpecs().size());
}

TEST(Config, IgnoredTensorsAreNamedByValues) {
  SpecInput input;
  input.name = "case.quern";
  input.text =
      body("x = x * 2", "  config { layers = 2 }\n  last = layers + 1\n  ignore \"h.{layers}.*\", \"h.{last}.\\{\"\n");
  input.configText = R"({"layers": 61})";
  Diagnostics diagnostics;
  Builder silent;
  Checked checked = checkSpec(input, diagnostics, silent);
  EXPECT_EQ(outcomeOf(diagnostics).text, "");
  EXPECT_EQ(std::count(checked.ignores.begin(), checked.ignores.end(), "h.61.*"), 1);
  EXPECT_EQ(std::count(checked.ignores.begin(), checked.ignores.end(), "h.62.{"), 1);
  EXPECT_EQ(check(body("x = x * 2", "  ignore \"h.{depth}.*\"\n")).codes, "Q010");
}

} // namespace
