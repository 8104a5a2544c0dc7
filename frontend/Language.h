// Entry points that need no MLIR: checking, formatting.
#ifndef QUERN_FRONTEND_LANGUAGE_H
#define QUERN_FRONTEND_LANGUAGE_H

#include "frontend/check/Builder.h"
#include "frontend/check/Config.h"
#include "frontend/syntax/Diagnostics.h"

#include <filesystem>
#include <optional>

namespace quern::frontend {

/// A spec and what it is bound to.
struct SpecInput {
  std::string name, text;                // the file's name, as messages show it
  std::optional<std::string> configText; // a config.json
  std::string configName = "config.json";
  std::vector<Setting> settings; // --set NAME=VALUE
  bool train = false;            // --train: with a loss, the spec's or the default one
};

/// Reads SPEC and, where given, a config file. False, with a diagnostic, if a file cannot be read.
bool readSpec(const std::filesystem::path &spec, const std::optional<std::filesystem::path> &config, SpecInput &input,
              Diagnostics &diagnostics);
/// The config file alone.
bool readConfig(const std::filesystem::path &config, SpecInput &input, Diagnostics &diagnostics);
/// "NAME=VALUE", or nothing if there is no '='.
std::optional<Setting> parseSetting(const std::string &text);

/// What a spec is found to be.
struct Checked {
  std::string model;
  std::string configJson, fileConfigJson;
  std::vector<std::string> ignores;
  bool nextToken = false; // the loss is the default one of `forward`
};

/// Checks everything, telling `builder` what is computed (a plain Builder: nothing is written).
Checked checkSpec(const SpecInput &input, Diagnostics &diagnostics, Builder &builder);
/// `quern check`: true if there are no errors.
bool checkSpec(const SpecInput &input, Diagnostics &diagnostics);

/// `quern fmt`: the formatted text, or nothing (with diagnostics) where it cannot be read.
std::optional<std::string> formatSpec(const std::string &name, const std::string &text, Diagnostics &diagnostics);

} // namespace quern::frontend
#endif
