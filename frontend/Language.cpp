// Takes: texts of specs and configs. Gives: diagnostics, formatted text, the spec for a checkpoint.
// Why apart from Frontend.cpp: a checker without MLIR starts at once, and can be fuzzed by the second.
#include "frontend/Language.h"
#include "frontend/Embedded.h"
#include "frontend/check/DefaultLoss.h"
#include "frontend/check/Elaborator.h"
#include "frontend/check/TextPart.h"
#include "frontend/syntax/Formatter.h"
#include "frontend/syntax/Lexer.h"
#include "frontend/syntax/Parser.h"
#include "support/Error.h"
#include "support/Files.h"

#include <cassert>

namespace quern::frontend {

static std::optional<std::string> readFile(const std::filesystem::path &path, Diagnostics &diagnostics) {
  try {
    return support::readFile(path.string(), maxFileBytes);
  } catch (const support::UserError &error) {
    diagnostics.error("Q001", error.what(), {});
    return std::nullopt;
  }
}

bool readSpec(const std::filesystem::path &spec, const std::optional<std::filesystem::path> &config, SpecInput &input,
              Diagnostics &diagnostics) {
  auto text = readFile(spec, diagnostics);
  input.name = spec.string();
  if (text)
    input.text = std::move(*text);
  return (!config || readConfig(*config, input, diagnostics)) && text.has_value();
}

bool readConfig(const std::filesystem::path &config, SpecInput &input, Diagnostics &diagnostics) {
  auto text = readFile(config, diagnostics);
  if (!text)
    return false;
  input.configText = std::move(*text);
  input.configName = config.filename().string();
  return true;
}

std::optional<Setting> parseSetting(const std::string &text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos)
    return std::nullopt;
  return Setting{text.substr(0, equals), text.substr(equals + 1)};
}

static const Ast &standardLibrary() {
  static const Ast library = [] {
    Diagnostics diagnostics;
    Ast ast = parse(std::make_shared<Source>("std.quern", std::string(standardLibraryText)), diagnostics);
    assert(!diagnostics.hasErrors() && "std.quern has mistakes");
    return ast;
  }();
  return library;
}

Checked checkSpec(const SpecInput &input, Diagnostics &diagnostics, Builder &builder) {
  const Ast &library = standardLibrary();
  diagnostics.keep(library.source);
  Ast spec = parse(std::make_shared<Source>(input.name, input.text), diagnostics);
  Checked checked;
  if (input.train && !spec.models.empty()) {
    DefaultLoss loss = defaultLoss(spec.models[0], spec);
    checked.nextToken = loss.nextToken;
    if (loss.function)
      spec.models[0].functions.push_back(loss.function);
  }
  ConfigFile config;
  if (input.configText) {
    size_t before = diagnostics.list().size();
    config = ConfigFile::parse(std::make_shared<Source>(input.configName, *input.configText), diagnostics);
    if (diagnostics.list().size() > before) // what follows from an unreadable config would be said first
      return checked;
  }
  Elaborator elaborator(spec, library, config, diagnostics, builder);
  std::vector<const ConfigField *> fields;
  if (const ModelDecl *model = elaborator.getModel())
    for (const ConfigDecl &decl : model->configs)
      for (const ConfigField &field : decl.fields)
        fields.push_back(&field);
  auto ofPart = [](const std::string &spelling) { return spelling.starts_with(std::string(textPart) + "."); };
  if (std::none_of(fields.begin(), fields.end(), [&](const ConfigField *field) {
        return std::any_of(field->spellings.begin(), field->spellings.end(), ofPart);
      }))
    config.takeTextPart();
  config.apply(input.settings, fields, elaborator.configIgnores(), diagnostics);
  elaborator.run();
  diagnostics.sortByPlace(spec.source.get());

  if (const ModelDecl *model = elaborator.getModel())
    checked.model = model->name;
  auto object = std::make_shared<Object>();
  object->fields = elaborator.getFields();
  checked.configJson = toJson(Value(ObjectRef(object)));
  checked.fileConfigJson = config.text();
  checked.ignores = elaborator.tensorIgnores();
  return checked;
}

bool checkSpec(const SpecInput &input, Diagnostics &diagnostics) {
  Builder silent;
  checkSpec(input, diagnostics, silent);
  return !diagnostics.hasErrors();
}

std::optional<std::string> formatSpec(const std::string &name, const std::string &text, Diagnostics &diagnostics) {
  auto source = std::make_shared<Source>(name, text);
  size_t before = diagnostics.errorCount();
  parse(source, diagnostics);
  if (diagnostics.errorCount() != before)
    return std::nullopt;
  return format(*source);
}

} // namespace quern::frontend
