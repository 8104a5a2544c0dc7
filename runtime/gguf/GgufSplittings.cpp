// Takes: `tokenizer.ggml.pre`. Gives: the splits that tokenizer.json of the models with this name has.
//
// Where llama.cpp does otherwise (it knows no normal forms, and Falcon's digits are others there), the published files
// are followed: their tokens are those that the models were trained with.
#include "runtime/gguf/GgufSplittings.h"

#include "runtime/tokenizer/text/JsonText.h"
#include "runtime/tokenizer/text/WordScanner.h"
#include "support/Glob.h"

#include <algorithm>
#include <iterator>

namespace quern::runtime {

namespace {

constexpr unsigned WholeWords = Splitting::WholeWords, Begins = Splitting::Begins, Ends = Splitting::Ends,
                   Composed = Splitting::Composed, Characters = Splitting::Characters;

constexpr const char *digits = R"({"type":"Digits","individual_digits":true})", *threeDigits = "\\p{N}{1,3}";

constexpr const char *bloomWords = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+";

/// Cased letters, as Unicode 11 had them.
constexpr const char *deepseekLetters =
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-"
    "\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-"
    "\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-"
    "\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-"
    "\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-"
    "\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-"
    "\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-"
    "\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-"
    "\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-"
    "\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+";
constexpr const char *deepseekLine = "[\\r\\n]", *deepseekIdeographs = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";

constexpr const char *deepseek3Ideographs = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr const char *deepseek3Words =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char *sparkWords =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+";

constexpr const char *youtuBlocks =
    "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-"
    "\ufe4f]+|"
    "[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr const char *youtuWords = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}"
                                   "\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                                   "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}"
                                   "\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                                   "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

constexpr const char *kimiWords = "[\\p{Han}]+|"
                                  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{"
                                  "Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+"
                                  "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                                  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+[\\p{Ll}\\p{"
                                  "Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*"
                                  "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                                  "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

constexpr const char *bailingWords = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
                                     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
constexpr const char *seedWords = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                                  "?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char *ufakzekaWords =
    "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char *minicpmWords = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+| "
                                     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char *jaisWords =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
    "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|"
    "\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}";
/// Nothing follows the group of letters, so none of its rounds is ever taken back: possessive, it needs no memory for them.
constexpr const char *exaoneMoeWords =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";

constexpr const char *afmoeBlocks = "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-"
                                    "\uff9f\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff"
                                    "\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+";
/// Threes of digits from the end of a run, as the files say by a look ahead from each three. Here the run's start alone
/// looks ahead (and in the first, which wants a word to end, \G goes on from there), so that long runs take linear time.
constexpr const char *tinyAyaDigits = "(?<!\\d)\\d{1,3}(?=(?:\\d{3})*+\\b)|\\G(?<=\\d)\\d{3}",
                     *afmoeDigits = "(?<!\\p{N})\\p{N}{1,2}(?=(?:\\p{N}{3})++(?!\\p{N}))|\\p{N}{1,3}";

const Splitting splittings[] = {
    {"gpt-2 gpt2 gptj phi-2 phi2 gigachat a.x-4.0 mellum exaone4 jais trillion granite-docling", {gpt2Words}},
    {"jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe", {gpt2Words}, Begins | Ends},
    {"mpt olmo gpt-neox gptneox", {gpt2Words}, Composed},
    {"modern-bert", {gpt2Words}, Composed | Begins | Ends},
    {"starcoder starcoder2 refact smollm codeshell exaone minerva-7b mellum2", {digits, gpt2Words}},
    {"command-r", {digits, gpt2Words}, Composed},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     {llama3Words},
     WholeWords | Begins},
    {"dbrx smaug-bpe chatglm-bpe", {llama3Words}},
    {"glm4 glm5", {llama3Words}, WholeWords},
    {"qwen2 qwen deepseek-r1-qwen f2llmv2 hunyuan", {qwen2Words}, Composed},
    {"stablelm2 kormo megrez grok-2 solar-open", {qwen2Words}},
    {"qwen35", {qwen35Words}, Composed},
    {"tekken", {tekkenWords}, WholeWords | Begins},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", {o200kWords}},
    {"granite-embed-multi-97m", {o200kWords}, WholeWords},
    {"tiny_aya cohere2moe", {tinyAyaDigits, o200kWords}, Composed},
    {"bloom gpt3-finnish poro-chat", {bloomWords}},
    {"viking", {bloomWords, digits}},
    // `\s+$`, but a run that goes on is not tried from each of its places.
    {"deepseek-llm",
     {deepseekLine, deepseekLetters, "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
      "(?<!\\s)\\s++$", deepseekIdeographs, digits}},
    {"deepseek-coder", {deepseekLine, "\\s?\\p{L}+", "\\s?\\p{P}+", deepseekIdeographs, digits}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", {threeDigits, deepseek3Ideographs, deepseek3Words}},
    {"spark2_5", {threeDigits, deepseek3Ideographs, sparkWords, digits}},
    {"youtu", {youtuBlocks, youtuWords}, WholeWords},
    // The last two see bytes as characters: those that stand for 0xb2, 0xb3, 0xb9 and 0xbc to 0xbe are numbers.
    {"falcon",
     {R"({"type":"Punctuation","behavior":"Contiguous"})", R"({"type":"ByteLevel","add_prefix_space":false})",
      R"({"type":"Digits","individual_digits":false})", "[0-9][0-9][0-9]"}},
    {"chameleon",
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", digits,
      R"({"type":"Punctuation","behavior":"Isolated"})", gpt2Words},
     Begins},
    {"kimi-k2", {kimiWords}, WholeWords},
    {"superbpe", {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
    {"bailingmoe bailingmoe2 llada-moe", {bailingWords}},
    {"seed-coder", {seedWords}},
    {"ufakzeka", {ufakzekaWords}},
    {"minicpm5", {threeDigits, minicpmWords}, WholeWords},
    {"jais-2", {jaisWords}},
    {"exaone-moe", {exaoneMoeWords}, Composed},
    {"laguna", {"\\n+", qwen2Words}},
    {"afmoe", {afmoeDigits, afmoeBlocks, deepseek3Words}},
    {"gemma4", {}, Characters | Begins},
    {"granite-embed-multi-311m sarvam-moe", {}, Characters},
    {"whitespace", {R"({"type":"Whitespace"})"}, Characters | Begins | Ends},
};

} // namespace

const Splitting *splittingOf(const std::string &pre, const std::string &architecture) {
  const std::string &name = pre.empty() || pre == "default" ? architecture : pre;
  const auto *found = std::find_if(std::begin(splittings), std::end(splittings),
                                   [&](const Splitting &row) { return support::listsName(row.names, name); });
  return name.empty() || found == std::end(splittings) ? nullptr : found;
}

std::string knownSplittings() {
  std::string known;
  for (const Splitting &row : splittings)
    jsontext::append(known, {" ", row.names});
  return known;
}

} // namespace quern::runtime
