// Schedules as data: a readable text, looked up by family and facts.
#ifndef QUERN_CODEGEN_SCHEDULE_SCHEDULE_H
#define QUERN_CODEGEN_SCHEDULE_SCHEDULE_H

#include "codegen/schedule/Space.h"

namespace quern::codegen {

/// The numbers of one family under the facts asked for.
class Schedule {
public:
  Schedule(std::string family, std::map<std::string, int64_t> numbers)
      : family(std::move(family)), numbers(std::move(numbers)) {}
  /// Throws std::runtime_error that names family and key where no line gives it.
  int operator[](const std::string &key) const;

private:
  std::string family;
  std::map<std::string, int64_t> numbers;
};

class ScheduleTable {
public:
  /// schedule/default.txt, embedded.
  static ScheduleTable standard();
  /// Adds the lines of `text` after those already here. Throws std::runtime_error "PLACE:LINE: ..." for what it cannot
  /// read, and for a family, a fact or a number that is not declared (Space.h).
  void add(std::string_view text, const std::string &place);
  /// Lines of the family's base come before its own.
  Schedule find(const std::string &family, const Facts &facts) const;

private:
  struct Condition {
    std::string fact, op;
    int64_t value;
  };
  struct Line {
    std::string family;
    std::vector<Condition> conditions;
    std::map<std::string, int64_t> numbers;
  };
  std::vector<Line> lines;
};

} // namespace quern::codegen
#endif
