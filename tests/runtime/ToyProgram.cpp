// Takes: quern_call. Gives: what generated code would: results, caches, kept values, failed checks.
#include "tests/runtime/ToyProgram.h"

#include "runtime/files/Safetensors.h"
#include "tests/runtime/TestData.h"

#include <cmath>
#include <cstring>

namespace quern::runtime::test {

int64_t toyRaggedRows = 0;

namespace {

constexpr int V = 16, D = 4, tile = 8;
enum Symbol { B, S, T, Cap, Past };
enum Slot { Words, Head, Scale };

const float *slot(const quern_call *call, int number) {
  return static_cast<const float *>(call->slots[number][0]);
}

float stretch(int64_t total) {
  return total > 8 ? 2.0f : 1.0f;
}

/// Fills the cache with the new rows and gives the mean up to position `t` of row `b`.
void meanUpTo(const quern_call *call, int64_t b, int64_t t, float *result) {
  const float *cache = static_cast<const float *>(call->states[0]) + b * call->sizes[Cap] * D;
  for (int d = 0; d < D; ++d) {
    double sum = 0;
    for (int64_t s = 0; s <= call->sizes[Past] + t; ++s)
      sum += cache[s * D + d];
    result[d] = float(sum / double(call->sizes[Past] + t + 1));
  }
}

int32_t remember(const quern_call *call, int input) {
  const int32_t *tokens = static_cast<const int32_t *>(call->inputs[input]);
  float *cache = static_cast<float *>(call->states[0]);
  float factor = stretch(call->sizes[Past] + call->sizes[T]);
  for (int64_t b = 0; b < call->sizes[B]; ++b)
    for (int64_t t = 0; t < call->sizes[T]; ++t) {
      int token = tokens[b * call->sizes[T] + t];
      if (token == 13 && t > 0 && tokens[b * call->sizes[T] + t - 1] == 13)
        return -1;
      for (int d = 0; d < D; ++d)
        cache[(b * call->sizes[Cap] + call->sizes[Past] + t) * D + d] = factor * slot(call, Words)[token * D + d];
    }
  return 0;
}

void project(const quern_call *call, const float *row, float *logits) {
  for (int v = 0; v < V; ++v) {
    logits[v] = 0;
    for (int d = 0; d < D; ++d)
      logits[v] += slot(call, Head)[(v / tile * D + d) * tile + v % tile] * row[d] * slot(call, Scale)[d];
  }
}

template <bool last, bool pair> int32_t decode(const quern_call *call) {
  float *kept = reinterpret_cast<float *>(call->kept);
  if (pair && call->first)
    for (int64_t b = 0; b < call->sizes[B]; ++b)
      for (int d = 0; d < D; ++d) {
        float sum = 0;
        for (int64_t s = 0; s < call->sizes[S]; ++s)
          sum += static_cast<const float *>(call->inputs[1])[(b * call->sizes[S] + s) * D + d];
        kept[b * D + d] = sum / float(call->sizes[S]);
      }
  if (int32_t failed = remember(call, 0))
    return failed;
  float *logits = static_cast<float *>(call->outputs[0]), *row = reinterpret_cast<float *>(call->arena);
  for (int64_t b = 0; b < call->sizes[B]; ++b)
    for (int64_t t = last ? call->sizes[T] - 1 : 0; t < call->sizes[T]; ++t) {
      meanUpTo(call, b, t, row);
      for (int d = 0; pair && d < D; ++d)
        row[d] += kept[b * D + d];
      project(call, row, logits);
      logits += V;
    }
  return 0;
}

int32_t encode(const quern_call *call) {
  const int32_t *tokens = static_cast<const int32_t *>(call->inputs[0]);
  float *memory = static_cast<float *>(call->outputs[0]);
  for (int64_t i = 0; i < call->sizes[B] * call->sizes[S]; ++i)
    for (int d = 0; d < D; ++d)
      memory[i * D + d] = 2 * slot(call, Words)[tokens[i] * D + d];
  return 0;
}

int32_t embed(const quern_call *call) {
  const int32_t *tokens = static_cast<const int32_t *>(call->inputs[0]);
  const uint8_t *mask = static_cast<const uint8_t *>(call->inputs[1]);
  for (int64_t b = 0; b < call->sizes[B]; ++b) {
    float *row = static_cast<float *>(call->outputs[0]) + b * D, length = 0;
    std::memset(row, 0, D * sizeof(float));
    for (int64_t t = 0; t < call->sizes[T]; ++t)
      for (int d = 0; d < D && mask[b * call->sizes[T] + t]; ++d)
        row[d] += slot(call, Words)[tokens[b * call->sizes[T] + t] * D + d];
    for (int d = 0; d < D; ++d)
      length += row[d] * row[d];
    for (int d = 0; d < D; ++d)
      row[d] /= std::sqrt(length);
  }
  return 0;
}

int32_t allTrue(const quern_call *call) {
  std::memset(call->outputs[0], 1, size_t(call->sizes[B] * call->sizes[T]));
  return 0;
}

/// decode<true, false> for rows that begin at slots `shift`.
int32_t ragged(const quern_call *call) {
  const int32_t *tokens = static_cast<const int32_t *>(call->inputs[0]),
                *shift = static_cast<const int32_t *>(call->inputs[1]);
  float *cache = static_cast<float *>(call->states[0]), row[D];
  int64_t T = call->sizes[Symbol::T], end = call->sizes[Past] + T;
  for (int64_t b = 0; b < call->sizes[B]; ++b) {
    float *own = cache + b * call->sizes[Cap] * D;
    for (int64_t t = 0; t < T; ++t)
      for (int d = 0; d < D; ++d)
        own[(call->sizes[Past] + t) * D + d] = stretch(end - shift[b]) * slot(call, Words)[tokens[b * T + t] * D + d];
    for (int d = 0; d < D; ++d) {
      double sum = 0;
      for (int64_t s = shift[b]; s < end; ++s)
        sum += own[s * D + d];
      row[d] = float(sum / double(end - shift[b]));
    }
    project(call, row, static_cast<float *>(call->outputs[0]) + b * V);
  }
  toyRaggedRows += call->sizes[B] * T;
  return 0;
}

int64_t someBytes(const int64_t *) {
  return D * sizeof(float);
}
int64_t keptBytes(const int64_t *sizes) {
  return sizes[B] * D * int64_t(sizeof(float));
}
uint64_t epoch(const int64_t *sizes) {
  return sizes[Past] + sizes[T] > 8;
}

#define PARAMETERS                                                                                                     \
  R"("parameters": [{"names": ["old.words", "words"], "shape": [16, 4], "at": "toy.quern:3:5"}, )"                     \
  R"({"names": ["head"], "shape": [4, 16], "at": "toy.quern:4:5", "init": {"kind": "uniform", "value": 0.5}}, )"       \
  R"({"names": ["scale"], "shape": [4], "at": "toy.quern:5:5", "init": {"kind": "ones"}}], )"                          \
  R"("slots": [{"iterations": [[0]], "layout": {"kind": "dense"}}, )"                                                  \
  R"({"iterations": [[1]], "layout": {"kind": "packed", "inner": 4, "tile": 8, "parts": [)"                            \
  R"({"outer": 16, "outer_stride": 1, "inner_stride": 16}]}}, )"                                                       \
  R"({"iterations": [[2]], "layout": {"kind": "dense"}}], )"                                                           \
  R"("ignore": ["*.inv_freq"], "cpu": ["sse2"], "symbols": ["B", "S", "T", "cap", "past"], "batch": "B", "time": "T", )"
#define CACHE                                                                                                          \
  R"("states": [{"name": "x", "kind": "real", "dims": ["B", "cap", 4]}], )"                                            \
  R"("limits": [{"symbol": "T", "plus_past": true, "at_most": 24, "at": "toy.quern:9:3", "name": "P"}], )"             \
  R"("checks": [{"at": "toy.quern:7:2", "message": "the word 13 twice brings bad luck"}], )"
constexpr char decoderText[] = R"({"quern": 1, "model": "toy", "spec": "toy.quern", )" PARAMETERS CACHE R"(
   "file_config": {"bos_token_id": 1, "eos_token_id": [15], "max_position_embeddings": 24},
   "functions": [
     {"name": "forward", "role": "eval", "inputs": [{"name": "tokens", "kind": "int", "dims": ["B", "T"], "below": 16}],
      "outputs": [{"name": "logits", "kind": "real", "dims": ["B", "T", 16]}], "flops": "128 * B * T", "bytes": "528"},
     {"name": "forward.last", "role": "step", "inputs": [{"name": "tokens", "kind": "int", "dims": ["B", "T"], "below": 16}],
      "outputs": [{"name": "logits", "kind": "real", "dims": ["B", 16]}], "flops": "128 * B", "bytes": "272 + 16 * past + 16 * T"}]})";
