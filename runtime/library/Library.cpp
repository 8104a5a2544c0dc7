// Takes: the calls of quern.h. Gives: an engine and its texts to a program in any language. The second file, beside
// Main.cpp, that knows the symbol `quern_program`.
//
// Exceptions end here: each becomes a status and a message. The caller's floating-point mode is as it was after each
// call: kernels run with numbers below 1.2e-38 as 0, which is not everybody's wish.
#include "runtime/quern.h"

#include "runtime/Error.h"
#include "runtime/engine/Batch.h"
#include "runtime/engine/Embedding.h"
#include "runtime/engine/StopRules.h"
#include "runtime/machine/CpuFeatures.h"
#include "runtime/machine/ThreadPool.h"
#include "runtime/tokenizer/files/VocabularyFiles.h"
#include "runtime/weights/Checkpoint.h"

#include <xmmintrin.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <new>

using namespace quern::runtime;

struct quern_engine {
  Program program{quern_program};
  std::unique_ptr<Weights> weights;
  std::optional<Tokenizer> tokenizer;
  std::set<int> ends;
  std::vector<int> start; // of a decoder's text
  std::optional<Session> session;
  std::optional<Engine> engine; // none where the model cannot write text
  std::string refusal;          // then: why
  std::optional<Batch> batch;
  std::mutex mutex;

  Engine &writer() {
    if (!engine)
      throw UserError(refusal);
    return *engine;
  }
  const Tokenizer &words() const {
    if (!tokenizer)
      throw UserError("text needs a tokenizer: there is no tokenizer.json beside the weights, and none was given");
    return *tokenizer;
  }
};

struct quern_sequence {
  quern_engine &engine;
  Sequence::Options options{};
  StopRules stop{};
  std::unique_ptr<StopCheck> check{};
  std::unique_ptr<Sequence> text{};
  bool hasSource = false;
  std::string shown{};

  /// From here on its options are fixed.
  Sequence &begun() {
    if (!text) {
      text = std::make_unique<Sequence>(engine.writer(), options);
      if (engine.engine->functions().hasSource())
        text->append(engine.start);
    }
    return *text;
  }
};

