// What the frontend's tests share: checking a text, the codes that come out, test data.
#ifndef QUERN_TESTS_FRONTEND_SUPPORT_H
#define QUERN_TESTS_FRONTEND_SUPPORT_H

#include "frontend/Language.h"
#include "tests/Zoo.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace quern::frontend::testing {

struct Outcome {
  std::string codes; // of errors, in order, each once
  std::string text;  // as printed
  std::string json;
  size_t warnings = 0;
};

inline Outcome outcomeOf(const Diagnostics &diagnostics) {
  Outcome out;
  for (const Diagnostic &diagnostic : diagnostics.list())
    if (diagnostic.severity == Severity::Error &&
        (" " + out.codes + " ").find(" " + diagnostic.code + " ") == std::string::npos)
      out.codes += (out.codes.empty() ? "" : " ") + diagnostic.code;
  std::ostringstream text;
  diagnostics.print(text);
  out.text = text.str();
  out.json = diagnostics.toJson();
  out.warnings = diagnostics.warningCount();
  return out;
}

inline Outcome check(const std::string &text, std::optional<std::string> config = {},
                     std::vector<Setting> settings = {}) {
  SpecInput input;
  input.name = "case.quern";
  input.text = text;
  input.configText = std::move(config);
  input.settings = std::move(settings);
  Diagnostics diagnostics;
  checkSpec(input, diagnostics);
  return outcomeOf(diagnostics);
}

inline std::string read(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << "no file " << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// CTest sets these; by hand they are the folders seen from the repository's root.
inline std::filesystem::path sourceDir() {
  return std::getenv("QUERN_SOURCE") ? std::getenv("QUERN_SOURCE") : ".";
}
inline std::filesystem::path dataDir() {
  return std::getenv("QUERN_TEST_DATA") ? std::getenv("QUERN_TEST_DATA") : "tests/data";
}

inline const std::string head = R"(quern 1
model m {
  config { vocab = 8, width = 12, heads = 3 }
  dim V = vocab, D = width, H = heads, K = D / H
)";
inline const std::string forwardHead =
    "  forward(tokens: int[B, T]) -> [B, T, V] {\n    param e: [V, D] @ \"e\"\n    x = e[V = tokens]\n";
inline const std::string tail = "    return sum[D](x * e)\n  }\n}\n";

/// A small model with `lines` in the middle of its forward function; `blocks` stand in the model.
inline std::string body(const std::string &lines, const std::string &blocks = "") {
  std::istringstream in(lines);
  std::string text = head + blocks + forwardHead;
  for (std::string line; std::getline(in, line);)
    text += "    " + line + "\n";
  return text + tail;
}

/// Every fixture of tests/data and its spec in examples/.
inline const std::vector<std::pair<std::string, std::string>> &fixtures() {
  static const std::vector<std::pair<std::string, std::string>> all = [] {
    std::vector<std::pair<std::string, std::string>> list = {{"bert", "bert"},
                                                             {"bloom", "bloom"},
                                                             {"cohere", "cohere"},
                                                             {"distilbert", "distilbert"},
                                                             {"gemma", "gemma"},
                                                             {"gemma3-text", "gemma"},
                                                             {"gpt-bigcode", "gpt_bigcode"},
                                                             {"gpt-neox", "gpt_neox"},
                                                             {"gpt2", "gpt2"},
                                                             {"gptj", "gptj"},
                                                             {"llama", "llama"},
                                                             {"llama3-rope-scaling", "llama"},
                                                             {"m2m100", "bart"},
                                                             {"mistral", "mistral"},
                                                             {"mixtral", "mixtral"},
                                                             {"mpt", "mpt"},
                                                             {"opt", "opt"},
                                                             {"opt-postln-proj", "opt"},
                                                             {"phi3", "phi3"},
                                                             {"phi3-longrope", "phi3"},
                                                             {"mamba", "mamba"},
                                                             {"qwen2", "qwen2"},
                                                             {"qwen3-next", "qwen3_next"},
                                                             {"recurrent-gemma", "recurrent_gemma"},
                                                             {"vit", "vit"},
                                                             {"whisper", "whisper"},
                                                             {"smollm3", "smollm3"},
                                                             {"stablelm", "stablelm"},
                                                             {"starcoder2", "starcoder2"},
                                                             {"t5", "t5"}};
    for (const char *kind : {"decoders", "pairs", "encoders", "images", "contrasts"})
      for (auto &one : test::zoo(kind))
        list.push_back(std::move(one));
    return list;
  }();
  return all;
}

} // namespace quern::frontend::testing
#endif
