// Takes: a mapped safetensors file. Gives: its table of tensors, or an error that names the file and the tensor.
// Why a SAX parser: a hostile header of many tiny values must not grow into a tree many times its size. Only the
// structure that the format knows is accepted, and nothing else is ever stored.
#include "runtime/files/Safetensors.h"

#include "runtime/Error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace quern::runtime {

namespace {

struct DtypeRow {
  const char *name;
  size_t bytes;
};
constexpr DtypeRow dtypeRows[] = {{"F64", 8}, {"F32", 4},  {"F16", 2},     {"BF16", 2},   {"", 0},    {"I64", 8},
                                  {"I32", 4}, {"BOOL", 1}, {"U8", 1},      {"I8", 1},     {"I16", 2}, {"U16", 2},
                                  {"U32", 4}, {"U64", 8},  {"F8_E4M3", 1}, {"F8_E5M2", 1}};
constexpr uint64_t maxHeaderBytes = 100'000'000; // the format's own limit
constexpr size_t maxRank = 16;

struct Entry {
  std::string name;
  int dtype = -1;
  std::vector<uint64_t> shape, offsets;
  bool hasShape = false, hasOffsets = false;
};

/// Accepts exactly { name: {dtype: string, shape: [n...], data_offsets: [a, b]}, ..., __metadata__: {string: string} }.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
public:
  std::vector<Entry> entries;
  std::string problem;

  bool start_object(size_t) override {
    if (depth >= 2 || inArray)
      return refuse("an object where the format has none");
    if (depth == 1 && !inMetadata()) {
      entries.emplace_back();
      entries.back().name = name;
    }
    ++depth;
    return true;
  }
  bool key(string_t &text) override {
    if (depth == 1) {
      name = text;
      if (inMetadata()) {
        if (std::exchange(sawMetadata, true))
          return refuse("'__metadata__' twice");
      }
      return true;
    }
    field = text;
    if (inMetadata())
      return true;
    if (field != "dtype" && field != "shape" && field != "data_offsets")
      return refuse("tensor " + quote(name) + " has an unknown field " + quote(field));
    return true;
  }
  bool end_object() override {
    --depth;
    if (depth == 1 && !inMetadata()) {
      const Entry &entry = entries.back();
      if (entry.dtype < 0 || !entry.hasShape || !entry.hasOffsets)
        return refuse("tensor " + quote(name) + " lacks its dtype, shape or data_offsets");
    }
    return true;
  }
  bool start_array(size_t) override {
    if (depth != 2 || inMetadata() || inArray)
      return refuse("a list where the format has none");
    Entry &entry = entries.back();
    if (field == "shape" && !entry.hasShape)
      entry.hasShape = true;
    else if (field == "data_offsets" && !entry.hasOffsets)
      entry.hasOffsets = true;
    else
      return refuse("tensor " + quote(name) + " has a misplaced list");
    inArray = true;
    return true;
  }
  bool end_array() override {
    inArray = false;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!inArray)
      return refuse("a number where the format has none");
    std::vector<uint64_t> &numbers = field == "shape" ? entries.back().shape : entries.back().offsets;
    if (numbers.size() >= (field == "shape" ? maxRank : 2))
      return refuse("tensor " + quote(name) + " has too many numbers in its " + field);
    numbers.push_back(value);
    return true;
  }
  bool string(string_t &text) override {
    if (depth != 2 || inArray)
      return refuse("a string where the format has none");
    if (inMetadata())
      return true;
    if (field != "dtype" || entries.back().dtype >= 0)
      return refuse("tensor " + quote(name) + " has a string for its " + field);
    if (std::optional<Dtype> dtype = dtypeNamed(text))
      entries.back().dtype = int(*dtype);
    else
      return refuse("tensor " + quote(name) + " has the unknown dtype " + quote(text));
    return true;
  }
  bool null() override { return refuse("null where the format has none"); }
  bool boolean(bool) override { return refuse("a boolean where the format has none"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number"); }
  bool number_float(number_float_t, const string_t &) override { return refuse("a number that is no integer"); }
  bool binary(binary_t &) override { return refuse("binary data"); }
  bool parse_error(size_t position, const std::string &, const nlohmann::json::exception &) override {
    return refuse(format("it is no JSON at byte %zu", position));
  }

private:
  int depth = 0;
  bool inArray = false, sawMetadata = false;
  std::string name, field;

  bool inMetadata() const { return name == "__metadata__"; }
  bool refuse(std::string reason) {
    if (problem.empty())
      problem = std::move(reason);
    return false;
  }
};

} // namespace