namespace {

thread_local std::string message;

/// Runs a call's body with the engine to itself.
template <typename Body> quern_status guarded(std::mutex *mutex, Body body) {
  unsigned mode = _mm_getcsr();
  quern_status status = QUERN_OK;
  try {
    std::unique_lock<std::mutex> lock;
    if (mutex)
      lock = std::unique_lock(*mutex);
    flushDenormals();
    body();
  } catch (const UserError &error) {
    message = error.what();
    status = QUERN_INPUT;
  } catch (const std::bad_alloc &) {
    message = "not enough memory";
    status = QUERN_MACHINE;
  } catch (const std::exception &error) {
    message = error.what();
    status = QUERN_MACHINE;
  }
  _mm_setcsr(mode);
  return status;
}

void require(const void *given, const char *name) {
  if (!given)
    throw UserError(std::string(name) + " is NULL");
}

/// Copies a result to where the caller wants it.
template <typename From, typename To>
void giveOut(const From &from, size_t length, To *to, size_t *room, const char *what) {
  require(room, "the place of the length");
  size_t given = *room;
  *room = length;
  if (length > given)
    throw UserError(format("%zu %s do not fit the room for %zu", length, what, given));
  if (length > 0) {
    require(to, "the result's place");
    std::copy(from, from + length, to);
  }
}

void prefill(quern_sequence &sequence, const std::vector<int> &tokens) {
  Engine &engine = sequence.engine.writer();
  const TextFunctions &functions = engine.functions();
  bool isSource = functions.hasSource() && !sequence.hasSource;
  int64_t bound = isSource ? functions.sourceBound(engine.description()) : engine.tokenBound();
  for (int token : tokens)
    if (token < 0 || token >= bound)
      throw UserError(
          format("the token %d is unknown: the model's vocabulary has %lld", token, static_cast<long long>(bound)));
  Sequence &text = sequence.begun();
  int64_t length = int64_t(tokens.size()) + (isSource ? 0 : int64_t(text.tokens().size()));
  if (int64_t longest = isSource ? functions.longestSource(engine.description()) : engine.longest(); length > longest)
    throw UserError(format("a text of %lld tokens, but the model has only %lld positions",
                           static_cast<long long>(length), static_cast<long long>(longest)));
  if (isSource) {
    text.setSource(tokens);
    sequence.hasSource = true;
  } else {
    text.append(tokens);
  }
  if (!text.tokens().empty())
    text.logits();
}

/// What every step begins with.
void requireText(quern_sequence &sequence) {
  if (!sequence.text || sequence.text->tokens().empty() ||
      (sequence.engine.engine->functions().hasSource() && !sequence.hasSource))
    throw UserError("a sequence is prefilled before its first step");
  if (sequence.check && sequence.check->done())
    throw UserError("the sequence has ended");
  if (!sequence.text->hasRoom())
    throw UserError(
        format("the model has no more than %lld positions", static_cast<long long>(sequence.engine.engine->longest())));
  if (!sequence.check) {
    const std::optional<Tokenizer> &tokenizer = sequence.engine.tokenizer;
    bool isPair = sequence.engine.engine->functions().hasSource();
    sequence.check = std::make_unique<StopCheck>(sequence.stop, tokenizer ? &*tokenizer : nullptr,
                                                 isPair ? std::vector<int>() : sequence.text->tokens());
  }
}

quern_choice choose(quern_sequence &sequence) {
  Chosen chosen = sequence.text->chooseScored();
  sequence.shown = sequence.check->push(chosen.token);
  bool done = sequence.check->done() || !sequence.text->hasRoom();
  if (done)
    sequence.shown += sequence.check->finish();
  return {chosen.token, done, chosen.logProbability, sequence.shown.data(), sequence.shown.size()};
}

} // namespace