#define DECODER                                                                                                             \
  R"({"quern": 1, "model": "toy", "spec": "toy.quern", )" PARAMETERS CACHE                                                  \
  R"("file_config": {"bos_token_id": 1}, "functions": [)"                                                                   \
  R"({"name": "forward", "role": "eval", "inputs": [{"name": "tokens", "kind": "int", "dims": ["B", "T"], "below": 16}], )" \
  R"("outputs": [{"name": "logits", "kind": "real", "dims": ["B", "T", 16]}]})"
constexpr char wholeText[] = DECODER R"(], "refusal": "toy.quern:8:7: sum[T] is not causal"})";
constexpr char batchText[] = DECODER
    R"(, {"name": "forward.last", "role": "step", "inputs": [{"name": "tokens", "kind": "int", "dims": ["B", "T"], "below": 16}],
          "outputs": [{"name": "logits", "kind": "real", "dims": ["B", 16]}]},
         {"name": "forward.ragged", "role": "ragged", "inputs": [{"name": "tokens", "kind": "int", "dims": ["B", "T"], "below": 16},
          {"name": "shift", "kind": "int", "dims": ["B"]}], "outputs": [{"name": "logits", "kind": "real", "dims": ["B", 16]}]}]})";
constexpr char pairText[] = R"({"quern": 1, "model": "toy pair", "spec": "toy.quern", )" PARAMETERS CACHE R"(
   "file_config": {"decoder_start_token_id": 2},
   "functions": [
     {"name": "encode", "role": "eval", "inputs": [{"name": "tokens", "kind": "int", "dims": ["B", "S"], "below": 16}],
      "outputs": [{"name": "memory", "kind": "real", "dims": ["B", "S", 4]}]},
     {"name": "decode", "role": "eval", "inputs": [{"name": "target", "kind": "int", "dims": ["B", "T"], "below": 16},
       {"name": "memory", "kind": "real", "dims": ["B", "S", 4]}],
      "outputs": [{"name": "logits", "kind": "real", "dims": ["B", "T", 16]}]},
     {"name": "decode.last", "role": "step", "inputs": [{"name": "target", "kind": "int", "dims": ["B", "T"], "below": 16},
       {"name": "memory", "kind": "real", "dims": ["B", "S", 4]}],
      "outputs": [{"name": "logits", "kind": "real", "dims": ["B", 16]}]}]})";
