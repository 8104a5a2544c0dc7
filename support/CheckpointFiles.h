// The files of a checkpoint that programs read beside its weights.
#ifndef QUERN_SUPPORT_CHECKPOINTFILES_H
#define QUERN_SUPPORT_CHECKPOINTFILES_H

namespace quern::support {

inline constexpr const char *filesBesideWeights[] = {
    "tokenizer.json",        "tokenizer_config.json",     "chat_template.jinja",
    "chat_template.json",    "sentence_bert_config.json", "config_sentence_transformers.json",
    "generation_config.json"};

/// Where there is no tokenizer.json: SentencePiece's models and tiktoken's ranks, in this order.
inline constexpr const char *vocabulariesBesideWeights[] = {
    "tokenizer.model",      "spiece.model",        "sentencepiece.bpe.model", "spm.model",          "qwen.tiktoken",
    "cl100k_base.tiktoken", "o200k_base.tiktoken", "r50k_base.tiktoken",      "p50k_base.tiktoken", "gpt2.tiktoken"};

} // namespace quern::support
#endif
