// `info`: takes nothing. Gives: what this program is, what its functions take, what it needs.
#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/machine/CpuFeatures.h"
#include "runtime/machine/Terminal.h"
#include "runtime/machine/ThreadPool.h"
#include "support/CheckpointFiles.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;

Json tensorJson(const TensorInfo &tensor) {
  Json dims = Json::array();
  for (const SizeExpr &dim : tensor.dims)
    dims.push_back(dim.isConstant() ? Json(dim.evaluate({})) : Json(dim.str()));
  Json json; // member by member: half the code of a list
  json["name"] = tensor.name;
  json["kind"] = support::elementName(tensor.storage);
  json["dims"] = std::move(dims);
  json["optional"] = tensor.optional;
  return json;
}

/// Bytes that a step keeps of each position of a text, by how the numbers are stored.
std::map<std::string, int64_t> cacheBytes(const Description &d) {
  const int step = std::max(d.findRole("step", "forward"), d.findRole("step", "decode"));
  const std::vector<int64_t> one(d.symbols.size(), 1); // text, of one position
  std::map<std::string, int64_t> bytes;
  for (const StateInfo &state : d.states) {
    const bool used = state.functions.empty() || std::count(state.functions.begin(), state.functions.end(), step);
    if (step < 0 || !used ||
        std::none_of(state.dims.begin(), state.dims.end(), [&](const SizeExpr &dim) { return d.isCapacity(dim); }))
      continue;
    int64_t numbers = 1;
    for (const SizeExpr &dim : state.dims)
      numbers *= dim.evaluate(one);
    bytes[support::storageName(state.storage)] += numbers * int64_t(elementBytes(state.storage));
  }
  return bytes;
}

Json infoJson(const Command &command) {
  const Description &d = command.program.description;
  int64_t elements = 0;
  for (const ParameterInfo &parameter : d.parameters)
    elements += parameter.elements();
  Json functions = Json::array();
  for (const FunctionInfo &function : d.functions) {
    if (function.role != "eval")
      continue;
    Json inputs = Json::array(), outputs = Json::array();
    for (const TensorInfo &input : function.inputs)
      inputs.push_back(tensorJson(input));
    for (const TensorInfo &output : function.outputs)
      outputs.push_back(tensorJson(output));
    Json &one = functions.emplace_back();
    one["name"] = function.name;
    one["inputs"] = std::move(inputs);
    one["outputs"] = std::move(outputs);
  }
  Json limits = Json::array(), missing = Json::array();
  for (const LimitInfo &limit : d.limits) {
    Json &one = limits.emplace_back();
    one["symbol"] = d.symbols[size_t(limit.symbol)];
    one["at_most"] = limit.atMost;
    one["at"] = limit.at;
  }
  for (const std::string &feature : d.cpu)
    if (!hasCpuFeature(feature))
      missing.push_back(feature);
  auto carried = readTail(command.executable);
  bool carriesTokenizer = carried.count("tokenizer.json") + carried.count("model.gguf") > 0;
  for (const char *name : support::vocabulariesBesideWeights)
    carriesTokenizer |= carried.count(name) > 0;
  auto carries = [&](const char *name) { return carried.count(name) > 0; };
  Json json;
  json["model"] = d.model;
  json["spec"] = d.spec;
  json["parameters"] = elements;
  json["tensors"] = d.parameters.size();
  json["functions"] = std::move(functions);
  json["generates"] = d.findRole("step", "forward") >= 0 || d.findRole("step", "decode") >= 0;
  json["refusal"] = d.refusal ? Json(*d.refusal) : Json();
  json["cache_bytes"] = cacheBytes(d);
  json["limits"] = std::move(limits);
  json["carries_weights"] =
      carries("model.safetensors") || carries("model.safetensors.index.json") || carries("model.gguf");
  json["carries_tokenizer"] = carriesTokenizer;
  Json &cpu = json["cpu"];
  cpu["name"] = cpuName();
  cpu["needs"] = d.cpu;
  cpu["missing"] = std::move(missing);
  json["device"] = d.device.empty() ? Json() : Json(d.device);
  json["threads"] = availableThreads();
  json["config"] = d.config;
  return json;
}

} // namespace

int infoCommand(const Command &command) {
  Options options("info", {{"--json", nullptr, "one object"}, {"--help", nullptr, "this"}});
  options.parse(command.arguments);
  if (options.has("--help")) {
    writeOutput(options.usage("PROGRAM"));
    return 0;
  }
  Json info = infoJson(command);
  if (options.has("--json")) {
    writeOutput(info.dump() + "\n");
    return 0;
  }
  const Description &d = command.program.description;
  std::string text = format("model       %s (%s)\n", d.model.c_str(), d.spec.c_str());
  text += format("parameters  %.1f million in %zu tensors\n", double(info["parameters"].get<int64_t>()) / 1e6,
                 d.parameters.size());
  for (const FunctionInfo &function : d.functions) {
    if (function.role != "eval")
      continue;
    text += "function    " + function.name + "(" + describeInputs(d, function) + ") -> ";
    for (size_t i = 0; i < function.outputs.size(); ++i)
      text += (i ? ", " : "") + describeTensor(function.outputs[i]);
    text += "\n";
  }
  text +=
      "generates   " +
      (info["generates"].get<bool>() ? std::string("yes") : "no" + (d.refusal ? ": " + *d.refusal : std::string())) +
      "\n";
  std::string caches;
  for (const auto &[storage, bytes] : info["cache_bytes"].items())
    caches += format("%s%lld bytes in %s", caches.empty() ? "" : ", ", bytes.get<long long>(), storage.c_str());
  if (!caches.empty())
    text += "caches      " + caches + " for each position\n";
  for (const LimitInfo &limit : d.limits)
    if (limit.functions.empty() || d.functions[size_t(limit.functions[0])].role == "eval")
      text += format("positions   %s at most %lld (%s)\n", d.symbols[size_t(limit.symbol)].c_str(),
                     static_cast<long long>(limit.atMost), limit.at.c_str());
  if (!d.device.empty())
    text += "device      " + d.device + ": its driver is opened when a function runs\n";
  text += format("threads     %d\n", availableThreads());
  std::string needs;
  for (const std::string &feature : d.cpu)
    needs += (needs.empty() ? "" : " ") + feature + (hasCpuFeature(feature) ? "" : " (missing)");
  text += "processor   " + cpuName() + (needs.empty() ? "" : "; the code uses " + needs) + "\n";
  writeOutput(text);
  return 0;
}

} // namespace quern::runtime
