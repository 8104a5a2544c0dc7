// Takes: the tensors of a GGUF file. Gives: the same under the names, and in the order of rows, that the model has on
// Hugging Face. Nothing is decoded here.
#include "runtime/Error.h"
#include "runtime/gguf/Gguf.h"
#include "runtime/gguf/GgufReaders.h"

#include <algorithm>
#include <cstdlib>

namespace quern::runtime {

namespace {

constexpr int64_t mostStacked = 4096;

/// Part of config.json, not of the weights.
constexpr const char *inConfig[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};

class Maker {
public:
  explicit Maker(const GgufFile &file) : file(file), names(namesOf(file)) {}

  std::map<std::string, StoredTensor> run() {
    for (const auto &[name, tensor] : file.tensors())
      if (!isFactor(name) && !guessesFurther(name))
        add(name, withFactors(name, tensor));
    if (file.architecture() == "apertus")
      activations();
    return std::move(result);
  }

private:
  const GgufFile &file;
  const GgufArchitecture &names;
  std::map<std::string, StoredTensor> result;

  static std::string stemOf(const std::string &name) { return name.substr(0, name.rfind('.')); }

  /// A .scale that is a tensor of the model (Gemma 4's router): its name is in the tables, and the weight is not in NVFP4.
  bool isOwn(const std::string &name) const {
    const std::string local = placeOf(name).local;
    const GgufTensor *weight = file.find(stemOf(name) + ".weight");
    return find(local).second.empty() && find(local).first && !(weight && weight->type() == std::string_view("NVFP4"));
  }

  /// NVFP4's scale of a whole weight, or of each expert's, and that of its activations, which are not quantised here.
  bool isFactor(const std::string &name) const {
    return !isOwn(name) && (name.ends_with(".scale") || name.ends_with(".input_scale")) &&
           file.find(stemOf(name) + ".weight");
  }

  /// Layers behind the model's, which guess the tokens after the next.
  bool guessesFurther(const std::string &name) const {
    const int64_t further = count("~.nextn_predict_layers");
    return further > 0 && name.starts_with("blk.") &&
           std::strtoll(name.c_str() + 4, nullptr, 10) >= count("~.block_count") - further;
  }

  GgufTensor withFactors(const std::string &name, GgufTensor tensor) const {
    const GgufTensor *scale = name.ends_with(".weight") ? file.find(stemOf(name) + ".scale") : nullptr;
    if (!scale || isOwn(stemOf(name) + ".scale"))
      return tensor;
    tensor.factors = file.numbers(*scale);
    const int64_t count = int64_t(tensor.factors.size());
    if (tensor.elements() == 0 || (count != 1 && count != tensor.shape[0]))
      misfit(name, tensor, "does not fit its .scale of shape " + shapeText(scale->shape));
    return tensor;
  }

  [[noreturn]] void misfit(const std::string &name, const GgufTensor &tensor, const std::string &reason) const {
    throw UserError(file.file()->name() + ": tensor " + quote(name) + " of shape " + shapeText(tensor.shape) + " " +
                    reason);
  }

  /// "blk.3.attn_q.weight" is ".attn_q.weight" in the layer "blk.3" here and "model.layers.3" there; T5's two stacks
  /// are "enc.blk.3" and "dec.blk.3".
  struct Place {
    std::string local, here, there;
  };
  Place placeOf(const std::string &name) const {
    const std::string stack = name.starts_with("enc.blk.") || name.starts_with("dec.blk.") ? name.substr(0, 3) : "";
    const size_t number = (stack.empty() ? 0 : 4) + 4, end = name.find('.', number);
    if (name.compare(number - 4, 4, "blk.") != 0 || end == std::string::npos)
      return {name, "", ""};
    const std::string prefix = stack.empty() ? names.layers : stack == "enc" ? "encoder.block." : "decoder.block.";
    return {stack + name.substr(end), name.substr(0, end), prefix + name.substr(number, end - number)};
  }

