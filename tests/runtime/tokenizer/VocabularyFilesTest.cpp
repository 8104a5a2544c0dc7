// The files that tokenizers come in besides tokenizer.json: what they say, what they leave open, what damage does.
#include "runtime/tokenizer/files/VocabularyFiles.h"
#include "runtime/Error.h"
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/weights/Checkpoint.h"
#include "tests/runtime/Damage.h"
#include "tests/runtime/GgufBuilder.h"
#include "tests/runtime/TestData.h"

#include <gmock/gmock.h>

#include <map>

using namespace quern::runtime;
using namespace quern::runtime::test;
using testing::HasSubstr;
using Json = nlohmann::json;

namespace {

using Files = std::map<std::string, std::string>;

ReadBeside among(const Files &files) {
  return [&files](const std::string &name) {
    const auto found = files.find(name);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string data(const std::string &name) {
  return readFile(dataPath("tokenizers/" + name));
}

/// What is wrong with files, or nothing; a tokenizer is used.
std::string complaint(const Files &files) {
  try {
    const std::optional<TokenizerText> text = findTokenizer(among(files));
    if (text) {
      const Tokenizer tokenizer = Tokenizer::parse(text->json, text->file);
      tokenizer.decode(tokenizer.encode("Hello  <s> w\xc3\xb6rld\xe4\xb8\xad\xff\n 123 e\xcc\x81", true), true);
    }
    return text ? "" : "nothing";
  } catch (const UserError &error) {
    return error.what();
  }
}

std::vector<int> encode(const Files &files, const std::string &text) {
  const TokenizerText made = *findTokenizer(among(files));
  return Tokenizer::parse(made.json, made.file).encode(text, true);
}

TEST(VocabularyFiles, TheClassSaysWhatStandsAroundAText) {
  const std::string llama = data("llama2-spm/tokenizer.model"), t5 = data("t5-unigram/tokenizer.model");
  const auto config = [](const std::string &name) { return "{\"tokenizer_class\": \"" + name + "\"}"; };
  EXPECT_EQ(encode({{"tokenizer.model", llama}, {"tokenizer_config.json", config("LlamaTokenizer")}}, "a").front(), 1);
  EXPECT_NE(encode({{"tokenizer.model", llama},
                    {"tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": false})"}},
                   "a")
                .front(),
            1);
  const std::vector<int> own =
      encode({{"spiece.model", t5}, {"config.json", R"({"model_type": "t5"})"}}, "a <extra_id_0>");
  EXPECT_EQ(own.back(), 1) << "</s>";
  EXPECT_EQ(own[own.size() - 2], 699) << "a hundred tokens are numbered from the last on";
  // XLM-R: <s>, <pad>, </s>, <unk> come first, so that all of a file of <unk>, <s>, </s> moves by one.
  const std::vector<int> plain =
                             encode({{"tokenizer.model", llama}, {"config.json", R"({"model_type": "llama"})"}}, "a"),
                         moved = encode({{"sentencepiece.bpe.model", llama},
                                         {"tokenizer_config.json", config("XLMRobertaTokenizerFast")}},
                                        "a");
  ASSERT_EQ(moved.size(), plain.size() + 1);
  EXPECT_EQ(moved.front(), 0);
  EXPECT_EQ(moved.back(), 2);
  for (size_t i = 1; i < plain.size(); ++i)
    EXPECT_EQ(moved[i], plain[i] + 1);
}

/// What transformers does with small models of each class (make_classes.py).
TEST(VocabularyFiles, ClassesWithPipelinesDoAsTransformersDoes) {
  const Json golden = readJson(dataPath("tokenizers/classes/cases.json"));
  for (const Json &folder : golden["folders"]) {
    const std::string model = folder["model"].get<std::string>(), file = folder["file"].get<std::string>();
    Files files = {{file, data(model + ".model")}, {"tokenizer_config.json", folder["config"].dump()}};
    for (const auto &[name, content] : folder["beside"].items())
      files[name] = content.dump();
    const TokenizerText made = *findTokenizer(among(files));
    const Tokenizer tokenizer = Tokenizer::parse(made.json, made.file);
    for (const Json &one : folder["cases"]) {
      const std::string text = golden["texts"][one[0].get<size_t>()].get<std::string>();
      SCOPED_TRACE(folder["config"].dump() + " " + Json(text).dump());
      const std::vector<int> ids = one[2].get<std::vector<int>>();
      EXPECT_EQ(tokenizer.encode(text, false), one[1].get<std::vector<int>>());
      EXPECT_EQ(tokenizer.encode(text, true), ids);
      EXPECT_EQ(tokenizer.decode(ids, false), one[3].get<std::string>());
      EXPECT_EQ(tokenizer.decode(ids, true), one[4].get<std::string>());
    }
  }
}

TEST(VocabularyFiles, ThePipelineFollowsTheConfigs) {
  const std::string xlnet = data("classes/xlnet.model"), pegasus = data("classes/pegasus.model"),
                    mbart = data("classes/mbart.model");
  const Files byModel = {{"spiece.model", xlnet}, {"config.json", R"({"model_type": "xlnet"})"}};
  const std::vector<int> ids = encode(byModel, "a");
  EXPECT_EQ(std::vector<int>(ids.end() - 2, ids.end()), (std::vector<int>{4, 3})) << "<sep> <cls>";
  const Files byClass = {{"sentencepiece.bpe.model", mbart},
                         {"config.json", R"({"model_type": "mbart", "tokenizer_class": "MBart50Tokenizer"})"}};
  EXPECT_EQ(encode(byClass, "a").back(), 2) << "</s>";
  // Models know <mask_1> as 2, whatever transformers 5 makes of a config that names one mask.
  for (const char *config :
       {"{}", R"({"mask_token": "<mask_2>"})", R"({"mask_token": "<mask_2>", "mask_token_sent": "<mask_1>"})"}) {
    Json whole = Json::parse(config);
    whole["tokenizer_class"] = "PegasusTokenizer";
    EXPECT_EQ(encode({{"spiece.model", pegasus}, {"tokenizer_config.json", whole.dump()}}, "<mask_1><mask_2><unk>"),
              (std::vector<int>{2, 3, 105, 1}));
  }
  // An older file of special tokens counts where tokenizer_config.json lists none.
  Files files = {{"sentencepiece.bpe.model", mbart},
                 {"tokenizer_config.json", R"({"tokenizer_class": "MBartTokenizer"})"},
                 {"special_tokens_map.json", R"({"additional_special_tokens": ["<new>"]})"}};
  EXPECT_EQ(encode(files, "<new>").size(), 3u) << "and </s> en_XX";
  files["added_tokens.json"] = R"({"<word>": 450})";
  EXPECT_EQ(encode(files, "<word>").front(), 450);
}

TEST(VocabularyFiles, RanksTakeTheirSpecialTokensFromTheFamilyOrTheConfig) {
  const std::string ranks = data("llama3-ranks/tokenizer.model");
  const std::vector<int> ids =
      encode({{"tokenizer.model", ranks}, {"config.json", R"({"model_type": "llama"})"}}, "a<|eot_id|>");
  EXPECT_EQ(ids, (std::vector<int>{768, int(ids[1]), 777}));
  const std::string config =
      R"({"pat_str": "[a-z]|[^a-z]+", "added_tokens_decoder": {"900": {"content": "<x>", "special": true}}})";
  const Files own = {{"qwen.tiktoken", ranks}, {"tokenizer_config.json", config}};
  const std::vector<int> the = encode(own, "the<x>");
  ASSERT_EQ(the.size(), 4u) << "its pattern cuts each letter off";
  EXPECT_EQ(the.back(), 900);
}

TEST(VocabularyFiles, SaysWhatIsMissing) {
  const std::string ranks = data("llama3-ranks/tokenizer.model"), model = data("llama2-spm/tokenizer.model");
  EXPECT_EQ(complaint({}), "nothing");
  EXPECT_THAT(complaint({{"tokenizer.model", ranks}}), HasSubstr("pat_str"));
  EXPECT_THAT(complaint({{"tokenizer.model", model}}), HasSubstr("tokenizer_class"));
  EXPECT_THAT(
      complaint({{"tokenizer.model", model}, {"tokenizer_config.json", R"({"tokenizer_class": "NllbTokenizer"})"}}),
      HasSubstr("'NllbTokenizer'"));
  const std::string mbart = data("classes/mbart.model");
  EXPECT_THAT(
      complaint({{"tokenizer.model", model}, {"tokenizer_config.json", R"({"tokenizer_class": "MBartTokenizer"})"}}),
      HasSubstr("are Unigram"));
  EXPECT_THAT(complaint({{"sentencepiece.bpe.model", mbart},
                         {"tokenizer_config.json", R"({"tokenizer_class": "MBartTokenizer", "src_lang": "xx_YY"})"}}),
              AllOf(HasSubstr("src_lang"), HasSubstr("'xx_YY'"), HasSubstr("zh_CN")));
  EXPECT_THAT(complaint({{"spiece.model", mbart},
                         {"tokenizer_config.json", R"({"tokenizer_class": "PegasusTokenizer", "offset": "many"})"}}),
              HasSubstr("config"));
  EXPECT_THAT(complaint({{"tokenizer.model", "YQ== 0\nYg== x\n"}, {"config.json", R"({"model_type": "llama"})"}}),
              HasSubstr("line 2"));
  EXPECT_THAT(complaint({{"tokenizer.model", "YQ== 0\nYQ== 1\n"}, {"config.json", R"({"model_type": "llama"})"}}),
              HasSubstr("line 2"));
  EXPECT_THAT(complaint({{"tokenizer.model", model.substr(0, 2000)}, {"config.json", R"({"model_type": "llama"})"}}),
              HasSubstr("cut off"));
  EXPECT_THROW(tokenizerAt(dataPath("gpt2")), UserError) << "a folder without a vocabulary";
}

TEST(VocabularyFiles, DamagedModelsEndInAnErrorOrLoad) {
  for (const char *name : {"llama2-spm", "t5-unigram"})
    useDamaged(data(std::string(name) + "/tokenizer.model"), [](const std::string &file) {
      complaint({{"tokenizer.model", file}, {"config.json", R"({"model_type": "llama"})"}});
    });
}

TEST(VocabularyFiles, DamagedModelsOfClassesWithPipelinesEndInAnErrorOrLoad) {
  for (const auto &[name, type] : {std::pair("albert", "albert"), {"pegasus", "pegasus"}, {"mbart", "mbart50"}})
    useDamaged(
        data(std::string("classes/") + name + ".model"),
        [type = type](const std::string &file) {
          complaint({{"spiece.model", file}, {"config.json", std::string("{\"model_type\": \"") + type + "\"}"}});
        },
        400, 400);
}

TEST(VocabularyFiles, DamagedRanksEndInAnErrorOrLoad) {
  useDamaged(data("llama3-ranks/tokenizer.model"), [](const std::string &file) {
    complaint({{"tokenizer.model", file}, {"config.json", R"({"model_type": "llama"})"}});
  });
}

TEST(VocabularyFiles, DamagedTokenizersEndInAnErrorOrLoad) {
  for (const char *name : {"gpt2-bpe", "t5-unigram", "bert-wordpiece"})
    useDamaged(
        data(std::string(name) + "/tokenizer.json"),
        [](const std::string &file) { complaint({{"tokenizer.json", file}}); }, 150, 350);
}

TEST(VocabularyFiles, DamagedVocabulariesOfGgufEndInAnErrorOrLoad) {
  const std::pair<const char *, const char *> kinds[] = {
      {"gpt2-bpe", "gpt2"}, {"t5-unigram", "t5"}, {"bert-wordpiece", "bert"}};
  for (const auto &[name, model] : kinds)
    useDamaged(
        ggufOfTokenizer(Json::parse(data(std::string(name) + "/tokenizer.json")), model, "gpt-2"),
        [](const std::string &file) {
          try {
            if (const auto json = textInside(MappedFile::copy(file, "gguf"), "tokenizer.json"))
              complaint({{"tokenizer.json", *json}});
          } catch (const UserError &) {
          }
        },
        300);
}

} // namespace
