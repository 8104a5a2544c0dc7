// Takes: the tensors of a GGUF file. Gives: the same under the names, and in the order of rows, that the model has on
// Hugging Face.
//
// Names and changes are a table for each architecture. A change is always one of whole rows (or of a whole matrix), so
// blocks of codes survive it: nothing is decoded here.
#include "runtime/gguf/Gguf.h"

#include "runtime/Error.h"

#include <algorithm>

namespace quern::runtime {

namespace {

/// What the file did to a tensor.
enum class Change {
  None,
  Transposed,
  Pairs,    // rows of each head in pairs (2j, 2j + 1), where the model has halves (j, j + d/2)
  KeyPairs, // the same for the heads of keys
  Thirds,   // all queries, all keys, all values, where the model has a query, key and value for each head
  PlusOne,
  Stacked // one tensor for all experts (or heads); {} in the name counts them
};

struct Name {
  const char *gguf, *published; // a dot in front: in every layer
  Change change = Change::None;
};

constexpr Name likeLlama[] = {{"token_embd", "model.embed_tokens"},
                              {"output_norm", "model.norm"},
                              {"output", "lm_head"},
                              {".attn_norm", ".input_layernorm"},
                              {".ffn_norm", ".post_attention_layernorm"},
                              {".attn_q", ".self_attn.q_proj"},
                              {".attn_k", ".self_attn.k_proj"},
                              {".attn_v", ".self_attn.v_proj"},
                              {".attn_qkv", ".self_attn.qkv_proj"},
                              {".attn_output", ".self_attn.o_proj"},
                              {".attn_q_norm", ".self_attn.q_norm"},
                              {".attn_k_norm", ".self_attn.k_norm"},
                              {".ffn_gate", ".mlp.gate_proj"},
                              {".ffn_up", ".mlp.up_proj"},
                              {".ffn_down", ".mlp.down_proj"},
                              {".ffn_gate_inp", ".mlp.gate"},
                              {".ffn_gate_exps", ".mlp.experts.{}.gate_proj", Change::Stacked},
                              {".ffn_up_exps", ".mlp.experts.{}.up_proj", Change::Stacked},
                              {".ffn_down_exps", ".mlp.experts.{}.down_proj", Change::Stacked}};
constexpr Name inPairs[] = {{".attn_q", ".self_attn.q_proj", Change::Pairs},
                            {".attn_k", ".self_attn.k_proj", Change::KeyPairs},
                            {".ffn_gate_inp", ".block_sparse_moe.gate"},
                            {".ffn_gate_exps", ".block_sparse_moe.experts.{}.w1", Change::Stacked},
                            {".ffn_up_exps", ".block_sparse_moe.experts.{}.w3", Change::Stacked},
                            {".ffn_down_exps", ".block_sparse_moe.experts.{}.w2", Change::Stacked}};
constexpr Name gemma[] = {{"output_norm", "model.norm", Change::PlusOne},
                          {".attn_norm", ".input_layernorm", Change::PlusOne},
                          {".ffn_norm", ".post_attention_layernorm", Change::PlusOne}};
constexpr Name gemma2[] = {{"output_norm", "model.norm", Change::PlusOne},
                           {".attn_norm", ".input_layernorm", Change::PlusOne},
                           {".attn_q_norm", ".self_attn.q_norm", Change::PlusOne},
                           {".attn_k_norm", ".self_attn.k_norm", Change::PlusOne},
                           {".post_attention_norm", ".post_attention_layernorm", Change::PlusOne},
                           {".ffn_norm", ".pre_feedforward_layernorm", Change::PlusOne},
                           {".post_ffw_norm", ".post_feedforward_layernorm", Change::PlusOne}};
constexpr Name phi3[] = {{".ffn_up", ".mlp.gate_up_proj"}};
constexpr Name stablelm[] = {{".attn_q_norm", ".self_attn.q_layernorm.norms.{}", Change::Stacked},
                             {".attn_k_norm", ".self_attn.k_layernorm.norms.{}", Change::Stacked}};
constexpr Name starcoder2[] = {{".ffn_up", ".mlp.c_fc"}, {".ffn_down", ".mlp.c_proj"}};
constexpr Name gpt2[] = {{"token_embd", "transformer.wte"},
                         {"position_embd", "transformer.wpe"},
                         {"output_norm", "transformer.ln_f"},
                         {"output", "lm_head"},
                         {".attn_norm", ".ln_1"},
                         {".attn_qkv", ".attn.c_attn", Change::Transposed},
                         {".attn_output", ".attn.c_proj", Change::Transposed},
                         {".ffn_norm", ".ln_2"},
                         {".ffn_up", ".mlp.c_fc", Change::Transposed},
                         {".ffn_down", ".mlp.c_proj", Change::Transposed}};
constexpr Name starcoder[] = {{".attn_qkv", ".attn.c_attn"}, // Linear, not Conv1D
                              {".attn_output", ".attn.c_proj"},
                              {".ffn_up", ".mlp.c_fc"},
                              {".ffn_down", ".mlp.c_proj"}};
constexpr Name bloom[] = {{"token_embd", "transformer.word_embeddings"},
                          {"token_embd_norm", "transformer.word_embeddings_layernorm"},
                          {"output_norm", "transformer.ln_f"},
                          {"output", "lm_head"},
                          {".attn_norm", ".input_layernorm"},
                          {".attn_qkv", ".self_attention.query_key_value", Change::Thirds},
                          {".attn_output", ".self_attention.dense"},
                          {".ffn_norm", ".post_attention_layernorm"},
                          {".ffn_up", ".mlp.dense_h_to_4h"},
                          {".ffn_down", ".mlp.dense_4h_to_h"}};
constexpr Name gptNeox[] = {{"token_embd", "gpt_neox.embed_in"},
                            {"output_norm", "gpt_neox.final_layer_norm"},
                            {"output", "embed_out"},
                            {".attn_qkv", ".attention.query_key_value", Change::Thirds},
                            {".attn_output", ".attention.dense"}};
constexpr Name mpt[] = {
    {"token_embd", "transformer.wte"}, {"output_norm", "transformer.norm_f"}, {"output", "lm_head"},
    {".attn_norm", ".norm_1"},         {".attn_qkv", ".attn.Wqkv"},           {".attn_output", ".attn.out_proj"},
    {".ffn_norm", ".norm_2"},          {".ffn_up", ".ffn.up_proj"},           {".ffn_down", ".ffn.down_proj"}};
constexpr Name bert[] = {{"token_embd", "bert.embeddings.word_embeddings"},
                         {"position_embd", "bert.embeddings.position_embeddings"},
                         {"token_types", "bert.embeddings.token_type_embeddings"},
                         {"token_embd_norm", "bert.embeddings.LayerNorm"},
                         {".attn_q", ".attention.self.query"},
                         {".attn_k", ".attention.self.key"},
                         {".attn_v", ".attention.self.value"},
                         {".attn_output", ".attention.output.dense"},
                         {".attn_output_norm", ".attention.output.LayerNorm"},
                         {".ffn_up", ".intermediate.dense"},
                         {".ffn_down", ".output.dense"},
                         {".layer_output_norm", ".output.LayerNorm"}};

constexpr Name nomic[] = {{"token_embd", "nomic_bert.embeddings.word_embeddings"},
                          {"token_types", "nomic_bert.embeddings.token_type_embeddings"},
                          {"token_embd_norm", "nomic_bert.emb_ln"},
                          {".attn_qkv", ".attn.Wqkv"},
                          {".attn_output", ".attn.out_proj"},
                          {".attn_output_norm", ".norm1"},
                          {".ffn_gate", ".mlp.fc12"},
                          {".ffn_up", ".mlp.fc11"},
                          {".ffn_down", ".mlp.fc2"},
                          {".layer_output_norm", ".norm2"}};

struct Names {
  const Name *begin = nullptr;
  size_t count = 0;
  template <size_t n> constexpr Names(const Name (&rows)[n]) : begin(rows), count(n) {}
  constexpr Names() = default;
};

/// The first table that has a name holds.
struct Architecture {
  const char *name, *layers;
  Names first, second;
};
constexpr Architecture architectures[] = {
    {"llama", "model.layers.", inPairs, likeLlama},
    {"smollm3", "model.layers.", inPairs, likeLlama},
    {"qwen2", "model.layers.", likeLlama, {}},
    {"qwen2moe", "model.layers.", likeLlama, {}},
    {"qwen3", "model.layers.", likeLlama, {}},
    {"qwen3moe", "model.layers.", likeLlama, {}},
    {"command-r", "model.layers.", likeLlama, {}},
    {"gemma", "model.layers.", gemma, likeLlama},
    {"gemma2", "model.layers.", gemma2, likeLlama},
    {"gemma3", "model.layers.", gemma2, likeLlama},
    {"phi3", "model.layers.", phi3, likeLlama},
    {"stablelm", "model.layers.", stablelm, likeLlama},
    {"starcoder2", "model.layers.", starcoder2, likeLlama},
    {"gpt2", "transformer.h.", gpt2, {}},
    {"starcoder", "transformer.h.", starcoder, gpt2},
    {"bloom", "transformer.h.", bloom, {}},
    {"gptneox", "gpt_neox.layers.", gptNeox, bloom},
    {"mpt", "transformer.blocks.", mpt, {}},
    {"bert", "bert.encoder.layer.", bert, {}},
    {"nomic-bert", "nomic_bert.encoder.layers.", nomic, {}},
};

constexpr int64_t mostStacked = 4096;

/// Part of config.json, not of the weights.
constexpr const char *inConfig[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};

/// A matrix [rows, columns] whose rows are in another order.
class RowReader : public TensorReader {
public:
  GgufTensor stored; // rows * columns elements
  StoredTensor plain;
  int64_t rows = 1, columns = 1, heads = 1;
  Change change = Change::None;

