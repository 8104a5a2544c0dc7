// The files of a checkpoint that programs read beside its weights.
#ifndef QUERN_SUPPORT_CHECKPOINTFILES_H
#define QUERN_SUPPORT_CHECKPOINTFILES_H

namespace quern::support {

inline constexpr const char *filesBesideWeights[] = {
    "tokenizer.json",     "tokenizer_config.json",     "chat_template.jinja",
    "chat_template.json", "sentence_bert_config.json", "generation_config.json"};

} // namespace quern::support
#endif
