// Takes: the configs beside a SentencePiece model. Gives: what its class of tokenizers adds to it. Classes that are no
// row here are refused.
//
// Rows without a pipeline mean what SentencePiece itself makes of the file. Those with one mean what transformers 5 does:
// their texts are changed before SentencePiece sees them, which no .model says.
#include "runtime/Error.h"
#include "runtime/tokenizer/files/SentencePieceModel.h"
#include "support/Glob.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace quern::runtime::sentencepiece {

using Json = nlohmann::json;

namespace {

const char mbartLanguages[] = "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR "
                              "lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN";
const char laterLanguages[] = " af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL "
                              "ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";

const Pipeline albert = {.roles = {{"bos", "[CLS]"},
                                   {"eos", "[SEP]"},
                                   {"unk", "<unk>"},
                                   {"sep", "[SEP]"},
                                   {"pad", "<pad>"},
                                   {"cls", "[CLS]"},
                                   {"mask", "[MASK]"}},
                         .normalizers = "quotes accents lower map",
                         .splitsAtSpace = true,
                         .lowers = true,
                         .keepAccentsCounts = true};

const Pipeline xlnet = {.roles = {{"bos", "<s>"},
                                  {"eos", "</s>"},
                                  {"unk", "<unk>"},
                                  {"sep", "<sep>"},
                                  {"pad", "<pad>"},
                                  {"cls", "<cls>"},
                                  {"mask", "<mask>"}},
                        .normalizers = "quotes accents lower map",
                        .splitsAtSpace = true,
                        .stripsBeforeMask = true};

/// The first numbers are those that models were trained with. transformers 5 orders the masks by the fields that a config
/// has, and with one of them alone moves all pieces by one.
const Pipeline pegasus = {.roles = {{"eos", "</s>"},
                                    {"unk", "<unk>"},
                                    {"pad", "<pad>"},
                                    {"mask", "<mask_2>"},
                                    {"mask_token_sent", "<mask_1>"}},
                          .head = {"pad", "eos", "mask_token_sent", "mask"},
                          .normalizers = "lines map spaces",
                          .offset = 103};

/// Without the file's map: transformers 5 leaves it out for this class, and not for mBART-50.
const Pipeline mbart = {.roles = {{"bos", "<s>"},
                                  {"eos", "</s>"},
                                  {"unk", "<unk>"},
                                  {"sep", "</s>"},
                                  {"pad", "<pad>"},
                                  {"cls", "<s>"},
                                  {"mask", "<mask>"}},
                        .head = {"bos", "pad", "eos", "unk"},
                        .splitsAtSpace = true,
                        .stripsBeforeMask = true,
                        .languages = mbartLanguages};

const Pipeline mbart50 = {
    .roles = {{"eos", "</s>"}, {"unk", "<unk>"}, {"sep", "</s>"}, {"pad", "<pad>"}, {"cls", "<s>"}, {"mask", "<mask>"}},
    .head = {"cls", "pad", "eos", "unk"},
    .normalizers = "map spaces",
    .stripsBeforeMask = true,
    .languages = std::string(mbartLanguages) + laterLanguages};

const Pipeline bigBird = {.roles = {{"bos", "<s>"},
                                    {"eos", "</s>"},
                                    {"unk", "<unk>"},
                                    {"sep", "[SEP]"},
                                    {"pad", "<pad>"},
                                    {"cls", "[CLS]"},
                                    {"mask", "[MASK]"}},
                          .normalizers = "marks",
                          .stripsBeforeMask = true};

const Class classes[] = {
    {.names = "LlamaTokenizer CodeLlamaTokenizer GemmaTokenizer",
     .models = "llama mistral mixtral gemma gemma2 phi3",
     .first = "bos",
     .last = "eos"},
    {.names = "T5Tokenizer MT5Tokenizer", .models = "t5 mt5 umt5", .last = "</s>", .extraIds = true},
    {.names = "XLMRobertaTokenizer",
     .models = "xlm-roberta",
     .first = "<s>",
     .last = "</s>",
     .inserted = {"<s>", "<pad>", "</s>", "<unk>"},
     .replaced = 3,
     .appended = "<mask>"},
    {.names = "CamembertTokenizer",
     .models = "camembert",
     .first = "<s>",
     .last = "</s>",
     .inserted = {"<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"},
     .replaced = 1,
     .appended = "<mask>"},
    {.names = "DebertaV2Tokenizer", .models = "deberta-v2", .first = "[CLS]", .last = "[SEP]"},
    {.names = "AlbertTokenizer", .models = "albert yoso", .first = "cls", .last = "sep", .pipeline = &albert},
    {.names = "BigBirdTokenizer", .models = "big_bird", .first = "cls", .last = "sep", .pipeline = &bigBird},
    {.names = "XLNetTokenizer", .models = "xlnet", .last = "sep cls", .pipeline = &xlnet},
    {.names = "PegasusTokenizer", .models = "pegasus", .last = "eos", .replaced = 2, .pipeline = &pegasus},
    {.names = "MBartTokenizer", .models = "mbart", .last = "eos src_lang", .replaced = 3, .pipeline = &mbart},
    {.names = "MBart50Tokenizer",
     .models = "mbart50",
     .first = "src_lang",
     .last = "eos",
     .replaced = 3,
     .pipeline = &mbart50},
};

} // namespace

std::vector<std::string> words(const std::string &list) {
  std::vector<std::string> each;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    if (end > at)
      each.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return each;
}

const Class &classOf(const Json &config, const ReadBeside &beside) {
  const auto named = [](const Json &file) {
    std::string name = file.contains("tokenizer_class") ? tokenText(file["tokenizer_class"]) : "";
    if (name.ends_with("Fast"))
      name.resize(name.size() - 4);
    return name;
  };
  std::string name = named(config), model;
  if (name.empty()) {
    const Json file = jsonBeside(beside, "config.json");
    name = named(file);
    model = name.empty() ? file.value("model_type", "") : "";
  }
  std::string known;
  for (const Class &row : classes) {
    if (support::listsName(row.names, name) || support::listsName(row.models, model))
      return row;
    known += std::string(known.empty() ? "" : " ") + row.names;
  }
  throw UserError("how tokens are numbered and what stands around a text follows from tokenizer_class in "
                  "tokenizer_config.json, which is " +
                  (name.empty() ? "missing" : quote(name)) + "; known are " + known +
                  ". Save the tokenizer as tokenizer.json, or add that line");
}

} // namespace quern::runtime::sentencepiece
