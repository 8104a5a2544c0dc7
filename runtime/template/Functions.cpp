// The functions that a template can call.
#include "runtime/Error.h"
#include "runtime/template/Evaluator.h"

#include <cmath>
#include <ctime>

namespace quern::runtime::jinja {

namespace {

/// strftime in UTC and English, of what templates ask for. (The C library's brings 70 KB of time zones and locales into
/// every program.)
std::string dateText(const std::string &pattern, int64_t seconds) {
  static constexpr const char *months[] = {"January", "February", "March",     "April",   "May",      "June",
                                           "July",    "August",   "September", "October", "November", "December"};
  static constexpr const char *weekdays[] = {"Thursday", "Friday",  "Saturday", "Sunday",
                                             "Monday",   "Tuesday", "Wednesday"};
  int64_t days = seconds / 86400, second = seconds % 86400, year = 1970;
  auto leap = [](int64_t y) { return y % 4 == 0 && (y % 100 != 0 || y % 400 == 0); };
  std::string weekday = weekdays[days % 7];
  for (; days >= 365 + leap(year); ++year)
    days -= 365 + leap(year);
  int64_t day = days, month = 0;
  for (auto length = [&](int64_t m) { return m == 1 ? 28 + leap(year) : 30 + (m < 7 ? m % 2 == 0 : m % 2 == 1); };
       day >= length(month); ++month)
    day -= length(month);
  std::string text;
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '%' || at + 1 == pattern.size()) {
      text += pattern[at];
      continue;
    }
    bool bare = pattern[at + 1] == '-' && at + 2 < pattern.size(); // %-d: without a leading zero
    auto two = [&](int64_t number) { return format(bare ? "%d" : "%02d", int(number)); };
    switch (char what = pattern[at += bare ? 2 : 1]) {
    case 'Y':
      text += std::to_string(year);
      break;
    case 'y':
      text += two(year % 100);
      break;
    case 'm':
      text += two(month + 1);
      break;
    case 'd':
      text += two(day + 1);
      break;
    case 'B':
      text += months[month];
      break;
    case 'b':
      text += std::string(months[month], 3);
      break;
    case 'A':
      text += weekday;
      break;
    case 'a':
      text += weekday.substr(0, 3);
      break;
    case 'H':
      text += two(second / 3600);
      break;
    case 'M':
      text += two(second / 60 % 60);
      break;
    case 'S':
      text += two(second % 60);
      break;
    case 'j':
      text += format(bare ? "%d" : "%03d", int(days + 1));
      break;
    case '%':
      text += '%';
      break;
    default:
      throw UserError("strftime_now does not know %" + std::string(1, what));
    }
  }
  return text;
}

} // namespace

void addFunctions(Scope &scope, Budget &budget) {
  scope.names["range"] = Callable([&budget](const Arguments &call) -> Value {
    int64_t bounds[3] = {0, 0, 1};
    size_t count = call.positional.size();
    if (count < 1 || count > 3)
      throw UserError("range needs one to three integers");
    for (size_t i = 0; i < count; ++i) {
      if (!call.positional[i].integer())
        throw UserError(format("range needs integers, not %s", call.positional[i].kind()));
      bounds[count == 1 ? 1 : i] = *call.positional[i].integer();
    }
    auto [from, to, step] = bounds;
    if (step == 0)
      throw UserError("range's step is not 0");
    double steps = std::max(0.0, std::ceil((double(to) - double(from)) / double(step)));
    if (steps > 100'000)
      throw UserError("range is longer than 100000");
    budget.spend(uint64_t(steps));
    List list;
    for (int64_t i = 0; i < int64_t(steps); ++i)
      list.push_back(from + i * step);
    return list;
  });
  auto mapping = [](bool assignable) {
    return Callable([assignable](const Arguments &call) -> Value {
      Dict dict;
      if (!call.positional.empty() && call.positional[0].dict())
        dict.entries = call.positional[0].dict()->entries;
      for (const auto &[name, value] : call.named)
        dict.set(name, value);
      dict.assignable = assignable;
      return dict;
    });
  };
  scope.names["namespace"] = mapping(true);
  scope.names["dict"] = mapping(false);
  scope.names["raise_exception"] = Callable([](const Arguments &call) -> Value {
    throw UserError("the template refuses: " + (call.positional.empty() ? "" : call.positional[0].text()));
  });
  scope.names["strftime_now"] = Callable([](const Arguments &call) -> Value {
    if (call.positional.empty() || !call.positional[0].string())
      throw UserError("strftime_now needs a string");
    return dateText(*call.positional[0].string(), std::time(nullptr));
  });
}

} // namespace quern::runtime::jinja
