// The command line of emitted programs.
#ifndef QUERN_RUNTIME_CLI_OPTIONS_H
#define QUERN_RUNTIME_CLI_OPTIONS_H

#include "runtime/Error.h"
#include "support/Nearest.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace quern::runtime {

/// Options of one subcommand: "--name VALUE", "--name=VALUE", "-n VALUE", flags, and words. Every slip is a UserError
/// that names it and, for an unknown option, the nearest known one.
class Options {
public:
  struct Known {
    const char *name;  // "--seed"
    const char *value; // "N", or null for a flag
    const char *help;
  };
  Options(std::string command, std::vector<Known> known, std::string words = "");
  void parse(const std::vector<std::string> &arguments);

  bool has(const std::string &name) const { return values.count(name) != 0; }
  /// The value given last, or `fallback`.
  std::string text(const std::string &name, const std::string &fallback = "") const;
  std::vector<std::string> all(const std::string &name) const;
  int64_t integer(const std::string &name, int64_t fallback, int64_t least, int64_t most) const;
  double number(const std::string &name, double fallback, double least, double most) const;
  const std::vector<std::string> &words() const { return given; }
  std::string usage(const std::string &program) const;

private:
  std::string command;
  std::vector<Known> known;
  std::string wordsHelp;
  std::map<std::string, std::vector<std::string>> values;
  std::vector<std::string> given;
};

} // namespace quern::runtime
#endif
