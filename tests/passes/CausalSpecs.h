// Every spec of examples/ and of tests/frontend/specs, causal or not, with each fixture's config: what the tests of
// steps go through.
#ifndef QUERN_TESTS_PASSES_CAUSALSPECS_H
#define QUERN_TESTS_PASSES_CAUSALSPECS_H

#include "Support.h"
#include "tests/Zoo.h"

#include <cstdlib>

namespace quern::passes::test {

struct SpecCase {
  std::string name;
  std::string spec;   // from the root
  std::string config; // a folder of tests/data
  std::vector<std::string> settings = {};
  int64_t words = 60; // tokens are below it
};
inline void PrintTo(const SpecCase &example, std::ostream *out) {
  *out << example.name;
}
inline std::string nameOf(const testing::TestParamInfo<SpecCase> &info) {
  return info.param.name;
}

inline std::string source(const std::string &path) {
  return std::string(std::getenv("QUERN_SOURCE")) + "/" + path;
}

inline std::unique_ptr<Program> load(const SpecCase &example) {
  return std::make_unique<Program>(
      source(example.spec), example.config.empty() ? "" : source("tests/data/" + example.config + "/config.json"),
      example.settings);
}

/// The function over the growing text.
inline std::string textFunction(Program &program) {
  return program.function("forward") ? "forward" : "decode";
}

inline std::vector<SpecCase> zooSpecs(const char *kind) {
  std::vector<SpecCase> specs;
  for (const auto &[config, spec] : quern::test::zoo(kind)) {
    std::string name = "zoo_" + config;
    std::replace(name.begin(), name.end(), '-', '_');
    specs.push_back({name, "examples/" + spec + ".quern", config, {}, 48});
  }
  return specs;
}

inline std::vector<SpecCase> causalSpecs() {
  std::vector<SpecCase> specs;
  for (auto [spec, config] :
       std::initializer_list<std::pair<const char *, const char *>>{{"bloom", "bloom"},
                                                                    {"cohere", "cohere"},
                                                                    {"gemma", "gemma"},
                                                                    {"gemma", "gemma3-text"},
                                                                    {"gpt_neox", "gpt-neox"},
                                                                    {"gpt2", "gpt2"},
                                                                    {"gpt_bigcode", "gpt-bigcode"},
                                                                    {"gptj", "gptj"},
                                                                    {"llama", "llama"},
                                                                    {"llama", "llama3-rope-scaling"},
                                                                    {"bart", "m2m100"},
                                                                    {"mamba", "mamba"},
                                                                    {"qwen3_next", "qwen3-next"},
                                                                    {"recurrent_gemma", "recurrent-gemma"},
                                                                    {"whisper", "whisper"},
                                                                    {"mistral", "mistral"},
                                                                    {"mixtral", "mixtral"},
                                                                    {"mpt", "mpt"},
                                                                    {"opt", "opt"},
                                                                    {"opt", "opt-postln-proj"},
                                                                    {"phi3", "phi3"},
                                                                    {"phi3", "phi3-longrope"},
                                                                    {"qwen2", "qwen2"},
                                                                    {"smollm3", "smollm3"},
                                                                    {"stablelm", "stablelm"},
                                                                    {"starcoder2", "starcoder2"},
                                                                    {"t5", "t5"}}) {
    std::string name = config;
    std::replace(name.begin(), name.end(), '-', '_');
    specs.push_back({name, std::string("examples/") + spec + ".quern", config});
  }
  for (const char *kind : {"decoders", "pairs"})
    for (const SpecCase &example : zooSpecs(kind))
      specs.push_back(example);
  specs.push_back({"linear_attention", "examples/linear_attention.quern", ""});
  specs.push_back({"sparse", "examples/sparse.quern", ""});
  specs.push_back(
      {"translate", "examples/translate.quern", "", {"vocab=64", "width=16", "inner=32", "heads=2", "layers=2"}});
  specs.push_back({"manual_attention", "examples/manual/attention.quern", "", {}, 3});
  specs.push_back({"manual_article", "examples/manual/article.quern", "", {}, 3});
  specs.push_back({"manual_decoder", "examples/manual/decoder.quern", "", {}, 10});
  specs.push_back({"manual_one_head", "examples/manual/one_head.quern", "", {}, 4});
  specs.push_back({"manual_feed_forward", "examples/manual/feed_forward.quern", "", {}, 4});
  specs.push_back({"manual_two_blocks", "examples/manual/two_blocks.quern", "", {}, 4});
  specs.push_back({"manual_variants", "examples/manual/variants.quern", "", {}, 3});
  specs.push_back({"labs_attention", "examples/labs/attention.quern", "", {"words=60", "width=16", "heads=2"}});
  for (const char *spec : {"deepseek_v3", "falcon", "gpt_oss", "oddities"})
    specs.push_back({spec, std::string("tests/frontend/specs/") + spec + ".quern", "", {}, 30});
  return specs;
}

/// What looks ahead.
/// Without a text.
inline std::vector<SpecCase> stillSpecs() {
  std::vector<SpecCase> specs = zooSpecs("images");
  for (const SpecCase &example : zooSpecs("contrasts"))
    specs.push_back(example);
  specs.push_back({"vit", "examples/vit.quern", "vit"});
  return specs;
}

inline std::vector<SpecCase> otherSpecs() {
  std::vector<SpecCase> specs = zooSpecs("encoders");
  specs.push_back({"bert", "examples/bert.quern", "bert"});
  specs.push_back({"distilbert", "examples/distilbert.quern", "distilbert"});
  specs.push_back(
      {"sentence",
       "examples/sentence.quern",
       "",
       {"vocab_size=60", "hidden_size=16", "num_hidden_layers=2", "num_attention_heads=2", "intermediate_size=8"}});
  specs.push_back({"sentence_decoder",
                   "examples/sentence_decoder.quern",
                   "",
                   {"vocab_size=60", "hidden_size=16", "num_hidden_layers=2", "num_attention_heads=4",
                    "num_key_value_heads=2", "head_dim=4", "intermediate_size=8"}});
  specs.push_back({"sentence_modernbert",
                   "examples/sentence_modernbert.quern",
                   "",
                   {"vocab_size=60", "hidden_size=16", "num_hidden_layers=2", "num_attention_heads=2",
                    "intermediate_size=8", "local_attention=4"}});
  specs.push_back(
      {"sentence_gemma",
       "examples/sentence_gemma.quern",
       "",
       {"vocab_size=60", "hidden_size=16", "num_hidden_layers=2", "num_attention_heads=4", "num_key_value_heads=2",
        "head_dim=4", "intermediate_size=8", "sliding_window=4", "use_bidirectional_attention=true"}});
  specs.push_back({"sentence_t5",
                   "examples/sentence_t5.quern",
                   "",
                   {"vocab_size=60", "d_model=16", "d_kv=8", "d_ff=8", "num_layers=2", "num_heads=2"}});
  specs.push_back({"manual_encoder", "examples/manual/encoder.quern", "", {}, 10});
  specs.push_back({"manual_mini_transformer",
                   "examples/manual/mini_transformer.quern",
                   "",
                   {"vocab_size=60", "d_model=16", "d_ff=8"}});
  return specs;
}

/// Numbers that a test can repeat: the same name, the same numbers.
class Dice {
public:
  explicit Dice(llvm::StringRef name) {
    for (char c : name)
      state = (state ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  /// 0 .. below - 1
  int64_t roll(int64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<int64_t>((state >> 20) % static_cast<uint64_t>(below));
  }
  /// Lengths of chunks that a text of `length` is read in.
  std::vector<int64_t> chunks(int64_t length) {
    std::vector<int64_t> out;
    for (int64_t left = length; left > 0; left -= out.back())
      out.push_back(1 + roll(left));
    return out;
  }

private:
  uint64_t state = 1469598103934665603u;
};

} // namespace quern::passes::test
#endif
