/* A program in C with a model inside: it continues a text, and then several at once.
 *
 *   quern compile examples/llama.quern --config tests/data/stories260K/config.json --emit lib -o libstories.a
 *   cc -Wl,--gc-sections -I. examples/embed/embed.c libstories.a -lstdc++ -lm -pthread -o stories
 *   ./stories tests/data/stories260K 40 "Once upon a time" */
#include "quern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(quern_status status) {
  if (status != QUERN_OK) {
    fprintf(stderr, "error: %s\n", quern_message());
    exit(status);
  }
}

/* One text, written as it is made. */
static void write_one(quern_engine *engine, const char *prompt, double most) {
  quern_sequence *text;
  check(quern_begin(engine, &text));
  check(quern_set(text, "most", most));
  check(quern_prefill_text(text, prompt, strlen(prompt)));
  fputs(prompt, stdout);
  quern_choice next = {0};
  while (!next.done) {
    check(quern_step(text, &next));
    fwrite(next.text, 1, next.bytes, stdout);
    fflush(stdout);
  }
  putchar('\n');
  quern_end(text);
}

/* Several texts: each step reads the weights once for all of them. Those that are done leave. */
static void write_many(quern_engine *engine, char **prompts, size_t count, double most) {
  quern_sequence **going = malloc(count * sizeof *going);
  quern_choice *choices = malloc(count * sizeof *choices);
  char **results = calloc(count, sizeof *results);
  size_t *places = malloc(count * sizeof *places), *lengths = calloc(count, sizeof *lengths), left = count, i, kept;
  for (i = 0; i < count; ++i) {
    places[i] = i;
    check(quern_begin(engine, &going[i]));
    check(quern_set(going[i], "most", most));
    check(quern_prefill_text(going[i], prompts[i], strlen(prompts[i])));
  }
  while (left > 0) {
    check(quern_step_batch(going, left, choices));
    for (i = kept = 0; i < left; ++i) {
      size_t at = places[i];
      results[at] = realloc(results[at], lengths[at] + choices[i].bytes + 1);
      memcpy(results[at] + lengths[at], choices[i].text, choices[i].bytes);
      lengths[at] += choices[i].bytes;
      if (choices[i].done) {
        quern_end(going[i]);
      } else {
        going[kept] = going[i];
        places[kept++] = at;
      }
    }
    left = kept;
  }
  for (i = 0; i < count; ++i) {
    printf("%s%.*s\n", prompts[i], (int)lengths[i], results[i]);
    free(results[i]);
  }
  free(going), free(choices), free(results), free(places), free(lengths);
}

int main(int count, char **arguments) {
  if (count < 4) {
    fprintf(stderr, "usage: %s WEIGHTS TOKENS PROMPT...\n", arguments[0]);
    return 1;
  }
  quern_engine *engine;
  check(quern_open(arguments[1], NULL, 0, &engine));
  double most = atof(arguments[2]);
  if (count == 4)
    write_one(engine, arguments[3], most);
  else
    write_many(engine, arguments + 3, (size_t)count - 3, most);
  quern_close(engine);
  return 0;
}
