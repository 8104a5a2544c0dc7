// Schedules as data: a readable text, looked up by family and facts.
#ifndef QUERN_CODEGEN_SCHEDULE_SCHEDULE_H
#define QUERN_CODEGEN_SCHEDULE_SCHEDULE_H

#include "codegen/schedule/Space.h"

namespace quern::codegen {

class ScheduleTable {
public:
  /// schedule/default.txt, embedded.
  static ScheduleTable standard();
  /// Adds the lines of `text` after those already here. Throws std::runtime_error "PLACE:LINE: ..." for what it cannot
  /// read, and for a family, a fact or a number that is not declared (Space.h).
  void add(std::string_view text, const std::string &place);
  /// The numbers that lines give a family under the facts; the rest is chosen by a model (ChoosePlan.h). Lines of the
  /// family's base come before its own, numbers that the family lacks left out.
  std::map<std::string, int64_t> find(const std::string &family, const Facts &facts) const;

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
