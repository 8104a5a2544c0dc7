// Takes: a checkpoint's tensors and an adapter's folder. Gives: one table, in which adapted matrices are read as sums.
// Why at the reader: every format of the base (GGUF's blocks, GPTQ) and every layout of the kernels is served alike.
#include "runtime/weights/Adapter.h"

#include "runtime/Error.h"
#include "runtime/weights/AdapterBase.h"
#include "runtime/weights/LowRankSum.h"
#include "runtime/weights/PackedFile.h"
#include "runtime/weights/TextPart.h"
#include "support/Files.h"
#include "support/Json.h"
#include "support/Nearest.h"

#include <cmath>
#include <optional>
#include <set>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;

/// Half of an adapter that is not merged: [rows, columns] of a matrix that has at least as many of both, times `scale`; the rest
/// is zero.
struct PaddedHalf : TensorReader {
  std::vector<float> numbers;

  PaddedHalf(const StoredTensor &half, const std::vector<int64_t> &shape, float scale)
      : numbers(size_t(shape[0] * shape[1])) {
    for (int64_t row = 0; row < half.shape[0]; ++row)
      toFloat(half, row * half.shape[1], half.shape[1], numbers.data() + row * shape[1]);
    for (float &x : numbers)
      x *= scale;
  }
  const char *type() const override { return "half of an adapter"; }
  void read(int64_t first, int64_t count, float *to) const override { std::copy_n(numbers.data() + first, count, to); }
};

/// The parts of adapter_config.json that change numbers.
struct Settings {
  double alpha = 8;
  bool rootOfRank = false, inputsFirst = false;
  std::vector<std::pair<std::string, double>> alphas; // of modules whose names end so

  double scale(const std::string &module, int64_t rank) const {
    double value = alpha;
    for (const auto &[ending, own] : alphas)
      if (module == ending || module.ends_with("." + ending))
        value = own;
    return value / (rootOfRank ? std::sqrt(double(rank)) : double(rank));
  }
};

Settings readSettings(const std::string &path) {
  Json config = support::parseJson(support::readFile(path, 10'000'000), path);
  auto refuse = [&](const std::string &what) -> UserError {
    return UserError(path + ": " + what + "; merge it into its model with PEFT's merge_and_unload()");
  };
  try {
    if (std::string type = config.at("peft_type").get<std::string>(); type != "LORA")
      throw refuse("an adapter of type " + quote(type) + ", programs add LORA only");
    for (const char *name : {"use_dora", "use_qalora", "use_bdlora", "lora_bias", "layer_replication",
                             "target_parameters", "trainable_token_indices", "alora_invocation_tokens", "arrow_config",
                             "kasa_config", "velora_config", "monteclora_config", "megatron_config"})
      if (Json value = config.value(name, Json()); !value.is_null() && value != Json(false) && !value.empty())
        throw refuse(std::string(name) + " is not supported");
    if (Json start = config.value("init_lora_weights", Json(true)); start.is_string())
      for (const char *changes : {"pissa", "olora", "corda", "loftq", "lora_ga"})
        if (start.get<std::string>().starts_with(changes))
          throw refuse("it was started by " + quote(start.get<std::string>()) + ", which changes the model's weights");
    Settings settings;
    settings.alpha = config.at("lora_alpha").get<double>();
    settings.rootOfRank = config.value("use_rslora", false);
    settings.inputsFirst = config.value("fan_in_fan_out", false);
    const Json patterns = config.value("alpha_pattern", Json::object());
    for (const auto &[pattern, alpha] : patterns.items()) {
      if (pattern.find_first_of("\\^$|()[]{}*+?") != std::string::npos)
        throw refuse("alpha_pattern has the regular expression " + quote(pattern) + ", only endings of names are read");
      settings.alphas.emplace_back(pattern, alpha.get<double>());
    }
    if (!std::isfinite(settings.alpha))
      throw refuse("lora_alpha is no number");
    return settings;
  } catch (const Json::exception &error) {
    throw UserError(path + " is no configuration of an adapter: " + support::jsonReason(error.what()));
  }
}

