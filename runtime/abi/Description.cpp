// Takes: the JSON text that the compiler put into the program. Gives: structs with everything checked.
// Why checked, though our own compiler wrote it: the two sides change at different times, and a slip shows here by
// name.
#include "runtime/abi/Description.h"

#include "runtime/Error.h"

#include <algorithm>
#include <charconv>

namespace quern::runtime {

using Json = nlohmann::json;

int64_t ParameterInfo::elements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count = checkedMultiply(count, size);
  return count;
}

namespace {

class Reader {
public:
  explicit Reader(Description &result) : result(result) {}

  void read(const Json &root) {
    if (integer(root, "quern") != 1)
      throw UserError(
          format("the program's description has version %ld; this runtime knows 1", long(integer(root, "quern"))));
    result.model = string(root, "model", "model");
    result.spec = string(root, "spec", "");
    result.device = string(root, "device", "");
    result.multipliesBytes = root.contains("multiplies_bytes");
    if (root.contains("multiplies_tiles"))
      result.multipliesTiles = static_cast<int>(integer(root, "multiplies_tiles"));
    result.multipliesBF16 = root.contains("multiplies_bf16");
    for (const Json &feature : list(root, "cpu"))
      result.cpu.push_back(feature.get<std::string>());
    for (const Json &symbol : list(root, "symbols"))
      result.symbols.push_back(symbol.get<std::string>());
    result.batch = symbolNumber(root, "batch");
    result.time = symbolNumber(root, "time");
    result.past = find("past");
    result.cap = find("cap");
    for (size_t i = 0; i < result.symbols.size(); ++i)
      for (bool isPast : {true, false})
        noteWindow(result.symbols[i], int(i), isPast);
    result.config = root.value("config", Json::object());
    result.fileConfig = root.value("file_config", Json::object());
    for (const Json &function : list(root, "functions"))
      result.functions.push_back(readFunction(function));
    for (const Json &launch : list(root, "launches"))
      result.launches.push_back({functions(launch).at(0), string(launch, "kernel", ""), string(launch, "title", ""),
                                 string(launch, "at", ""), string(launch, "content", ""),
                                 std::max<int64_t>(1, launch.value("iterations", int64_t(1))),
                                 launch.value("chunks", false), size(launch.at("flops")), size(launch.at("bytes"))});
    for (const Json &parameter : list(root, "parameters"))
      result.parameters.push_back(readParameter(parameter));
    for (const Json &slot : list(root, "slots"))
      result.slots.push_back(readSlot(slot));
    for (const Json &state : list(root, "states"))
      result.states.push_back(readState(state));
    if (root.contains("adapter_scale"))
      result.adapterScale = root["adapter_scale"].get<double>();
    if (root.contains("refusal") && root["refusal"].is_string())
      result.refusal = root["refusal"].get<std::string>();
    result.recompute = root.value("recompute", false);
    for (const Json &limit : list(root, "limits"))
      result.limits.push_back(readLimit(limit));
    for (const Json &check : list(root, "checks"))
      result.checks.push_back({string(check, "at", ""), string(check, "message", "a check failed")});
    for (const Json &glob : list(root, "ignore"))
      result.ignore.push_back(glob.get<std::string>());
  }

private:
  Description &result;

  /// "filled(256)" or "room(256)": a ring of 256 positions.
  void noteWindow(std::string_view symbol, int number, bool isPast) {
    std::string_view stem = isPast ? "filled(" : "room(";
    int64_t size = 0;
    if (!symbol.starts_with(stem))
      return;
    symbol.remove_prefix(stem.size());
    if (std::from_chars(symbol.data(), symbol.data() + symbol.size(), size).ec != std::errc() || size < 1)
      throw UserError("'symbols' has a ring of no size");
    auto window = std::find_if(result.windows.begin(), result.windows.end(),
                               [&](const WindowInfo &known) { return known.size == size; });
    if (window == result.windows.end())
      window = result.windows.insert(result.windows.end(), {size, -1, -1});
    (isPast ? window->past : window->cap) = number;
  }

