// Takes: a mapped GGUF file, whole or one of several parts. Gives: its values and its tensors, every extent checked.
//
// Values stay where they are mapped: a vocabulary is read when somebody asks for it.
#include "runtime/gguf/GgufFile.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cstring>

namespace quern::runtime {

namespace {

enum Type : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, List, U64, I64, F64 };
constexpr uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct PlainRow {
  uint32_t ggml;
  Dtype dtype;
};
constexpr PlainRow plainTypes[] = {{0, Dtype::F32},  {1, Dtype::F16},  {24, Dtype::I8},  {25, Dtype::I16},
                                   {26, Dtype::I32}, {27, Dtype::I64}, {28, Dtype::F64}, {30, Dtype::BF16}};

template <typename T> T load(const uint8_t *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

double numberAt(uint32_t type, const uint8_t *at) {
  switch (type) {
  case U8:
  case Bool:
    return *at;
  case I8:
    return load<int8_t>(at);
  case U16:
    return load<uint16_t>(at);
  case I16:
    return load<int16_t>(at);
  case U32:
    return load<uint32_t>(at);
  case I32:
    return load<int32_t>(at);
  case F32:
    return double(load<float>(at));
  case U64:
    return double(load<uint64_t>(at));
  case I64:
    return double(load<int64_t>(at));
  default:
    return load<double>(at);
  }
}

std::string_view textAt(const uint8_t *at) {
  return {reinterpret_cast<const char *>(at) + 8, size_t(load<uint64_t>(at))};
}

} // namespace

/// A place in the file; nothing is read past the end.
class GgufFile::Cursor {
public:
  explicit Cursor(const MappedFile &file) : file(file) {}