std::vector<float> transposed(const std::vector<float> &from, int64_t rows, int64_t columns) {
  std::vector<float> to(from.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to[size_t(c * rows + r)] = from[size_t(r * columns + c)];
  return to;
}

class AdaptedSource : public TensorSource {
public:
  AdaptedSource(std::unique_ptr<TensorSource> given, const std::string &folder, const Description &description)
      : below(std::move(given)), description(description) {
    const std::string config = folder + "/adapter_config.json", file = folder + "/adapter_model.safetensors";
    if (!support::fileExists(config) || !support::fileExists(file))
      throw UserError(folder + " holds no adapter: adapter_config.json and adapter_model.safetensors are needed");
    label = below->path() + " with " + folder;
    settings = readSettings(config);
    warnOfAnotherBase(base(), folder);
    adapter = TensorSource::open(file);
    for (bool products : {false, true}) // an embedding may be replaced and then changed
      for (const std::string &name : adapter->names())
        take(name, products);
    for (const std::string &name : below->names())
      all.insert(name);
  }

  const std::string &path() const override { return label; }
  const TensorSource &base() const override { return below->base(); }
  std::vector<std::string> names() const override { return {all.begin(), all.end()}; }
  const StoredTensor *find(const std::string &name) const override {
    auto found = changed.find(name);
    return found == changed.end() ? below->find(name) : &found->second;
  }
  bool hasTextPart() const override { return below->hasTextPart(); }
  std::vector<std::string> otherNames() const override { return below->otherNames(); }

private:
  std::unique_ptr<TensorSource> below, adapter;
  const Description &description;
  std::string label;
  Settings settings;
  std::map<std::string, StoredTensor> changed;
  std::set<std::string> all;

  [[noreturn]] void fail(const std::string &name, const std::string &reason) const {
    throw UserError(adapter->path() + ": tensor " + quote(name) + " " + reason);
  }

  /// The base's name of a tensor. Published checkpoints may leave out the first part of it ("transformer.").
  std::string nameInBase(const std::string &name) const {
    if (below->find(name))
      return name;
    std::vector<std::string> near;
    for (const std::string &own : below->names())
      if (name.ends_with("." + own) || own.ends_with("." + name))
        near.push_back(own);
    return near.size() == 1 ? near[0] : "";
  }

  void take(const std::string &name, bool products) {
    std::string rest = name;
    for (const char *start : {"base_model.model.", "base_model."})
      if (rest == name && name.starts_with(start))
        rest = name.substr(std::string(start).size());
    if (std::string inner = nameInTextPart(rest); below->hasTextPart() && !inner.empty())
      rest = inner;
    for (bool embedding : {false, true}) {
      const std::string a = embedding ? ".lora_embedding_A" : ".lora_A.weight";
      const std::string b = embedding ? ".lora_embedding_B" : ".lora_B.weight";
      if (rest.ends_with(a)) {
        std::string stem = name.substr(0, name.size() - a.size());
        if (!adapter->find(stem + b))
          fail(name, "has no " + b.substr(1) + " beside it");
        if (products)
          add(rest.substr(0, rest.size() - a.size()), name, stem + b, embedding);
        return;
      }
      if (rest.ends_with(b)) {
        if (!adapter->find(name.substr(0, name.size() - b.size()) + a))
          fail(name, "has no " + a.substr(1) + " beside it");
        return; // taken with its A
      }
    }
    if (products)
      return;
    if (rest.find("lora_") != std::string::npos || rest.find("trainable_tokens") != std::string::npos)
      fail(name, "is of a kind of adapter that programs do not add; merge it with PEFT's merge_and_unload()");
    const std::string wrapped = ".base_layer."; // what PEFT puts around a matrix that has an adapter
    if (size_t at = rest.find(wrapped); at != std::string::npos)
      rest.replace(at, wrapped.size(), ".");
    std::string own = nameInBase(rest); // a bias, or a module that was trained whole
    changed[own.empty() ? rest : own] = *adapter->find(name);
    all.insert(own.empty() ? rest : own);
  }

  /// The program's own parameter for half of an adapter; null if it has none.
  const ParameterInfo *parameterOf(const std::string &name) const {
    const ParameterInfo *near = nullptr;
    for (const ParameterInfo &parameter : description.parameters)
      for (const std::string &own : parameter.names) {
        if (parameter.adapter && own == name)
          return &parameter;
        if (parameter.adapter && (name.ends_with("." + own) || own.ends_with("." + name)))
          near = &parameter;
      }
    return near;
  }

  void checkHalves(const std::string &nameOfA, const StoredTensor &a, const StoredTensor &b) const {
    if (a.shape.size() != 2 || b.shape.size() != 2 || !isReal(a.dtype) || !isReal(b.dtype) || b.shape[1] != a.shape[0])
      fail(nameOfA, "and its B are no matrices of one rank: " + shapeText(a.shape) + " and " + shapeText(b.shape));
  }

  void addBeside(const std::string &module, const std::string &nameOfA, const StoredTensor &a, const StoredTensor &b,
                 const ParameterInfo &ownA, const ParameterInfo &ownB) {
    checkHalves(nameOfA, a, b);
    const int64_t rank = a.shape[0], most = ownA.shape[0];
    if (a.shape[1] != ownA.shape[1] || b.shape[0] != ownB.shape[0] || rank == 0)
      fail(nameOfA, "and its B are " + shapeText(a.shape) + " and " + shapeText(b.shape) + ", the program needs " +
                        shapeText(ownA.shape) + " and " + shapeText(ownB.shape) + ", or a lower rank");
    if (rank > most)
      fail(nameOfA,
           format("has rank %lld, but the program was compiled for adapters of at most %lld: quern compile --lora "
                  "%lld makes one that fits",
                  static_cast<long long>(rank), static_cast<long long>(most), static_cast<long long>(rank)));
    if (find(ownA.names[0]))
      fail(nameOfA,
           "is beside a matrix that has an adapter already, and a program compiled with --lora takes one; a program "
           "compiled without merges several");
    const double scale = settings.scale(module, rank), own = description.adapterScale.value_or(1);
    if (own == 0)
      fail(nameOfA, "is beside a matrix whose adapter the program multiplies by 0 (--lora-scale)");
    for (auto [half, parameter, factor] : {std::tuple(&a, &ownA, 1.0f), std::tuple(&b, &ownB, float(scale / own))}) {
      StoredTensor stored = *half;
      stored.readBy(std::make_shared<PaddedHalf>(*half, parameter->shape, factor), parameter->shape);
      changed[parameter->names[0]] = std::move(stored);
      all.insert(parameter->names[0]);
    }
  }

  void add(const std::string &module, const std::string &nameOfA, const std::string &nameOfB, bool embedding) {
    const StoredTensor &a = *adapter->find(nameOfA), &b = *adapter->find(nameOfB);
    if (const ParameterInfo *own = embedding ? nullptr : parameterOf(module + ".lora_A.weight"))
      return addBeside(module, nameOfA, a, b, *own, *parameterOf(module + ".lora_B.weight"));
    std::string name = nameInBase(module + ".weight");
    if (name.empty())
      fail(nameOfA, "changes " + quote(module + ".weight") + ", which " + below->path() + " does not have" +
                        support::didYouMean(module + ".weight", below->names()));
    const StoredTensor &matrix = *find(name);
    checkHalves(nameOfA, a, b);
    const bool flipped = embedding || settings.inputsFirst; // the matrix is stored as [inputs, outputs]
    const int64_t rank = a.shape[0], inputs = a.shape[1], outputs = b.shape[0];
    const std::vector<int64_t> shape = flipped ? std::vector{inputs, outputs} : std::vector{outputs, inputs};
    if (matrix.shape != shape || !isReal(matrix.dtype) || rank == 0)
      fail(nameOfA, "and its B make a matrix " + shapeText(shape) + ", but " + quote(name) + " is " + typeName(matrix) +
                        shapeText(matrix.shape));
    auto reader = std::make_shared<LowRankSum>();
    reader->base = matrix;
    reader->label = std::string(typeName(matrix)) + " with an adapter";
    reader->rank = rank;
    reader->columns = shape[1];
    reader->u = flipped ? transposed(numbersOf(a), rank, inputs) : numbersOf(b);
    reader->v = flipped ? transposed(numbersOf(b), outputs, rank) : numbersOf(a);
    const float scale = float(settings.scale(module, rank));
    for (float &x : reader->u)
      x *= scale;
    StoredTensor sum = matrix;
    sum.readBy(std::move(reader), matrix.shape);
    changed[name] = std::move(sum);
  }
};

} // namespace

