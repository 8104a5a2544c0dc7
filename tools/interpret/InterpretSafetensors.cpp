// Takes: paths. Gives: tensors of safetensors files with every extent checked, and such files written.
// Format: 8 bytes length n, n bytes of JSON {name: {dtype, shape, data_offsets}}, then the data.
#include "tools/interpret/InterpretSafetensors.h"

#include "tools/interpret/TensorText.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace quern::tools;
using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "numbers are read and written as they lie in the file");

/// Far more than any model's header; a hostile length must not make us parse gigabytes.
static constexpr uint64_t largestHeader = 100'000'000;

static int64_t elementBytes(const std::string &dtype) {
  static const std::map<std::string, int64_t> sizes = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                                                       {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U64", 8},  {"U32", 4},
                                                       {"U16", 2}, {"U8", 1},  {"BOOL", 1}};
  auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

// ---- numbers

template <class T> static T load(const char *data, int64_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

static double halfToDouble(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                     : exponent == 31 ? (mantissa ? std::nan("") : HUGE_VAL)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

/// Calls `use(i, number)` for each element with the number in its C++ type.
template <class Use> static void forEachNumber(const StoredTensor &tensor, Use use) {
  auto all = [&](auto read) {
    for (int64_t i = 0; i < tensor.count; ++i)
      use(i, read(tensor.data, i));
  };
  const std::string &type = tensor.dtype;
  if (type == "F64")
    all(load<double>);
  else if (type == "F32")
    all(load<float>);
  else if (type == "F16")
    all([](const char *data, int64_t i) { return halfToDouble(load<uint16_t>(data, i)); });
  else if (type == "BF16")
    all([](const char *data, int64_t i) { return std::bit_cast<float>(uint32_t(load<uint16_t>(data, i)) << 16); });
  else if (type == "I64")
    all(load<int64_t>);
  else if (type == "I32")
    all(load<int32_t>);
  else if (type == "I16")
    all(load<int16_t>);
  else if (type == "I8")
    all(load<int8_t>);
  else if (type == "U64")
    all(load<uint64_t>);
  else if (type == "U32")
    all(load<uint32_t>);
  else if (type == "U16")
    all(load<uint16_t>);
  else
    all(load<uint8_t>); // U8, BOOL; the reader accepts no other type
}

bool StoredTensor::isFloat() const {
  return dtype[0] == 'F' || dtype == "BF16";
}

std::vector<double> StoredTensor::asDoubles() const {
  std::vector<double> numbers(count);
  forEachNumber(*this, [&](int64_t i, auto value) { numbers[i] = static_cast<double>(value); });
  return numbers;
}

std::vector<int64_t> StoredTensor::asInts() const {
  std::vector<int64_t> numbers(count);
  forEachNumber(*this, [&](int64_t i, auto value) { numbers[i] = static_cast<int64_t>(value); });
  return numbers;
}

// ---- reading

[[noreturn]] static void fail(const std::string &path, const std::string &what) {
  throw SafetensorsError(path + ": " + what);
}

SafetensorsFiles::~SafetensorsFiles() = default;

SafetensorsFiles::SafetensorsFiles(const std::string &path) {
  using namespace llvm::sys;
  auto open = [&](const std::string &file) {
    if (llvm::StringRef(file).ends_with(".json"))
      readJson(file);
    else
      readFile(file);
  };
  if (!fs::is_directory(path)) {
    open(path);
    return;
  }
  for (const char *name : {"model.safetensors", "model.safetensors.index.json"}) {
    llvm::SmallString<256> file(path);
    path::append(file, name);
    if (fs::exists(file)) {
      open(file.str().str());
      return;
    }
  }
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; it != end && !error; it.increment(error))
    if (llvm::StringRef(it->path()).ends_with(".safetensors"))
      files.push_back(it->path());
  if (files.empty())
    fail(path, "the folder holds no safetensors file");
  std::sort(files.begin(), files.end());
  for (const std::string &file : files)
    readFile(file);
}

void SafetensorsFiles::readJson(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    fail(path, buffer.getError().message());
  Json index = Json::parse((*buffer)->getBuffer(), nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map")) {
    if (llvm::StringRef(path).ends_with(".index.json"))
      fail(path, "an index needs an object weight_map");
    fromText = tensorsFromJson(path, (*buffer)->getBuffer());
    for (const auto &[name, tensor] : fromText) {
      auto count = static_cast<int64_t>(tensor.bytes.size()) / elementBytes(tensor.dtype);
      tensors[name] = {tensor.dtype, tensor.shape, tensor.bytes.data(), count};
    }
    return;
  }
  if (!index["weight_map"].is_object())
    fail(path, "an index needs an object weight_map");
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto &[name, file] : index["weight_map"].items()) {
    if (!file.is_string())
      fail(path, "the file of '" + name + "' is no text");
    std::string shard = file.get<std::string>();
    if (shard.find('/') != std::string::npos) // a stranger's index must not lead out of the folder
      fail(path, "'" + shard + "' is not in the folder of the index");
    shards[shard].push_back(name);
  }
  for (const auto &[shard, names] : shards) {
    llvm::SmallString<256> file(llvm::sys::path::parent_path(path));
    llvm::sys::path::append(file, shard);
    readFile(file.str().str());
    for (const std::string &name : names)
      if (!find(name))
        fail(file.str().str(), "the index promises '" + name + "', which is missing");
  }
}

static StoredTensor readEntry(const std::string &path, const std::string &name, const Json &entry,
                              llvm::StringRef data) {
  auto wrong = [&](const std::string &what) { fail(path, "'" + name + "': " + what); };
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
      !entry["shape"].is_array() || !entry.contains("data_offsets") || !entry["data_offsets"].is_array() ||
      entry["data_offsets"].size() != 2)
    wrong("an entry has dtype, shape and two data_offsets");
  StoredTensor tensor{entry["dtype"].get<std::string>(), {}, nullptr, 1};
  int64_t bytes = elementBytes(tensor.dtype);
  if (!bytes)
    wrong("numbers of type " + tensor.dtype + " are not supported");
  for (const Json &size : entry["shape"]) {
    // The product of a 0 and anything is small, but each size alone must be one, too.
    if (!size.is_number_unsigned() || size.get<uint64_t>() > INT64_MAX / 8 ||
        __builtin_mul_overflow(tensor.count, size.get<int64_t>(), &tensor.count))
      wrong("a size of the shape is impossible");
    tensor.shape.push_back(size.get<int64_t>());
  }
  const Json &begin = entry["data_offsets"][0], &end = entry["data_offsets"][1];
  if (!begin.is_number_unsigned() || !end.is_number_unsigned() || begin.get<uint64_t>() > end.get<uint64_t>() ||
      end.get<uint64_t>() > data.size())
    wrong("its data lie outside of the file, which is truncated or damaged");
  int64_t expected;
  if (__builtin_mul_overflow(tensor.count, bytes, &expected) ||
      end.get<uint64_t>() - begin.get<uint64_t>() != static_cast<uint64_t>(expected))
    wrong("its data are not as long as its shape needs");
  tensor.data = data.data() + begin.get<uint64_t>();
  return tensor;
}

