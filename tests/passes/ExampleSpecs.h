// Every spec of examples/ in a small size: what all passes together, and each without the others, are tried on.
#ifndef QUERN_TESTS_PASSES_EXAMPLESPECS_H
#define QUERN_TESTS_PASSES_EXAMPLESPECS_H

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace quern::passes::test {

struct ExampleSpec {
  const char *name, *spec, *config; // config: a folder of tests/data
  std::vector<std::string> settings;
  int64_t vocabulary = 50; // tokens are smaller
};
inline void PrintTo(const ExampleSpec &example, std::ostream *out) {
  *out << example.name;
}

inline std::vector<ExampleSpec> exampleSpecs() {
  return {{"bert", "bert", "bert", {}},
          {"bloom", "bloom", "bloom", {}},
          {"cohere", "cohere", "cohere", {}},
          {"distilbert", "distilbert", "distilbert", {}},
          {"gemma", "gemma", "gemma", {}},
          {"gemma3", "gemma", "gemma3-text", {}},
          {"gpt2", "gpt2", "gpt2", {}},
          {"gpt_bigcode", "gpt_bigcode", "gpt-bigcode", {}},
          {"gptj", "gptj", "gptj", {}},
          {"gpt_neox", "gpt_neox", "gpt-neox", {}},
          {"linear_attention", "linear_attention", nullptr, {}},
          {"labs_attention", "labs/attention", nullptr, {"words=60", "width=16", "heads=2"}},
          {"llama", "llama", "llama", {}},
          {"llama3", "llama", "llama3-rope-scaling", {}},
          {"m2m100", "bart", "m2m100", {}},
          {"manual_article", "manual/article", nullptr, {}, 3},
          {"manual_attention", "manual/attention", nullptr, {}, 3},
          {"manual_decoder", "manual/decoder", nullptr, {}, 10},
          {"manual_encoder", "manual/encoder", nullptr, {}, 10},
          {"manual_feed_forward", "manual/feed_forward", nullptr, {}, 4},
          {"manual_mini_transformer",
           "manual/mini_transformer",
           nullptr,
           {"vocab_size=50", "d_model=16", "n_heads=2", "d_ff=32"}},
          {"manual_one_head", "manual/one_head", nullptr, {}, 4},
          {"manual_two_blocks", "manual/two_blocks", nullptr, {}, 4},
          {"manual_variants", "manual/variants", nullptr, {}, 3},
          {"mamba", "mamba", "mamba", {}},
          {"mistral", "mistral", "mistral", {}},
          {"mixtral", "mixtral", "mixtral", {}},
          {"mpt", "mpt", "mpt", {}},
          {"opt", "opt", "opt", {}},
          {"opt350m", "opt", "opt-postln-proj", {}},
          {"phi3", "phi3", "phi3", {}},
          {"phi3_longrope", "phi3", "phi3-longrope", {}},
          {"qwen2", "qwen2", "qwen2", {}},
          {"qwen3_next", "qwen3_next", "qwen3-next", {}},
          {"recurrent_gemma", "recurrent_gemma", "recurrent-gemma", {}},
          {"sentence",
           "sentence",
           nullptr,
           {"vocab_size=64", "hidden_size=16", "num_hidden_layers=2", "num_attention_heads=2", "intermediate_size=32",
            "max_position_embeddings=32"}},
          {"sentence_decoder",
           "sentence_decoder",
           nullptr,
           {"vocab_size=64", "hidden_size=16", "num_hidden_layers=2", "num_attention_heads=4", "num_key_value_heads=2",
            "head_dim=4", "intermediate_size=32"}},
          {"sentence_modernbert",
           "sentence_modernbert",
           nullptr,
           {"vocab_size=64", "hidden_size=16", "num_hidden_layers=2", "num_attention_heads=2", "intermediate_size=32",
            "local_attention=4"}},
          {"sentence_gemma",
           "sentence_gemma",
           nullptr,
           {"vocab_size=64", "hidden_size=16", "num_hidden_layers=2", "num_attention_heads=4", "num_key_value_heads=2",
            "head_dim=4", "intermediate_size=32", "sliding_window_pattern=2", "sliding_window=4",
            "use_bidirectional_attention=true"}},
          {"sentence_t5",
           "sentence_t5",
           nullptr,
           {"vocab_size=64", "d_model=16", "d_kv=8", "d_ff=32", "num_layers=2", "num_heads=2"}},
          {"smollm3", "smollm3", "smollm3", {}},
          {"sparse", "sparse", nullptr, {}},
          {"stablelm", "stablelm", "stablelm", {}},
          {"starcoder2", "starcoder2", "starcoder2", {}},
          {"t5", "t5", "t5", {}},
          {"vit", "vit", "vit", {}, 7},
          {"whisper", "whisper", "whisper", {}},
          {"translate", "translate", nullptr, {"vocab=64", "width=16", "inner=32", "heads=2", "layers=2"}}};
}

} // namespace quern::passes::test
#endif
