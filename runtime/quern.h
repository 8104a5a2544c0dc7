/* A compiled model as a library: `quern compile SPEC --emit lib -o libmodel.a` puts one model behind these functions.
 *
 *   quern_engine *engine;
 *   quern_sequence *text;
 *   if (quern_open("weights/", NULL, 0, &engine)) fail(quern_message());
 *   quern_begin(engine, &text);
 *   quern_prefill_text(text, "Once upon a time", 16);
 *   quern_choice next;
 *   while (!quern_step(text, &next)) { fwrite(next.text, 1, next.bytes, stdout); if (next.done) break; }
 *   quern_end(text);
 *   quern_close(engine);
 *
 * Link with: cc -Wl,--gc-sections app.c libmodel.a -lstdc++ -lm -pthread. examples/embed has a whole program.
 *
 * Every function that can fail gives a status; `quern_message` says why. No C++ exception leaves the library, and it
 * never ends the process. Functions may be called from any thread; those of one engine wait for each other. */
#ifndef QUERN_H
#define QUERN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum quern_status { /* NOLINT(readability-identifier-naming): as C has it */
                            QUERN_OK = 0,
                            QUERN_INPUT = 1,  /* what was given is wrong: a file, a token, a name */
                            QUERN_MACHINE = 2 /* the machine cannot: too little memory, an older processor */
} quern_status;

typedef struct quern_engine quern_engine;     /* the model with its weights */
typedef struct quern_sequence quern_sequence; /* one text; an engine has as many as memory allows */

/* Why the last call in this thread that failed did so. */
const char *quern_message(void);

/* `weights`: a safetensors file, an index of shards, or a folder with one. `tokenizer`: tokenizer.json, a .model or a
 * .tiktoken file; NULL: the one beside the weights, if there is one. `threads`: 0 for all that the process may use; the first engine of a process
 * decides. */
quern_status quern_open(const char *weights, const char *tokenizer, int threads, quern_engine **engine);
/* After its sequences have ended. NULL does nothing. */
void quern_close(quern_engine *engine);

/* How many tokens the model knows, and how long a text can be (INT64_MAX: nothing limits it). */
int64_t quern_vocabulary(const quern_engine *engine);
int64_t quern_context(const quern_engine *engine);

/* The tokens of a text, with those that the tokenizer puts around it. `count` has the room of `tokens`, in numbers, and
 * then how many there are; where the room is too small, nothing is written and the status is QUERN_INPUT. */
quern_status quern_tokenize(quern_engine *engine, const char *text, size_t bytes, int32_t *tokens, size_t *count);
/* The text of tokens, not terminated; `bytes` likewise. */
quern_status quern_detokenize(quern_engine *engine, const int32_t *tokens, size_t count, char *text, size_t *bytes);

quern_status quern_begin(quern_engine *engine, quern_sequence **sequence);
void quern_end(quern_sequence *sequence); /* NULL does nothing */

/* How the sequence goes on; before its first step. A sampling rule by the name of its option without dashes ("temp",
 * "top-k", "repeat-penalty" and all others that `PROGRAM generate --help` lists); "seed"; "most", the new tokens at most; "eos", 0 to go on after the
 * model's end of text. */
quern_status quern_set(quern_sequence *sequence, const char *name, double value);
/* Adds to the logit of a token; -INFINITY forbids it. Before the first step. */
quern_status quern_bias(quern_sequence *sequence, int32_t token, double added);
/* The sequence ends before this text. */
quern_status quern_stop_at(quern_sequence *sequence, const char *text);

/* More of the text, which the model reads at once. An encoder-decoder's first prefill is its source. */
quern_status quern_prefill(quern_sequence *sequence, const int32_t *tokens, size_t count);
quern_status quern_prefill_text(quern_sequence *sequence, const char *text, size_t bytes);

/* The logits of what follows, one for each token of the vocabulary; they hold until the next call for the sequence. */
quern_status quern_logits(quern_sequence *sequence, const float **logits, size_t *count);

typedef struct quern_choice {
  int32_t token;
  int32_t done;           /* nonzero: the text ends here, or the model has no position left */
  double log_probability; /* in the model's own distribution, before any sampling rule */
  const char *text;       /* what can be shown now, UTF-8, not terminated; holds until the sequence's next call */
  size_t bytes;
} quern_choice;

/* Chooses the next token and appends it. */
quern_status quern_step(quern_sequence *sequence, quern_choice *choice);
/* The same for several sequences of one engine in one pass over the weights. Each can join and leave from call to call.
 * `choices` has one for each. */
quern_status quern_step_batch(quern_sequence *const *sequences, size_t count, quern_choice *choices);

/* The vector of a text, for models that give one. `count` as in quern_tokenize. */
quern_status quern_embed(quern_engine *engine, const char *text, size_t bytes, float *vector, size_t *count);
/* The same for the result of that name, where a model gives several vectors of a text; NULL: the first. */
quern_status quern_embed_result(quern_engine *engine, const char *name, const char *text, size_t bytes, float *vector,
                                size_t *count);

#ifdef __cplusplus
}
#endif
#endif
