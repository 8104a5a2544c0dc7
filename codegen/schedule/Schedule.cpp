// Takes: the text of schedules. Gives: the numbers that apply to one kernel.
// Why text: schedules are found by measuring, and what was measured must be replaceable without building the compiler.
#include "codegen/schedule/Schedule.h"

#include <set>
#include <sstream>
#include <stdexcept>

namespace quern::codegen {

static const char standardText[] =
#include "codegen/schedule/default.inc"
    ;

int Schedule::operator[](const std::string &key) const {
  auto it = numbers.find(key);
  if (it == numbers.end())
    throw std::runtime_error("no schedule gives '" + key + "' for the family '" + family + "'");
  return static_cast<int>(it->second);
}

ScheduleTable ScheduleTable::standard() {
  ScheduleTable table;
  table.add(standardText, "schedule/default.txt");
  return table;
}

void ScheduleTable::add(std::string_view text, const std::string &place) {
  static const std::set<std::string> families = {"contract",  "dense",    "experts", "grouped",
                                                 "attention", "gradient", "row",     "map"};
  std::istringstream stream{std::string(text)};
  std::string raw;
  for (int number = 1; std::getline(stream, raw); ++number) {
    auto fail = [&](const std::string &what) {
      throw std::runtime_error(place + ":" + std::to_string(number) + ": " + what);
    };
    std::istringstream words(raw.substr(0, raw.find('#')));
    Line line;
    if (!(words >> line.family))
      continue;
    if (!families.count(line.family))
      fail("'" + line.family +
           "' is no family; there are attention, contract, dense, experts, gradient, grouped, map and row");
    std::string word;
    while (words >> word && word != ":") {
      Condition condition{word, "", 0};
      if (!(words >> condition.op >> condition.value) ||
          (condition.op != "=" && condition.op != "<" && condition.op != ">"))
        fail("a condition reads FACT = NUMBER, FACT < NUMBER or FACT > NUMBER");
      line.conditions.push_back(condition);
    }
    if (word != ":")
      fail("':' and the numbers are missing");
    while (words >> word) {
      std::string value;
      if (!(words >> value))
        fail("'" + word + "' has no number");
      if (value.back() == ',')
        value.pop_back();
      size_t used = 0;
      int64_t parsed = 0;
      try {
        parsed = std::stoll(value, &used);
      } catch (const std::exception &) {
      }
      if (used != value.size() || value.empty() || parsed < 1 || parsed > (1 << 24))
        fail("'" + value + "' is no number between 1 and 16777216");
      line.numbers[word] = parsed;
    }
    lines.push_back(std::move(line));
  }
  all += text;
}

Schedule ScheduleTable::find(const std::string &family, const Facts &facts) const {
  std::map<std::string, int64_t> numbers;
  for (const Line &line : lines) {
    bool applies = line.family == family;
    for (const Condition &condition : line.conditions) {
      auto it = facts.find(condition.fact);
      int64_t fact = it == facts.end() ? 0 : it->second;
      applies = applies && (condition.op == "="   ? fact == condition.value
                            : condition.op == "<" ? fact < condition.value
                                                  : fact > condition.value);
    }
    if (applies)
      for (const auto &[key, value] : line.numbers)
        numbers[key] = value;
  }
  return {family, numbers};
}

} // namespace quern::codegen
