// Keeps PCRE2's just-in-time compiler out of emitted programs.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_NOJIT_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_NOJIT_H

namespace quern::runtime {

/// Being called, makes the linker take NoJit.o before it looks into PCRE2's archive.
void leaveOutJit();

} // namespace quern::runtime
#endif