extern "C" {

const char *quern_message(void) {
  return message.c_str();
}

quern_status quern_open(const char *weights, const char *tokenizer, int threads, quern_engine **result) {
  return guarded(nullptr, [&] {
    require(weights, "weights");
    require(result, "engine");
    *result = nullptr;
    auto made = std::make_unique<quern_engine>();
    const Description &d = made->program.description;
    requireCpuFeatures(d.cpu);
    ThreadPool::configure(std::clamp(threads, 0, 1024));
    ThreadPool::instance();
    std::string folder = isFolder(weights) ? weights : folderOf(weights);
    if (tokenizer) {
      const auto [json, path] = tokenizerAt(tokenizer);
      made->tokenizer = Tokenizer::parse(json, path);
    } else if (std::optional<std::string> inside = textInside(weights, "tokenizer.json")) {
      made->tokenizer = Tokenizer::parse(*inside, weights);
    } else if (const std::optional<TokenizerText> text = findTokenizer([&](const std::string &name) {
                 const std::string path = folder + "/" + name;
                 return fileExists(path) ? std::optional(readFile(path)) : std::nullopt;
               })) {
      made->tokenizer = Tokenizer::parse(text->json, folder + "/" + text->file);
    }
    made->ends = idsOf(d.fileConfig, "eos_token_id");
    std::vector<nlohmann::json> configs = {d.fileConfig};
    if (std::optional<std::string> inside = textInside(weights, "generation_config.json"))
      configs.insert(configs.begin(), parseGenerationConfig(*inside));
    else if (std::string path = folder + "/generation_config.json"; fileExists(path))
      configs.insert(configs.begin(), parseGenerationConfig(readFile(path)));
    for (const nlohmann::json &config : configs)
      made->ends.merge(idsOf(config, "eos_token_id"));
    for (const char *name : {"decoder_start_token_id", "bos_token_id"})
      for (const nlohmann::json &config : configs)
        if (std::set<int> ids = idsOf(config, name); made->start.empty() && !ids.empty())
          made->start = {*ids.begin()};
    made->weights = Weights::load(d, TensorSource::open(weights));
    made->session.emplace(made->program, *made->weights);
    try {
      made->engine.emplace(*made->session);
      if (made->engine->functions().batches())
        made->batch.emplace(*made->engine);
    } catch (const UserError &error) { // other functions may still be of use
      made->refusal = error.what();
    }
    *result = made.release();
  });
}

void quern_close(quern_engine *engine) {
  delete engine;
}

int64_t quern_vocabulary(const quern_engine *engine) {
  return engine && engine->engine ? engine->engine->vocabulary() : 0;
}

int64_t quern_context(const quern_engine *engine) {
  return engine && engine->engine ? engine->engine->longest() : 0;
}

quern_status quern_tokenize(quern_engine *engine, const char *text, size_t bytes, int32_t *tokens, size_t *count) {
  return guarded(nullptr, [&] {
    require(engine, "engine");
    require(text, "text");
    std::vector<int> made = engine->words().encode({text, bytes}, true);
    giveOut(made.begin(), made.size(), tokens, count, "tokens");
  });
}

quern_status quern_detokenize(quern_engine *engine, const int32_t *tokens, size_t count, char *text, size_t *bytes) {
  return guarded(nullptr, [&] {
    require(engine, "engine");
    if (count)
      require(tokens, "tokens");
    std::string made = engine->words().decode({tokens, tokens + count}, true);
    giveOut(made.begin(), made.size(), text, bytes, "bytes");
  });
}

quern_status quern_begin(quern_engine *engine, quern_sequence **sequence) {
  return guarded(nullptr, [&] {
    require(engine, "engine");
    require(sequence, "sequence");
    engine->writer();
    *sequence = new quern_sequence{*engine};
    (*sequence)->stop.ends = engine->ends;
  });
}

void quern_end(quern_sequence *sequence) {
  if (!sequence)
    return;
  std::mutex &mutex = sequence->engine.mutex;
  std::lock_guard<std::mutex> lock(mutex);
  delete sequence;
}

quern_status quern_set(quern_sequence *sequence, const char *name, double value) {
  return guarded(nullptr, [&] {
    require(sequence, "sequence");
    require(name, "name");
    if (sequence->text)
      throw UserError("a sequence's options are set before it is prefilled");
    std::string key = name;
    if (key == "eos") {
      sequence->stop.ends = value != 0 ? sequence->engine.ends : std::set<int>();
    } else if (key == "seed" || key == "most") {
      if (!(value >= 0 && value <= 0x1p53 && value == std::floor(value)))
        throw UserError(key + format(" must be a whole number, not %g", value));
      if (key == "seed")
        sequence->options.sampling.seed = uint64_t(value);
      else
        sequence->stop.most = int64_t(value);
    } else {
      SamplerOptions changed = sequence->options.sampling;
      changed.rules[key] = value;
      Sampler check(changed); // throws for unknown names and values out of range
      sequence->options.sampling = changed;
    }
  });
}

quern_status quern_bias(quern_sequence *sequence, int32_t token, double added) {
  return guarded(nullptr, [&] {
    require(sequence, "sequence");
    if (sequence->text)
      throw UserError("a sequence's options are set before it is prefilled");
    if (int64_t words = sequence->engine.writer().vocabulary(); token < 0 || token >= words)
      throw UserError(
          format("the token %d is unknown: the model's vocabulary has %lld", token, static_cast<long long>(words)));
    if (!(added < __builtin_inf()))
      throw UserError("a bias is a number or -infinity");
    sequence->options.sampling.bias[token] = added;
  });
}

quern_status quern_stop_at(quern_sequence *sequence, const char *text) {
  return guarded(nullptr, [&] {
    require(sequence, "sequence");
    require(text, "text");
    sequence->engine.words();
    if (!*text)
      throw UserError("a text to stop at is not empty");
    if (sequence->text)
      throw UserError("a sequence's options are set before it is prefilled");
    sequence->stop.strings.push_back(text);
  });
}

quern_status quern_prefill(quern_sequence *sequence, const int32_t *tokens, size_t count) {
  if (!sequence)
    return guarded(nullptr, [&] { require(sequence, "sequence"); });
  return guarded(&sequence->engine.mutex, [&] {
    if (count)
      require(tokens, "tokens");
    prefill(*sequence, {tokens, tokens + count});
  });
}

quern_status quern_prefill_text(quern_sequence *sequence, const char *text, size_t bytes) {
  if (!sequence)
    return guarded(nullptr, [&] { require(sequence, "sequence"); });
  return guarded(&sequence->engine.mutex, [&] {
    require(text, "text");
    // What the tokenizer puts around a text belongs to its start alone.
    bool isFirst = !sequence->text || (sequence->engine.writer().functions().hasSource() && !sequence->hasSource);
    prefill(*sequence, sequence->engine.words().encode({text, bytes}, isFirst));
  });
}

quern_status quern_logits(quern_sequence *sequence, const float **logits, size_t *count) {
  if (!sequence)
    return guarded(nullptr, [&] { require(sequence, "sequence"); });
  return guarded(&sequence->engine.mutex, [&] {
    require(logits, "logits");
    require(count, "count");
    std::span<const float> made = sequence->begun().logits();
    *logits = made.data();
    *count = made.size();
  });
}

quern_status quern_step(quern_sequence *sequence, quern_choice *choice) {
  if (!sequence)
    return guarded(nullptr, [&] { require(sequence, "sequence"); });
  return guarded(&sequence->engine.mutex, [&] {
    require(choice, "choice");
    requireText(*sequence);
    *choice = choose(*sequence);
  });
}

quern_status quern_step_batch(quern_sequence *const *sequences, size_t count, quern_choice *choices) {
  if (!sequences || count == 0 || !sequences[0])
    return guarded(nullptr, [&] { require(nullptr, "sequences"); });
  quern_engine &engine = sequences[0]->engine;
  return guarded(&engine.mutex, [&] {
    require(choices, "choices");
    std::vector<Sequence *> texts;
    for (size_t i = 0; i < count; ++i) {
      require(sequences[i], "a sequence");
      if (&sequences[i]->engine != &engine)
        throw UserError("the sequences of a batch are of one engine");
      requireText(*sequences[i]);
      if (std::count(texts.begin(), texts.end(), sequences[i]->text.get()))
        throw UserError("a sequence is in a batch once");
      texts.push_back(sequences[i]->text.get());
    }
    if (engine.batch) {
      engine.batch->keepOnly(texts);
      for (Sequence *text : texts)
        if (!engine.batch->holds(*text))
          engine.batch->add(*text);
      engine.batch->step();
    }
    for (size_t i = 0; i < count; ++i)
      choices[i] = choose(*sequences[i]);
  });
}

quern_status quern_embed(quern_engine *engine, const char *text, size_t bytes, float *vector, size_t *count) {
  return quern_embed_result(engine, nullptr, text, bytes, vector, count);
}

quern_status quern_embed_result(quern_engine *engine, const char *name, const char *text, size_t bytes, float *vector,
                                size_t *count) {
  if (!engine)
    return guarded(nullptr, [&] { require(engine, "engine"); });
  return guarded(&engine->mutex, [&] {
    require(text, "text");
    const EmbeddingResult result = findEmbedding(engine->program.description, name ? name : "");
    int64_t longest = engine->session->longestText(result.function);
    std::vector<int> tokens = engine->words().encode({text, bytes}, true, size_t(longest));
    const std::vector<float> made = embedTokens(*engine->session, result, {tokens})[0];
    giveOut(made.begin(), made.size(), vector, count, "numbers");
  });
}

} // extern "C"