  /// The row of that name, with its ending or without, and what is left of the name.
  std::pair<const GgufName *, std::string> find(const std::string &local) const {
    const size_t dot = local.rfind('.');
    const std::string stem = dot == std::string::npos ? "" : local.substr(0, dot);
    for (const auto &table : names.tables)
      for (const GgufName &row : table)
        if (local == row.gguf)
          return {&row, ""};
    for (const auto &table : names.tables)
      for (const GgufName &row : table)
        if (stem == row.gguf)
          return {&row, local.substr(dot)};
    return {nullptr, ""};
  }

  void add(const std::string &name, const GgufTensor &tensor) {
    if (std::any_of(std::begin(inConfig), std::end(inConfig), [&](const char *known) { return name == known; }))
      return;
    const Place place = placeOf(name);
    for (const GgufJoin &join : names.joins) {
      if (place.local == join.first)
        if (const GgufTensor *second = file.find(place.here + join.second))
          return put(place.there + join.published,
                     joined(join, name, tensor, withFactors(place.here + join.second, *second)));
      if (place.local == join.second && file.find(place.here + join.first))
        return;
    }
    const auto [row, ending] = find(place.local);
    if (!row) {
      if (place.local.starts_with(".attn_qkv."))
        return apart(place, name, tensor);
      return put(name, view(tensor, Change::None, Form::AsStored, name)); // unused: named in the list of these
    }
    const std::string published = place.there + row->published + ending;
    if (row->change != Change::Stacked)
      return put(published, view(tensor, row->change, row->form, name));
    const int64_t parts = tensor.shape[0];
    if (tensor.shape.size() < 2 || parts > mostStacked)
      misfit(name, tensor, "is no stack of at most " + std::to_string(mostStacked));
    for (int64_t part = 0; part < parts; ++part) {
      GgufTensor one = tensor;
      one.shape.erase(one.shape.begin());
      one.bytes = tensor.bytes / uint64_t(parts);
      one.data = tensor.data + uint64_t(part) * one.bytes;
      if (tensor.factors.size() > 1)
        one.factors = {tensor.factors[size_t(part)]};
      std::string numbered = published;
      numbered.replace(numbered.find("{}"), 2, std::to_string(part));
      put(numbered, view(one, Change::None, Form::AsStored, name));
    }
  }

  void put(const std::string &name, StoredTensor tensor) {
    if (!result.emplace(name, std::move(tensor)).second)
      throw UserError(file.file()->name() + " holds two tensors that are " + quote(name));
  }

  /// The largest count of any layer: hybrids have none where there is no attention.
  int64_t count(const char *key) const {
    double most = 0;
    for (double number : file.list(key))
      most = number > most ? number : most;
    return int64_t(std::min(most, 1e9));
  }

  /// Heads of queries and of keys, which are as many where the file says nothing.
  std::pair<int64_t, int64_t> headCounts() const {
    const int64_t heads = count("~.attention.head_count"), keyHeads = count("~.attention.head_count_kv");
    return {heads, keyHeads ? keyHeads : heads};
  }

  std::shared_ptr<RowReader> reader(const GgufTensor &tensor) const {
    auto reader = std::make_shared<RowReader>();
    reader->parts = {tensor};
    reader->columns = tensor.shape.size() < 2 ? 1 : std::max<int64_t>(1, tensor.shape.back());
    reader->order.rows[0] = tensor.elements() / reader->columns;
    return reader;
  }

  StoredTensor coded(const GgufTensor &tensor, std::vector<int64_t> shape,
                     std::shared_ptr<const TensorReader> reader) const {
    return {Dtype::Coded, std::move(shape), tensor.data, tensor.bytes, tensor.file, std::move(reader)};
  }

  std::vector<int64_t> shapeOf(const GgufTensor &tensor, Form form) const {
    const int64_t all = tensor.elements(), last = tensor.shape.empty() ? 1 : tensor.shape.back();
    switch (form) {
    case Form::AsStored:
      break;
    case Form::Vector:
      return {all};
    case Form::Row:
      return {1, all};
    case Form::Channels:
      return {last ? all / last : 0, 1, last};
    case Form::OfHeads:
      return {1, 1, all, 1};
    }
    return tensor.shape;
  }