  [[noreturn]] void fail(const std::string &reason) const {
    throw UserError(file.name() + " is no valid GGUF file: " + reason);
  }
  uint64_t position() const { return at; }
  const uint8_t *skip(uint64_t bytes) {
    if (bytes > file.size() - at)
      fail(format("it ends at byte %llu, in the middle of its header; is it cut short?",
                  static_cast<unsigned long long>(file.size())));
    const uint8_t *here = file.data() + at;
    at += bytes;
    return here;
  }
  template <typename T> T take() { return load<T>(skip(sizeof(T))); }
  std::string text() {
    uint64_t length = take<uint64_t>();
    const uint8_t *begin = skip(length);
    return {reinterpret_cast<const char *>(begin), size_t(length)};
  }
  /// Passes over `count` values of a type.
  void pass(uint32_t type, uint64_t count, const std::string &key) {
    if (type > F64 || type == List)
      fail("the value " + quote(key) + " has the unknown type " + std::to_string(type));
    if (type != String) {
      uint64_t bytes;
      if (__builtin_mul_overflow(count, uint64_t(sizes[type]), &bytes))
        fail("the size of the value " + quote(key) + " does not fit 64 bits");
      skip(bytes);
      return;
    }
    for (; count > 0; --count)
      skip(take<uint64_t>());
  }

private:
  const MappedFile &file;
  uint64_t at = 0;
};

GgufFile::GgufFile(std::shared_ptr<const MappedFile> file, Alone) : mapped(std::move(file)) {
  Cursor cursor(*mapped);
  if (!isGguf(*mapped))
    cursor.fail("it does not begin with 'GGUF'");
  cursor.skip(4);
  const uint32_t version = cursor.take<uint32_t>();
  if (version != 2 && version != 3)
    cursor.fail((version & 0xffff) == 0 ? "it is written in the other byte order"
                                        : format("it has version %u; 2 and 3 are read", version));
  const uint64_t tensors = cursor.take<uint64_t>(), values = cursor.take<uint64_t>();
  readEntries(cursor, values);
  family = text("general.architecture").value_or("");
  readTensors(cursor, tensors);
}

void GgufFile::readEntries(Cursor &cursor, uint64_t count) {
  for (; count > 0; --count) {
    std::string key = cursor.text();
    Entry value;
    value.type = cursor.take<uint32_t>();
    value.count = 1;
    if (value.type == List) {
      value.type = cursor.take<uint32_t>();
      value.count = cursor.take<uint64_t>();
    }
    value.at = mapped->data() + cursor.position();
    cursor.pass(value.type, value.count, key);
    if (!entries.emplace(key, value).second)
      cursor.fail("the value " + quote(key) + " is there twice");
  }
}

void GgufFile::readTensors(Cursor &cursor, uint64_t count) {
  struct Extent {
    uint64_t offset, end;
  };
  std::vector<std::pair<std::string, uint64_t>> offsets;
  for (; count > 0; --count) {
    std::string name = cursor.text();
    GgufTensor tensor;
    tensor.file = mapped;
    const uint32_t rank = cursor.take<uint32_t>();
    if (rank < 1 || rank > 4)
      cursor.fail("tensor " + quote(name) + " has " + std::to_string(rank) + " dimensions; 1 to 4 may be");
    uint64_t elements = 1;
    for (uint32_t i = 0; i < rank; ++i) {
      const uint64_t length = cursor.take<uint64_t>();
      if (length == 0 || length > INT64_MAX || __builtin_mul_overflow(elements, length, &elements) ||
          elements > INT64_MAX)
        cursor.fail("the size of tensor " + quote(name) + " is 0 or does not fit 64 bits");
      tensor.shape.insert(tensor.shape.begin(), int64_t(length));
    }
    const uint32_t type = cursor.take<uint32_t>();
    tensor.format = findBlockFormat(type);
    const auto *plain = std::find_if(std::begin(plainTypes), std::end(plainTypes),
                                     [&](const PlainRow &row) { return row.ggml == type; });
    if (!tensor.format && plain == std::end(plainTypes))
      cursor.fail("tensor " + quote(name) + format(" has the type %u, which is not read; F32, F16, BF16, ", type) +
                  blockFormatNames() + " are");
    uint64_t unit = 1, each;
    if (tensor.format) {
      unit = uint64_t(tensor.format->elements);
      each = uint64_t(tensor.format->bytes);
    } else {
      tensor.plain = plain->dtype;
      each = dtypeBytes(tensor.plain);
    }
    if (uint64_t(tensor.shape.back()) % unit || __builtin_mul_overflow(elements / unit, each, &tensor.bytes))
      cursor.fail("tensor " + quote(name) + " of shape " + shapeText(tensor.shape) + " is not a number of blocks of " +
                  tensor.type());
    offsets.emplace_back(name, cursor.take<uint64_t>());
    if (!table.emplace(std::move(name), std::move(tensor)).second)
      cursor.fail("tensor " + quote(offsets.back().first) + " is there twice");
  }

  const uint64_t alignment = uint64_t(integer("general.alignment").value_or(32));
  if (alignment == 0 || alignment > 1 << 20 || (alignment & (alignment - 1)))
    cursor.fail("its general.alignment is no power of two up to 1048576");
  const uint64_t size = mapped->size(), start = (cursor.position() + alignment - 1) / alignment * alignment;
  std::vector<Extent> extents;
  for (const auto &[name, offset] : offsets) {
    GgufTensor &tensor = table.find(name)->second;
    if (offset % alignment)
      cursor.fail("tensor " + quote(name) + " does not begin at a multiple of its alignment");
    if (start > size || offset > size - start || tensor.bytes > size - start - offset)
      cursor.fail("tensor " + quote(name) + " ends behind the end of the file; is it cut short?");
    tensor.data = mapped->data() + start + offset;
    if (tensor.bytes > 0)
      extents.push_back({offset, offset + tensor.bytes});
  }
  std::sort(extents.begin(), extents.end(), [](const Extent &a, const Extent &b) { return a.offset < b.offset; });
  for (size_t i = 1; i < extents.size(); ++i)
    if (extents[i].offset < extents[i - 1].end)
      cursor.fail("two of its tensors overlap");
}

const GgufTensor *GgufFile::find(std::string_view name) const {
  auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

int64_t GgufTensor::elements() const {
  return StoredTensor{plain, shape, data, bytes, file}.elements();
}

void GgufTensor::read(int64_t first, int64_t count, float *to) const {
  if (format)
    decodeBlocks(*format, data, first, count, to);
  else
    toFloat({plain, shape, data, bytes, file}, first, count, to);
  if (factors.empty())
    return;
  const int64_t each = elements() / int64_t(factors.size());
  for (int64_t i = 0; i < count; ++i)
    to[i] *= factors[size_t((first + i) / each)];
}

std::vector<float> GgufFile::numbers(const GgufTensor &tensor) const {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  tensor.read(0, tensor.elements(), values.data());
  return values;
}

const GgufFile::Entry *GgufFile::entry(std::string_view key) const {
  auto found = key.starts_with("~") ? entries.find(family + std::string(key.substr(1))) : entries.find(key);
  return found == entries.end() ? nullptr : &found->second;
}

bool GgufFile::isFlag(std::string_view key) const {
  const Entry *value = entry(key);
  return value && value->type == Bool;
}

bool GgufFile::isFloat(std::string_view key) const {
  const Entry *value = entry(key);
  return value && value->type == F32;
}

std::vector<double> GgufFile::list(std::string_view key) const {
  std::vector<double> result;
  if (const Entry *value = entry(key); value && value->type != String)
    for (uint64_t i = 0; i < value->count; ++i)
      result.push_back(numberAt(value->type, value->at + i * sizes[value->type]));
  return result;
}

std::vector<std::string_view> GgufFile::texts(std::string_view key) const {
  std::vector<std::string_view> result;
  if (const Entry *value = entry(key); value && value->type == String) {
    const uint8_t *at = value->at;
    for (uint64_t i = 0; i < value->count; ++i) {
      result.push_back(textAt(at));
      at += 8 + result.back().size();
    }
  }
  return result;
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const Entry *value = entry(key);
  return value && value->type != String && value->count > 0 ? std::optional(numberAt(value->type, value->at))
                                                            : std::nullopt;
}

std::optional<int64_t> GgufFile::integer(std::string_view key) const {
  std::optional<double> value = number(key);
  constexpr double most = 9007199254740992; // 2^53: whole numbers up to here are themselves
  return value && *value >= -most && *value <= most ? std::optional(int64_t(*value)) : std::nullopt;
}

std::optional<std::string> GgufFile::text(std::string_view key) const {
  const Entry *value = entry(key);
  return value && value->type == String && value->count == 1 ? std::optional(std::string(textAt(value->at)))
                                                             : std::nullopt;
}

} // namespace quern::runtime
