// Takes: arguments. Gives: named values, checked.
// Why not Boost.Program_Options: it brings iostreams and locales, a third of what an emitted program's runtime may
// weigh.
#include "runtime/cli/Options.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>

namespace quern::runtime {

Options::Options(std::string command, std::vector<Known> options, std::string words)
    : command(std::move(command)), known(std::move(options)), wordsHelp(std::move(words)) {}

void Options::parse(const std::vector<std::string> &arguments) {
  bool onlyWords = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &argument = arguments[i];
    if (onlyWords || argument.size() < 2 || argument[0] != '-') {
      if (wordsHelp.empty())
        throw UserError(command + " takes no argument " + quote(argument));
      given.push_back(argument);
      continue;
    }
    if (argument == "--") {
      onlyWords = true;
      continue;
    }
    size_t equals = argument.starts_with("--") ? argument.find('=') : std::string::npos;
    std::string name = argument.substr(0, equals);
    auto option = std::find_if(known.begin(), known.end(), [&](const Known &one) { return name == one.name; });
    if (option == known.end()) {
      std::vector<std::string> names;
      for (const Known &one : known)
        names.push_back(one.name);
      throw UserError(command + " has no option " + quote(name) + didYouMean(name, names));
    }
    if (!option->value) {
      if (equals != std::string::npos)
        throw UserError(name + " takes no value");
      values[name].push_back("");
      continue;
    }
    if (equals == std::string::npos && i + 1 >= arguments.size())
      throw UserError(name + " needs a value: " + name + " " + option->value);
    values[name].push_back(equals != std::string::npos ? argument.substr(equals + 1) : arguments[++i]);
  }
}

std::string Options::text(const std::string &name, const std::string &fallback) const {
  auto found = values.find(name);
  return found == values.end() ? fallback : found->second.back();
}

std::vector<std::string> Options::all(const std::string &name) const {
  auto found = values.find(name);
  return found == values.end() ? std::vector<std::string>() : found->second;
}

int64_t Options::integer(const std::string &name, int64_t fallback, int64_t least, int64_t most) const {
  if (!has(name))
    return fallback;
  std::string value = text(name);
  char *end = nullptr;
  errno = 0;
  long long number = std::strtoll(value.c_str(), &end, 10);
  if (value.empty() || *end || errno || number < least || number > most)
    throw UserError(name + " needs a whole number" +
                    (most < INT32_MAX
                         ? format(" from %lld to %lld", static_cast<long long>(least), static_cast<long long>(most))
                     : least > INT64_MIN ? format(" of at least %lld", static_cast<long long>(least))
                                         : "") +
                    ", not " + quote(value));
  return number;
}

double Options::number(const std::string &name, double fallback, double least, double most) const {
  if (!has(name))
    return fallback;
  std::string value = text(name);
  char *end = nullptr;
  double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end || !std::isfinite(number) || number < least || number > most)
    throw UserError(name + format(" needs a number from %g to %g, not ", least, most) + quote(value));
  return number;
}

std::string Options::usage(const std::string &program) const {
  std::string result =
      "usage: " + program + " " + command + " [options]" + (wordsHelp.empty() ? "" : " " + wordsHelp) + "\n";
  for (const Known &option : known)
    result +=
        format("  %-24s %s\n",
               (std::string(option.name) + (option.value ? std::string(" ") + option.value : "")).c_str(), option.help);
  return result;
}

} // namespace quern::runtime
