// Takes: the text of schedules. Gives: the numbers that apply to a part of a kernel.
// Why text: schedules are found by measuring, and what was measured must be replaceable without building the compiler.
#include "codegen/schedule/Schedule.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace quern::codegen {

static const char standardText[] =
#include "codegen/schedule/default.inc"
    ;

ScheduleTable ScheduleTable::standard() {
  ScheduleTable table;
  table.add(standardText, "schedule/default.txt");
  return table;
}

static void checkFact(const Family &family, const std::string &fact) {
  if (std::find(family.facts.begin(), family.facts.end(), fact) == family.facts.end())
    throw std::runtime_error("'" + fact + "' is no fact of " + std::string(family.name) + "; there are " +
                             listed({family.facts.begin(), family.facts.end()}));
}

static void checkNumber(const Family &family, const std::string &name, const std::string &value) {
  const Parameter *parameter = family.find(name);
  if (!parameter) {
    std::vector<std::string> names;
    for (const Parameter &one : family.parameters)
      names.emplace_back(one.name);
    throw std::runtime_error("'" + name + "' is no number of " + std::string(family.name) + "; there are " +
                             listed(names));
  }
  bool digits = !value.empty() && value.size() < 10 && value.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || !parameter->contains(std::stoll(value)))
    throw std::runtime_error(name + " '" + value + "' is not among " + parameter->domain());
}

void ScheduleTable::add(std::string_view text, const std::string &place) {
  std::istringstream stream{std::string(text)};
  std::string raw;
  for (int number = 1; std::getline(stream, raw); ++number) {
    try {
      std::istringstream words(raw.substr(0, raw.find('#')));
      Line line;
      if (!(words >> line.family))
        continue;
      const Family &space = family(line.family);
      std::string word;
      while (words >> word && word != ":") {
        Condition condition{word, "", 0};
        if (!(words >> condition.op >> condition.value) ||
            (condition.op != "=" && condition.op != "<" && condition.op != ">"))
          throw std::runtime_error("a condition reads FACT = NUMBER, FACT < NUMBER or FACT > NUMBER");
        checkFact(space, condition.fact);
        line.conditions.push_back(condition);
      }
      if (word != ":")
        throw std::runtime_error("':' and the numbers are missing");
      while (words >> word) {
        std::string value;
        if (!(words >> value))
          throw std::runtime_error("'" + word + "' has no number");
        if (value.back() == ',')
          value.pop_back();
        checkNumber(space, word, value);
        line.numbers[word] = std::stoll(value);
      }
      lines.push_back(std::move(line));
    } catch (const std::runtime_error &error) {
      throw std::runtime_error(place + ":" + std::to_string(number) + ": " + error.what());
    }
  }
}

std::map<std::string, int64_t> ScheduleTable::find(const std::string &name, const Facts &facts) const {
  std::map<std::string, int64_t> numbers;
  const Family &space = family(name);
  for (std::string_view of : {space.base, space.name})
    for (const Line &line : lines) {
      bool applies = line.family == of;
      for (const Condition &condition : line.conditions) {
        auto it = facts.find(condition.fact);
        int64_t fact = it == facts.end() ? 0 : it->second;
        applies = applies && (condition.op == "="   ? fact == condition.value
                              : condition.op == "<" ? fact < condition.value
                                                    : fact > condition.value);
      }
      if (applies)
        for (const auto &[key, value] : line.numbers)
          if (space.find(key))
            numbers[key] = value;
    }
  return numbers;
}

} // namespace quern::codegen
