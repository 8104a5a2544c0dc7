// config.json: read, overridden, searched, and asked afterwards what nobody used.
#ifndef QUERN_FRONTEND_CHECK_CONFIG_H
#define QUERN_FRONTEND_CHECK_CONFIG_H

#include "frontend/check/Value.h"
#include "frontend/syntax/Diagnostics.h"

namespace quern::frontend {

/// `--set NAME=VALUE`: a field as the spec names it, or as the file does (with dots into objects).
struct Setting {
  std::string name, value;
};

class ConfigFile {
public:
  ConfigFile() = default;
  /// Reads JSON (Q041 when it is none).
  static ConfigFile parse(std::shared_ptr<const Source> source, Diagnostics &diagnostics);

  /// From here on the fields are those of the file's text part (TextPart.h), if it has one.
  void takeTextPart();

  /// Applies the settings. `fields` are the spec's, `ignores` all globs: any other name is an error (Q010).
  void apply(const std::vector<Setting> &settings, const std::vector<const ConfigField *> &fields,
             const std::vector<std::string> &ignores, Diagnostics &diagnostics);

  /// The first of the spellings that is present and not null; a dot goes into an object. Marks what it reads.
  const Value *find(const std::vector<std::string> &spellings) const;
  /// What `--set` gave to a field of the spec by its own name.
  const Value *setting(const std::string &field) const;
  /// Where the file has a field ("a.b"), if that is known.
  Span place(const std::string &dotted) const;

  /// Warns (Q043) of every field that is neither known nor ignored; the same within objects of which some fields were
  /// read.
  void warnUnread(const std::set<std::string> &known, const std::vector<std::string> &ignores,
                  Diagnostics &diagnostics) const;

  /// The file's text, or its JSON again where settings changed it; "{}" without a file.
  std::string text() const;

private:
  std::shared_ptr<const Source> source;
  ObjectRef root;
  std::map<std::string, Value> settings;
  std::string part; // the object of the file in which the fields are; empty: the file's own
  bool changed = false;
};

/// JSON text of a static value (null for what has none).
std::string toJson(const Value &value);

} // namespace quern::frontend
#endif