constexpr char encoderText[] = R"({"quern": 1, "model": "toy encoder", "spec": "toy.quern", )" PARAMETERS R"(
   "states": [], "refusal": "toy.quern:8:7: sum[T] is not causal", "limits": [{"symbol": "T", "at_most": 6, "at": "toy.quern:9:3"}],
   "functions": [
     {"name": "forward", "role": "eval", "inputs": [{"name": "tokens", "kind": "int", "dims": ["B", "T"], "below": 16},
       {"name": "mask", "kind": "bool", "dims": ["B", "T"], "optional": true, "default": "forward.default.mask"}],
      "outputs": [{"name": "logits", "kind": "real", "dims": ["B", 4]}]},
     {"name": "forward.default.mask", "role": "default", "inputs": [], "outputs": [{"name": "mask", "kind": "bool", "dims": ["B", "T"]}]}]})";

constexpr quern_entry decoderEntries[] = {{decode<false, false>, someBytes, someBytes, epoch, nullptr, nullptr},
                                          {decode<true, false>, someBytes, someBytes, epoch, nullptr, nullptr}};
constexpr quern_entry batchEntries[] = {
    decoderEntries[0], decoderEntries[1], {ragged, someBytes, someBytes, epoch, nullptr, nullptr}};
constexpr quern_entry pairEntries[] = {{encode, someBytes, someBytes, nullptr, nullptr, nullptr},
                                       {decode<false, true>, someBytes, keptBytes, nullptr, nullptr, nullptr},
                                       {decode<true, true>, someBytes, keptBytes, nullptr, nullptr, nullptr}};