const char *dtypeName(Dtype dtype) {
  return dtypeRows[size_t(dtype)].name;
}
std::optional<Dtype> dtypeNamed(std::string_view name) {
  for (size_t i = 0; i < std::size(dtypeRows); ++i)
    if (dtypeRows[i].bytes && name == dtypeRows[i].name)
      return Dtype(i);
  return std::nullopt;
}
size_t dtypeBytes(Dtype dtype) {
  return dtypeRows[size_t(dtype)].bytes;
}
bool isReal(Dtype dtype) {
  return dtype <= Dtype::Coded;
}
const char *typeName(const StoredTensor &tensor) {
  return tensor.reader ? tensor.reader->type() : dtypeName(tensor.dtype);
}
void StoredTensor::readBy(std::shared_ptr<const TensorReader> its, std::vector<int64_t> itsShape) {
  dtype = Dtype::Coded;
  shape = std::move(itsShape);
  reader = std::move(its);
}

int64_t StoredTensor::elements() const {
  int64_t count = 1; // no overflow: whoever made the shape checked it
  for (int64_t length : shape)
    count *= length;
  return count;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::map<std::string, StoredTensor> readSafetensors(std::shared_ptr<const MappedFile> file) {
  auto fail = [&](const std::string &reason) {
    throw UserError(file->name() + " is no valid safetensors file: " + reason);
  };
  if (file->size() < 8)
    fail(format("it has %llu bytes, too few for a header", static_cast<unsigned long long>(file->size())));
  static constexpr std::string_view pointer = "version https://git-lfs";
  if (std::string_view(reinterpret_cast<const char *>(file->data()), file->size()).starts_with(pointer))
    fail("it is a pointer to a file that Git LFS has; git lfs pull fetches that");
  uint64_t headerBytes;
  std::memcpy(&headerBytes, file->data(), 8);
  if (headerBytes > file->size() - 8)
    fail(format("its header claims %llu bytes, but only %llu follow; is it cut short?",
                static_cast<unsigned long long>(headerBytes), static_cast<unsigned long long>(file->size() - 8)));
  if (headerBytes > maxHeaderBytes)
    fail("its header is longer than 100 MB");
  if (headerBytes < 2 || file->data()[8] != '{')
    fail("its header does not begin with '{'");

  if (const void *zero = std::memchr(file->data() + 8, 0, headerBytes)) // which the parser takes for the end
    fail(format("its header has a zero byte at %td", static_cast<const uint8_t *>(zero) - file->data()));
  HeaderHandler handler;
  const char *begin = reinterpret_cast<const char *>(file->data()) + 8;
  if (!nlohmann::json::sax_parse(begin, begin + headerBytes, &handler))
    fail(handler.problem);

  uint64_t dataBytes = file->size() - 8 - headerBytes;
  std::map<std::string, StoredTensor> tensors;
  for (const Entry &entry : handler.entries) {
    uint64_t elements = 1;
    StoredTensor tensor;
    tensor.dtype = Dtype(entry.dtype);
    for (uint64_t length : entry.shape) {
      if (length > INT64_MAX || __builtin_mul_overflow(elements, length, &elements))
        fail("the size of tensor " + quote(entry.name) + " does not fit 64 bits");
      tensor.shape.push_back(int64_t(length));
    }
    if (elements > INT64_MAX || __builtin_mul_overflow(elements, dtypeBytes(tensor.dtype), &tensor.bytes))
      fail("the size of tensor " + quote(entry.name) + " does not fit 64 bits");
    if (entry.offsets.size() != 2 || entry.offsets[0] > entry.offsets[1])
      fail("the offsets of tensor " + quote(entry.name) + " are not a range");
    if (entry.offsets[1] > dataBytes)
      fail(format("tensor %s ends at byte %llu of the data, but only %llu are there; is the file cut short?",
                  quote(entry.name).c_str(), static_cast<unsigned long long>(entry.offsets[1]),
                  static_cast<unsigned long long>(dataBytes)));
    if (entry.offsets[1] - entry.offsets[0] != tensor.bytes)
      fail(format("tensor %s of %s%s needs %llu bytes, but its offsets hold %llu", quote(entry.name).c_str(),
                  dtypeName(tensor.dtype), shapeText(tensor.shape).c_str(),
                  static_cast<unsigned long long>(tensor.bytes),
                  static_cast<unsigned long long>(entry.offsets[1] - entry.offsets[0])));
    tensor.data = file->data() + 8 + headerBytes + entry.offsets[0];
    tensor.file = file;
    if (!tensors.emplace(entry.name, std::move(tensor)).second)
      fail("tensor " + quote(entry.name) + " is there twice");
  }

  std::vector<const Entry *> sorted;
  for (const Entry &entry : handler.entries)
    sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const Entry *a, const Entry *b) { return a->offsets < b->offsets; });
  uint64_t end = 0;
  for (const Entry *entry : sorted) {
    if (entry->offsets[0] != end)
      fail("tensor " + quote(entry->name) +
           (entry->offsets[0] < end ? " overlaps another" : " leaves a hole before it"));
    end = entry->offsets[1];
  }
  if (end != dataBytes)
    fail(format("%llu bytes after the last tensor belong to none", static_cast<unsigned long long>(dataBytes - end)));
  return tensors;
}

} // namespace quern::runtime