std::unique_ptr<TensorSource> withAdapter(std::unique_ptr<TensorSource> base, const std::string &folder,
                                          const Description &description) {
  if (isPacked(*base))
    throw UserError(base->path() +
                    " holds packed weights, to which no adapter can be added; give the checkpoint that "
                    "they were made of, or PROGRAM pack --adapter " +
                    folder);
  return std::make_unique<AdaptedSource>(std::move(base), folder, description);
}

std::string adapterConfig(const Description &description, const std::vector<std::string> &names,
                          const std::string &base) {
  std::set<std::string> modules; // PEFT looks for modules whose names end so
  for (std::string name : names) {
    name = name.substr(0, name.rfind(".lora_"));
    modules.insert(name.substr(name.rfind('.') + 1));
  }
  int64_t rank = 0;
  bool inputsFirst = false;
  for (const ParameterInfo &parameter : description.parameters)
    if (parameter.adapter && parameter.names[0].ends_with(".lora_A.weight")) {
      rank = parameter.shape[0];
      inputsFirst = parameter.inputsFirst;
    }
  return Json{{"peft_type", "LORA"},
              {"base_model_name_or_path", base},
              {"r", rank},
              {"lora_alpha", description.adapterScale.value_or(1) * double(rank)},
              {"lora_dropout", 0.0},
              {"bias", "none"},
              {"fan_in_fan_out", inputsFirst},
              {"target_modules", modules},
              {"inference_mode", true}}
             .dump(1) +
         "\n";
}

} // namespace quern::runtime