  const char *type() const override { return stored.type(); }
  void read(int64_t first, int64_t count, float *to) const override {
    for (int64_t done = 0; done < count;) {
      const int64_t row = (first + done) / columns, column = (first + done) % columns,
                    length = std::min(columns - column, count - done), from = storedRow(row) * columns + column;
      if (stored.format)
        decodeBlocks(*stored.format, stored.data, from, length, to + done);
      else
        toFloat(plain, from, length, to + done);
      done += length;
    }
    if (change == Change::PlusOne)
      for (int64_t i = 0; i < count; ++i)
        to[i] -= 1;
  }

  const uint8_t *block(std::string_view format, int64_t first, int64_t stride, int64_t count,
                       uint8_t *room) const override {
    if (!stored.format || change == Change::PlusOne || stride != 1)
      return nullptr;
    const int64_t from = storedRow(first / columns) * columns + first % columns, each = stored.format->elements;
    const uint8_t *block = stored.data + from / each * stored.format->bytes;
    if (stored.format->name == format)
      return count != each || from % each ? nullptr : block;
    const int bits = format == "Q8_0" ? 8 : format == "Q4_0" ? 4 : 0;
    if (!bits || !fitsGroups(*stored.format, bits) || count != 32 || from % 32)
      return nullptr;
    return regroup(*stored.format, block, int(from % each), bits, room) ? room : nullptr;
  }