  StoredTensor view(const GgufTensor &tensor, Change change, Form form, const std::string &name) const {
    const std::vector<int64_t> shape = shapeOf(tensor, form);
    if (change == Change::Transposed && shape.size() < 2)
      change = Change::None;
    if (!tensor.format && change == Change::None && tensor.factors.empty())
      return {tensor.plain, shape, tensor.data, tensor.bytes, tensor.file};
    std::shared_ptr<RowReader> its = reader(tensor);
    if (change == Change::PlusOne || change == Change::MinusExp)
      its->change = change;
    else if (change == Change::Tiled || change == Change::TiledMinusExp || change == Change::TiledColumns)
      tile(*its, change, name, tensor);
    else if (change == Change::Transposed)
      return turned(tensor, its, shape);
    else if (change != Change::None)
      its->order = headsOf(its->order, change, name, tensor);
    return coded(tensor, shape, its);
  }

  /// How many matrices, of the last two dimensions, the rows make.
  static int64_t matricesOf(const RowReader &reader, const std::vector<int64_t> &shape) {
    return std::max<int64_t>(1, reader.rows() / std::max<int64_t>(1, shape.end()[-2]));
  }

  /// Each matrix transposed.
  StoredTensor turned(const GgufTensor &tensor, std::shared_ptr<RowReader> lying, std::vector<int64_t> shape) const {
    lying->order.matrices = matricesOf(*lying, shape);
    std::swap(shape.end()[-1], shape.end()[-2]);
    return coded(tensor, shape, std::make_shared<TransposedReader>(lying));
  }

  /// Qwen3.5's heads of values, of which each head of keys has some.
  void tile(RowReader &reader, Change change, const std::string &name, const GgufTensor &tensor) const {
    RowOrder &order = reader.order;
    const int64_t heads = count("~.ssm.time_step_rank"), keyHeads = count("~.ssm.group_count"),
                  width = heads ? count("~.ssm.inner_size") / heads : 0;
    if (heads < 1 || keyHeads < 1 || heads % keyHeads || width < 1)
      misfit(name, tensor, "does not fit the counts of heads");
    if (change == Change::TiledColumns) { // pieces of rows are the rows
      if (reader.columns != heads * width)
        misfit(name, tensor, "does not fit the counts of heads");
      order.matrices = order.rows[0];
      order.rows[0] *= heads;
      reader.columns = width;
    } else {
      order.first = order.rows[0] - heads * (order.rows[0] == heads ? 1 : width);
      if (order.first < 0)
        misfit(name, tensor, "does not fit the counts of heads");
    }
    if (change == Change::TiledMinusExp)
      reader.change = Change::MinusExp;
    order.kind = RowOrder::Tiled;
    order.heads = heads;
    order.keyHeads = keyHeads;
  }

  RowOrder headsOf(RowOrder order, Change change, const std::string &name, const GgufTensor &tensor) const {
    const auto [heads, listed] = headCounts();
    const int64_t keyHeads = change == Change::Thirds ? heads : listed;
    const bool pairs = change == Change::Pairs || change == Change::KeyPairs;
    order.kind = pairs ? RowOrder::Pairs : RowOrder::KeyHeads;
    order.heads = change == Change::KeyPairs ? keyHeads : heads;
    order.keyHeads = keyHeads;
    const int64_t unit = pairs ? 2 * order.heads : heads + 2 * keyHeads;
    if (heads < 1 || keyHeads < 1 || heads % keyHeads || order.rows[0] % unit)
      misfit(name, tensor, "does not fit the counts of heads");
    return order;
  }