constexpr quern_entry encoderEntries[] = {{embed, someBytes, someBytes, nullptr, nullptr, nullptr},
                                          {allTrue, someBytes, someBytes, nullptr, nullptr, nullptr}};

float word(int v, int d) {
  return float((v * 7 + d * 5) % 11 - 5) / 4;
}
float head(int d, int v) {
  return float((v * 5 + d * 3 + v * d) % 13 - 6) / 3;
}
float scale(int d) {
  return 1 + float(d) / 4;
}

} // namespace

const quern_program_table toyDecoder = {QUERN_ABI_VERSION, 2, decoderText, sizeof(decoderText) - 1, decoderEntries};
const quern_program_table toyWhole = {QUERN_ABI_VERSION, 1, wholeText, sizeof(wholeText) - 1, decoderEntries};
const quern_program_table toyBatch = {QUERN_ABI_VERSION, 3, batchText, sizeof(batchText) - 1, batchEntries};
const quern_program_table toyPair = {QUERN_ABI_VERSION, 3, pairText, sizeof(pairText) - 1, pairEntries};
const quern_program_table toyEncoder = {QUERN_ABI_VERSION, 2, encoderText, sizeof(encoderText) - 1, encoderEntries};

int toyNext(const std::vector<int> &text) {
  double best = 0;
  int token = -1;
  for (int v = 0; v < V; ++v) {
    double logit = 0;
    for (int d = 0; d < D; ++d) {
      double mean = 0;
      for (int t : text)
        mean += stretch(int64_t(text.size())) * word(t, d);
      logit += head(d, v) * scale(d) * mean / double(text.size());
    }
    if (token < 0 || logit > best + 1e-6) {
      best = logit;
      token = v;
    }
  }
  return token;
}

std::string writeToyWeights() {
  std::vector<float> words, heads, scales;
  for (int v = 0; v < V; ++v)
    for (int d = 0; d < D; ++d)
      words.push_back(word(v, d));
  for (int d = 0; d < D; ++d)
    for (int v = 0; v < V; ++v)
      heads.push_back(head(d, v));
  for (int d = 0; d < D; ++d)
    scales.push_back(scale(d));
  std::string path = temporaryPath("toy.safetensors");
  writeSafetensors(path, {{"words", Dtype::F32, {V, D}, words.data()},
                          {"head", Dtype::F32, {D, V}, heads.data()},
                          {"scale", Dtype::F32, {D}, scales.data()}});
  return path;
}

std::string writeToyTokenizer() {
  nlohmann::json json = {
      {"version", "1.0"}, {"added_tokens", nlohmann::json::array()}, {"pre_tokenizer", {{"type", "WhitespaceSplit"}}}};
  json["model"] = {{"type", "WordLevel"}, {"unk_token", "a"}, {"vocab", nlohmann::json::object()}};
  for (int v = 0; v < V; ++v)
    json["model"]["vocab"][std::string(1, char('a' + v))] = v;
  std::string path = temporaryPath("tokenizer.json");
  writeText(path, json.dump());
  return path;
}

} // namespace quern::runtime::test

/// The model of quern.h in these tests.
extern "C" const quern_program_table quern_program = {QUERN_ABI_VERSION, 3, quern::runtime::test::batchText,
                                                      sizeof(quern::runtime::test::batchText) - 1,
                                                      quern::runtime::test::batchEntries};