  static const Json &list(const Json &object, const char *name) {
    static const Json none = Json::array();
    auto found = object.find(name);
    if (found == object.end() || found->is_null())
      return none;
    if (!found->is_array())
      throw UserError(format("'%s' is not a list", name));
    return *found;
  }
  static std::string string(const Json &object, const char *name, const char *fallback) {
    auto found = object.find(name);
    return found == object.end() || found->is_null() ? fallback : found->get<std::string>();
  }
  static int64_t integer(const Json &object, const char *name) {
    auto found = object.find(name);
    if (found == object.end() || !found->is_number_integer())
      throw UserError(format("'%s' is not an integer", name));
    return found->get<int64_t>();
  }
  int find(std::string_view name) const {
    for (size_t i = 0; i < result.symbols.size(); ++i)
      if (result.symbols[i] == name)
        return int(i);
    return -1;
  }
  int symbolNumber(const Json &object, const char *name) const {
    auto found = object.find(name);
    return found == object.end() || found->is_null() ? -1 : find(found->get<std::string>());
  }
  SizeExpr size(const Json &value) const {
    if (value.is_number_integer())
      return SizeExpr(value.get<int64_t>());
    return SizeExpr::parse(value.get<std::string>(), result.symbols);
  }
  std::vector<SizeExpr> dims(const Json &object) const {
    std::vector<SizeExpr> sizes;
    for (const Json &dim : list(object, "dims"))
      sizes.push_back(size(dim));
    return sizes;
  }
  static Storage storage(const Json &object) {
    std::string name = string(object, "kind", "real");
    std::optional<Storage> storage = support::storageByElement(name);
    if (!storage)
      throw UserError("unknown kind " + quote(name));
    return *storage;
  }
  /// "function": 3 or "functions": [3, 4].
  std::vector<int> functions(const Json &object) const {
    std::vector<int> numbers;
    if (object.contains("function") && object["function"].is_number_integer())
      numbers.push_back(object["function"].get<int>());
    for (const Json &number : list(object, "functions"))
      numbers.push_back(number.get<int>());
    for (int number : numbers)
      if (number < 0 || size_t(number) >= result.functions.size())
        throw UserError("a function's number is out of range");
    return numbers;
  }

  TensorInfo readTensor(const Json &json) const {
    TensorInfo tensor{string(json, "name", ""),
                      storage(json),
                      dims(json),
                      json.value("optional", false),
                      string(json, "default", ""),
                      {}};
    if (json.contains("below") && json["below"].is_number_integer())
      tensor.below = json["below"].get<int64_t>();
    return tensor;
  }

  FunctionInfo readFunction(const Json &json) const {
    FunctionInfo function;
    function.name = string(json, "name", "");
    function.role = string(json, "role", "eval");
    if (json.contains("few_rows"))
      function.fewRows = integer(json, "few_rows");
    for (const Json &input : list(json, "inputs"))
      function.inputs.push_back(readTensor(input));
    for (const Json &output : list(json, "outputs"))
      function.outputs.push_back(readTensor(output));
    if (json.contains("flops") && !json["flops"].is_null())
      function.flops = size(json["flops"]);
    if (json.contains("bytes") && !json["bytes"].is_null())
      function.bytes = size(json["bytes"]);
    return function;
  }

  static ParameterInfo readParameter(const Json &json) {
    ParameterInfo parameter;
    for (const Json &name : list(json, "names")) {
      if (name.is_array()) {
        for (const Json &inner : name)
          parameter.names.push_back(inner.get<std::string>());
      } else {
        parameter.names.push_back(name.get<std::string>());
      }
    }
    if (parameter.names.empty())
      throw UserError("a parameter has no name");
    for (const Json &length : list(json, "shape")) {
      parameter.shape.push_back(length.get<int64_t>());
      if (parameter.shape.back() < 1)
        throw UserError("a parameter has an empty shape");
    }
    parameter.elements(); // throws where it overflows
    if (auto adapter = json.find("adapter"); adapter != json.end() && adapter->is_object()) {
      parameter.adapter = true;
      parameter.inputsFirst = adapter->value("inputs_first", false);
      if (parameter.shape.size() != 2)
        throw UserError("an adapter is no matrix");
    }
    parameter.routedShare = json.value("routed_share", 1.0);
    parameter.at = string(json, "at", "");
    if (auto init = json.find("init"); init != json.end() && init->is_object()) {
      std::string name = string(*init, "kind", "normal");
      parameter.init = name == "zeros"     ? Init::Zeros
                       : name == "ones"    ? Init::Ones
                       : name == "uniform" ? Init::Uniform
                       : name == "normal"  ? Init::Normal
                                           : throw UserError("unknown init " + quote(name));
      parameter.initValue = init->value("value", 0.02);
      parameter.mayBeAbsent = init->value("if_absent", false);
      if (parameter.mayBeAbsent && parameter.init != Init::Zeros && parameter.init != Init::Ones)
        throw UserError("a parameter that may be absent is neither zeros nor ones");
    }
    parameter.mayBeAbsent |= parameter.adapter; // whose B is zero
    return parameter;
  }