  /// Queries, keys and values that the converter has put into one tensor, where the model has three.
  void apart(const Place &place, const std::string &name, const GgufTensor &tensor) {
    const auto [heads, keyHeads] = headCounts();
    const int64_t rows = tensor.shape.empty() ? 0 : tensor.shape[0];
    if (heads < 1 || rows % (heads + 2 * keyHeads))
      misfit(name, tensor, "does not fit the counts of heads");
    const int64_t width = rows / (heads + 2 * keyHeads);
    int64_t first = 0;
    for (const char *part : {".attn_q", ".attn_k", ".attn_v"}) {
      const auto [row, ending] = find(part + place.local.substr(std::string(".attn_qkv").size()));
      if (!row)
        misfit(name, tensor, "is not expected in a model of " + quote(file.architecture()));
      const int64_t count = (part == std::string(".attn_q") ? heads : keyHeads) * width;
      std::shared_ptr<RowReader> its = reader(tensor);
      its->order.rows[0] = count;
      if (row->change != Change::None)
        its->order = headsOf(its->order, row->change, name, tensor);
      its->order.first = first;
      std::vector<int64_t> shape = tensor.shape;
      shape[0] = count;
      put(place.there + row->published + ending, coded(tensor, shape, its));
      first += count;
    }
  }

  StoredTensor joined(const GgufJoin &join, const std::string &name, const GgufTensor &first,
                      const GgufTensor &second) const {
    const bool alike = first.format == second.format && first.plain == second.plain;
    if (join.how == GgufJoin::KeysAndValues) {
      if (first.shape.size() != 3 || second.shape.size() != 3 || first.shape[0] != second.shape[0] ||
          first.shape[1] != second.shape[2])
        misfit(name, first, "does not fit the values of its heads");
      auto its = std::make_shared<LatentReader>();
      its->keys = first;
      its->values = second;
      return coded(first, {first.shape[0] * (first.shape[2] + second.shape[1]), first.shape[1]}, its);
    }
    if (!alike)
      misfit(name, first, "is in another format than its other part");
    std::shared_ptr<RowReader> its = reader(first);
    if (join.how == GgufJoin::Elements) {
      its->order.rows[0] = first.elements();
      its->columns = 1;
    }
    its->parts.push_back(second);
    its->order.rows[1] = second.elements() / its->columns;
    if (join.how == GgufJoin::KeyHeads) {
      const int64_t heads = count("~.ssm.group_count");
      if (first.shape.size() != 2 || second.shape.size() != 2 || first.shape[1] != second.shape[1] || heads < 1 ||
          second.shape[0] % heads || (first.shape[0] - second.shape[0]) % (2 * heads) ||
          first.shape[0] <= second.shape[0])
        misfit(name, first, "does not fit the counts of heads");
      its->order.kind = RowOrder::Linear;
      its->order.keyHeads = heads;
      return coded(first, {its->rows(), its->columns}, its);
    }
    if (first.shape != second.shape || first.shape.empty())
      misfit(name, first, "has another shape than its other part");
    std::vector<int64_t> shape = first.shape;
    if (join.how == GgufJoin::Elements) {
      its->order.kind = RowOrder::Alternating;
      shape.back() *= 2;
      return coded(first, shape, its);
    }
    if (shape.size() < 2)
      misfit(name, first, "is no matrix");
    shape.end()[-2] *= 2;
    its->order.kind = join.how == GgufJoin::Alternating ? RowOrder::Alternating : RowOrder::Halves;
    its->order.matrices = matricesOf(*its, shape);
    return join.how == GgufJoin::Halves ? coded(first, shape, its) : turned(first, its, shape);
  }

  /// Apertus' activation has four numbers a layer, which the file keeps among its values.
  void activations() {
    for (const char *name : {"alpha_p", "alpha_n", "beta", "eps"}) {
      const std::vector<double> values = file.list(std::string("xielu.") + name);
      for (size_t i = 0; i < values.size(); ++i) {
        auto its = std::make_shared<ListReader>(std::vector<float>{float(values[i])});
        const std::vector<int64_t> shape(name[0] == 'a' ? 1 : 0, 1);
        put(names.layers + std::to_string(i) + ".mlp.act_fn." + name,
            {Dtype::Coded, shape, its->data(), sizeof(float), file.file(), its});
      }
    }
  }
};

} // namespace

std::map<std::string, StoredTensor> ggufTensors(const GgufFile &file) {
  return Maker(file).run();
}

} // namespace quern::runtime
