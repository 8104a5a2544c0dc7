// JSON in the order in which it is made. Why not a tree: a profile has a million events.
#ifndef QUERN_RUNTIME_CLI_JSONWRITER_H
#define QUERN_RUNTIME_CLI_JSONWRITER_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

class JsonWriter {
public:
  /// What stands in each line: all of it, or one element.
  enum class Lines { One, Elements };

  JsonWriter &object(Lines lines = Lines::One) { return open('{', '}', lines); }
  JsonWriter &list(Lines lines = Lines::One) { return open('[', ']', lines); }
  /// Of the object or list that was begun last.
  JsonWriter &end();
  JsonWriter &key(std::string_view name);

  /// What is no UTF-8 is replaced.
  JsonWriter &text(std::string_view value);
  JsonWriter &whole(int64_t value);
  /// With nine digits, which name every f32. JSON has no infinity and no NaN: null.
  JsonWriter &real(double value);
  /// 1234 is 1.234.
  JsonWriter &thousandths(uint64_t value);
  JsonWriter &wholes(const std::vector<int> &values);

  /// What was written, and a line end.
  std::string take();

private:
  struct Level {
    char close;
    Lines lines;
    bool empty = true;
  };
  std::string out;
  std::vector<Level> levels;
  bool named = false; // a key stands before the value that comes

  JsonWriter &open(char first, char close, Lines lines);
  void element();
  void literal(std::string_view text);
};

} // namespace quern::runtime
#endif