  const char *heldBy() const override {
    if (!stored.format || change == Change::PlusOne || !fitsGroups(*stored.format, 8))
      return nullptr;
    const int bits = fitsGroups(*stored.format, 4) ? 4 : 8;
    if (stored.format->scales == ScaleKind::Exponent) { // of which f16 lacks some
      uint8_t room[34];
      for (int64_t i = 0; i < rows * columns / stored.format->elements; ++i)
        if (!regroup(*stored.format, stored.data + i * stored.format->bytes, 0, bits, room))
          return nullptr;
    }
    return bits == 4 ? "Q4_0" : "Q8_0";
  }

private:
  int64_t storedRow(int64_t row) const {
    const int64_t each = rows / heads, head = row / each, within = row % each;
    switch (change) {
    case Change::Pairs:
    case Change::KeyPairs:
      return head * each + within % (each / 2) * 2 + within / (each / 2);
    case Change::Thirds: {
      const int64_t width = each / 3;
      return within / width * (rows / 3) + head * width + within % width;
    }
    default:
      return row;
    }
  }
};

class Transposed : public TensorReader {
public:
  explicit Transposed(std::shared_ptr<const RowReader> lying) : lying(std::move(lying)) {}
  const char *type() const override { return lying->type(); }
  void read(int64_t first, int64_t count, float *to) const override {
    for (int64_t at = first; at < first + count; ++at) // lying: [rows, columns]; read: [columns, rows]
      lying->read(at % lying->rows * lying->columns + at / lying->rows, 1, to++);
  }
  const TensorReader *transposed() const override { return lying.get(); }
  const char *heldBy() const override { return lying->heldBy(); }

private:
  std::shared_ptr<const RowReader> lying;
};

class Maker {
public:
  Maker(const GgufFile &file, const Architecture &architecture) : file(file), architecture(architecture) {}
  std::map<std::string, StoredTensor> result;