void SafetensorsFiles::readFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    fail(path, buffer.getError().message());
  llvm::StringRef text = (*buffer)->getBuffer();
  if (text.size() < 8)
    fail(path, "too short for a safetensors file");
  uint64_t length = load<uint64_t>(text.data(), 0);
  if (length > largestHeader || length > text.size() - 8)
    fail(path, "the header does not fit into the file, which is truncated or no safetensors file");
  Json header = Json::parse(text.substr(8, length), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object())
    fail(path, "the header is no JSON object");
  for (const auto &[name, entry] : header.items())
    if (name != "__metadata__" && !tensors.emplace(name, readEntry(path, name, entry, text.substr(8 + length))).second)
      fail(path, "'" + name + "' is stored twice");
  buffers.push_back(std::move(*buffer));
}

const StoredTensor *SafetensorsFiles::find(const std::string &name) const {
  auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

// ---- writing

void quern::tools::writeSafetensors(const std::string &path, const std::map<std::string, OutputTensor> &tensors) {
  Json header = Json::object();
  uint64_t offset = 0;
  for (const auto &[name, tensor] : tensors) {
    header[name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' '); // the data begin at a multiple of 8
  uint64_t length = text.size();
  std::string temporary = path + ".tmp";
  std::ofstream file(temporary, std::ios::binary);
  file.write(reinterpret_cast<const char *>(&length), 8);
  file.write(text.data(), text.size());
  for (const auto &[name, tensor] : tensors)
    file.write(tensor.bytes.data(), tensor.bytes.size());
  file.close();
  std::error_code error;
  if (file.fail())
    error = std::make_error_code(std::errc::io_error);
  else
    error = llvm::sys::fs::rename(temporary, path);
  if (error) {
    (void)llvm::sys::fs::remove(temporary);
    fail(path, "cannot be written: " + error.message());
  }
}