  SlotInfo readSlot(const Json &json) const {
    SlotInfo slot;
    for (const Json &iteration : list(json, "iterations")) {
      std::vector<int> parameters;
      for (const Json &number : iteration) {
        parameters.push_back(number.get<int>());
        if (parameters.back() < 0 || size_t(parameters.back()) >= result.parameters.size())
          throw UserError("a slot's parameter is out of range");
      }
      if (parameters.empty())
        throw UserError("a slot has an iteration without parameters");
      slot.iterations.push_back(std::move(parameters));
    }
    const Json &layout = json.at("layout");
    std::string name = string(layout, "kind", "dense");
    std::optional<Storage> narrow = support::storageByName(name);
    if (name != "dense" && name != "packed" && !(narrow && isNarrow(*narrow)))
      throw UserError("unknown layout " + quote(name));
    if (name != "packed") {
      slot.layouts = {narrow ? WeightLayout(NarrowLayout{*narrow}) : WeightLayout(DenseLayout())};
      return slot;
    }
    for (const Json &part : list(layout, "parts"))
      slot.layouts.push_back(readPacked(layout, part));
    if (slot.layouts.empty())
      throw UserError("a packed slot has no parts");
    for (const std::vector<int> &iteration : slot.iterations) {
      if (slot.layouts.size() != 1 && slot.layouts.size() != iteration.size())
        throw UserError("a packed slot has a layout for some of its parameters only");
      for (size_t i = 0; i < iteration.size(); ++i) {
        const auto &packed = std::get<PackedLayout>(slot.layout(i));
        int64_t last = checkedAdd(packed.offset, checkedAdd(checkedMultiply(packed.outer - 1, packed.outerStride),
                                                            checkedMultiply(packed.inner - 1, packed.innerStride)));
        if (last >= result.parameters[size_t(iteration[i])].elements())
          throw UserError("a packed layout reaches past its parameter " +
                          quote(result.parameters[size_t(iteration[i])].names[0]));
      }
    }
    return slot;
  }

  PackedLayout readPacked(const Json &layout, const Json &part) const {
    PackedLayout packed;
    packed.inner = integer(layout, "inner");
    packed.tile = integer(layout, "tile");
    packed.outer = integer(part, "outer");
    packed.outerStride = integer(part, "outer_stride");
    packed.innerStride = integer(part, "inner_stride");
    packed.offset = part.value("offset", int64_t(0));
    std::string storage = string(layout, "storage", support::storageName(packed.storage));
    std::optional<Storage> named = support::storageByName(storage);
    if (!named || support::kindOf(*named) != Kind::Real)
      throw UserError("unknown storage of a packed layout " + quote(storage));
    packed.storage = *named;
    packed.beside = layout.value("beside", int64_t(1));
    if (packed.beside != 1 && (packed.beside != 2 || *named != Storage::BF16 || packed.inner % 2))
      throw UserError("a packed layout has \"beside\" that is not 1, and not 2 for bf16 of an even \"inner\"");
    if (packed.outer < 1 || packed.inner < 1 || packed.tile < 1 || packed.outerStride < 0 || packed.innerStride < 0 ||
        packed.offset < 0)
      throw UserError("a packed layout has a size below 1");
    checkedMultiply(checkedMultiply(checkedAdd(packed.outer, packed.tile), packed.inner), 4);
    return packed;
  }

  StateInfo readState(const Json &json) const {
    return {string(json, "name", ""), storage(json), dims(json), functions(json)};
  }

  LimitInfo readLimit(const Json &json) const {
    LimitInfo limit;
    limit.symbol = find(string(json, "symbol", ""));
    limit.plusPast = json.value("plus_past", false);
    limit.atMost = integer(json, "at_most");
    limit.at = string(json, "at", "");
    limit.name = string(json, "name", "");
    limit.functions = functions(json);
    if (limit.symbol < 0)
      throw UserError("a limit's symbol is unknown");
    return limit;
  }
};

} // namespace

Description Description::parse(std::string_view text) {
  Description result;
  try {
    Reader(result).read(Json::parse(text));
  } catch (const UserError &error) {
    throw UserError(std::string("the program's description is damaged: ") + error.what());
  } catch (const Json::exception &error) {
    throw UserError(std::string("the program's description is damaged: ") + error.what());
  }
  return result;
}

void Description::completeSizes(std::vector<int64_t> &sizes, int64_t newRows) const {
  for (const WindowInfo &window : windows) {
    if (window.past >= 0)
      sizes[size_t(window.past)] = std::min(past >= 0 ? sizes[size_t(past)] : 0, window.size);
    if (window.cap >= 0 && cap >= 0)
      sizes[size_t(window.cap)] = std::min(sizes[size_t(cap)], window.size + newRows);
  }
}

bool Description::isCapacity(const SizeExpr &dim) const {
  return (cap >= 0 && dim.mentions(cap)) || std::any_of(windows.begin(), windows.end(), [&](const WindowInfo &window) {
           return window.cap >= 0 && dim.mentions(window.cap);
         });
}

int Description::findFunction(std::string_view name) const {
  for (size_t i = 0; i < functions.size(); ++i)
    if (functions[i].name == name)
      return int(i);
  return -1;
}

int Description::findRole(std::string_view role, std::string_view name) const {
  for (size_t i = 0; i < functions.size(); ++i)
    if (functions[i].role == role &&
        (functions[i].name == name || (functions[i].name.size() > name.size() && functions[i].name.starts_with(name) &&
                                       functions[i].name[name.size()] == '.')))
      return int(i);
  return -1;
}

const TensorInfo *FunctionInfo::findInput(const std::string &name) const {
  for (const TensorInfo &input : inputs)
    if (input.name == name)
      return &input;
  return nullptr;
}

} // namespace quern::runtime