  void add(const std::string &name, const GgufTensor &tensor) {
    if (std::any_of(std::begin(inConfig), std::end(inConfig), [&](const char *known) { return name == known; }))
      return;
    const size_t dot = name.rfind('.');
    std::string stem = name.substr(0, dot), ending = dot == std::string::npos ? "" : name.substr(dot), layer;
    if (stem.starts_with("blk.")) {
      const size_t end = stem.find('.', 4);
      if (end != std::string::npos) {
        layer = architecture.layers + stem.substr(4, end - 4);
        stem = stem.substr(end);
      }
    }
    const Name *row = find(stem);
    if (!row)
      return put(name, view(tensor, Change::None, tensor.shape)); // under its own name, in the list of unused ones
    const std::string published = layer + row->published + ending;
    if (row->change != Change::Stacked)
      return put(published, view(tensor, row->change, tensor.shape));
    const int64_t parts = tensor.shape[0];
    if (tensor.shape.size() < 2 || parts > mostStacked)
      throw UserError(file.file()->name() + ": tensor " + quote(name) + " of shape " + shapeText(tensor.shape) +
                      " is no stack of at most " + std::to_string(mostStacked));
    for (int64_t part = 0; part < parts; ++part) {
      GgufTensor one = tensor;
      one.shape.erase(one.shape.begin());
      one.bytes = tensor.bytes / uint64_t(parts);
      one.data = tensor.data + uint64_t(part) * one.bytes;
      std::string numbered = published;
      numbered.replace(numbered.find("{}"), 2, std::to_string(part));
      put(numbered, view(one, Change::None, one.shape));
    }
  }

private:
  const GgufFile &file;
  const Architecture &architecture;

  const Name *find(const std::string &stem) const {
    for (const Names &names : {architecture.first, architecture.second})
      for (size_t i = 0; i < names.count; ++i)
        if (stem == names.begin[i].gguf)
          return &names.begin[i];
    return nullptr;
  }

  void put(const std::string &name, StoredTensor tensor) {
    if (!result.emplace(name, std::move(tensor)).second)
      throw UserError(file.file()->name() + " holds two tensors that are " + quote(name));
  }

  StoredTensor view(const GgufTensor &tensor, Change change, std::vector<int64_t> shape) const {
    const StoredTensor plain{tensor.plain, shape, tensor.data, tensor.bytes, file.file()};
    const bool vector = shape.size() == 1;
    if (change == Change::Transposed && vector)
      change = Change::None;
    if (!tensor.format && change == Change::None)
      return plain;
    auto reader = std::make_shared<RowReader>();
    reader->stored = tensor;
    reader->plain = plain;
    reader->columns = vector ? 1 : std::max<int64_t>(1, shape.back());
    reader->rows = plain.elements() / reader->columns;
    reader->change = change;
    reader->heads = 1;
    if (change == Change::Pairs || change == Change::KeyPairs || change == Change::Thirds) {
      std::optional<int64_t> heads = file.integer("~.attention.head_count");
      if (change == Change::KeyPairs)
        if (std::optional<int64_t> keys = file.integer("~.attention.head_count_kv"))
          heads = keys;
      const int64_t unit = change == Change::Thirds ? 3 : 2;
      if (!heads || *heads < 1 || *heads > reader->rows || reader->rows % (*heads * unit))
        throw UserError(file.file()->name() + ": its head counts do not fit a tensor of shape " + shapeText(shape));
      reader->heads = *heads;
    }
    StoredTensor result{Dtype::Coded, shape, tensor.data, tensor.bytes, file.file(), reader};
    if (change == Change::Transposed && shape.size() == 2) {
      reader->change = Change::None;
      std::swap(result.shape[0], result.shape[1]);
      result.reader = std::make_shared<Transposed>(reader);
    }
    return result;
  }
};

} // namespace

std::map<std::string, StoredTensor> ggufTensors(const GgufFile &file) {
  const auto *found = std::find_if(std::begin(architectures), std::end(architectures),
                                   [&](const Architecture &a) { return file.architecture() == a.name; });
  if (found == std::end(architectures)) {
    std::string known;
    for (const Architecture &a : architectures)
      known += (known.empty() ? "" : ", ") + std::string(a.name);
    throw UserError(file.file()->name() + " is a model of the architecture " + quote(file.architecture()) +
                    ", whose names are not known here; known are " + known);
  }
  Maker maker(file, *found);
  for (const auto &[name, tensor] : file.tensors())
    maker.add(name, tensor);
  return std::move(maker.result);
}

} // namespace quern::runtime
