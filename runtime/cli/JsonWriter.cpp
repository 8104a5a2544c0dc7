// Takes: values, one after the other. Gives: their JSON.
#include "runtime/cli/JsonWriter.h"

#include "runtime/Error.h"
#include "support/Utf8.h"

#include <cmath>
#include <utility>

namespace quern::runtime {

/// Before each value and each key: what separates it from the one before.
void JsonWriter::element() {
  if (std::exchange(named, false) || levels.empty())
    return;
  Level &level = levels.back();
  bool first = std::exchange(level.empty, false);
  if (level.lines == Lines::Elements)
    out += first ? "\n" : ",\n";
  else if (!first)
    out += ", ";
}

JsonWriter &JsonWriter::open(char first, char close, Lines lines) {
  element();
  out += first;
  levels.push_back({close, lines});
  return *this;
}

JsonWriter &JsonWriter::end() {
  const Level &level = levels.back();
  if (level.lines == Lines::Elements && !level.empty)
    out += '\n';
  out += level.close;
  levels.pop_back();
  return *this;
}

void JsonWriter::literal(std::string_view text) {
  out += '"';
  for (char c : support::repairUtf8(text)) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += format("\\u%04x", static_cast<unsigned char>(c));
    else
      out += c;
  }
  out += '"';
}

JsonWriter &JsonWriter::key(std::string_view name) {
  element();
  literal(name);
  out += ": ";
  named = true;
  return *this;
}

JsonWriter &JsonWriter::text(std::string_view value) {
  element();
  literal(value);
  return *this;
}

JsonWriter &JsonWriter::whole(int64_t value) {
  element();
  out += std::to_string(value);
  return *this;
}

JsonWriter &JsonWriter::real(double value) {
  element();
  out += std::isfinite(value) ? format("%.9g", value) : "null";
  return *this;
}

JsonWriter &JsonWriter::thousandths(uint64_t value) {
  element();
  out += format("%llu.%03u", static_cast<unsigned long long>(value / 1000), unsigned(value % 1000));
  return *this;
}

JsonWriter &JsonWriter::wholes(const std::vector<int> &values) {
  list();
  for (int value : values)
    whole(value);
  return end();
}

std::string JsonWriter::take() {
  out += '\n';
  return std::move(out);
}

} // namespace quern::runtime
