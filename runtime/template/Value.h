// Values of the template language: what a Jinja expression can be.
#ifndef QUERN_RUNTIME_TEMPLATE_VALUE_H
#define QUERN_RUNTIME_TEMPLATE_VALUE_H

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace quern::runtime::jinja {

class Value;
using List = std::vector<Value>;
/// In the order of insertion. Keys are strings; those of `namespace` can be assigned.
struct Dict {
  std::vector<std::pair<std::string, Value>> entries;
  bool assignable = false;
  const Value *find(std::string_view key) const;
  void set(std::string_view key, Value value);
};
struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;
  /// By place or by name; null where it is missing.
  const Value *find(size_t place, std::string_view name) const;
};
using Callable = std::function<Value(const Arguments &)>;

/// What an unknown name or a missing key is; `name` is for messages.
struct Undefined {
  std::string name;
};

/// Lists, dicts and functions are shared, as in Python, and strings so that copies cost nothing.
class Value {
public:
  Value() : what(Undefined{}) {}
  Value(Undefined undefined) : what(std::move(undefined)) {}
  Value(std::nullptr_t) : what(nullptr) {}
  Value(bool value) : what(value) {}
  Value(int64_t value) : what(value) {}
  Value(double value) : what(value) {}
  Value(std::string text) : what(std::make_shared<const std::string>(std::move(text))) {}
  Value(const char *text) : Value(std::string(text)) {}
  Value(List list) : what(std::make_shared<const List>(std::move(list))) {}
  Value(Dict dict) : what(std::make_shared<Dict>(std::move(dict))) {}
  Value(Callable function) : what(std::make_shared<const Callable>(std::move(function))) {}
  static Value fromJson(const nlohmann::json &json);

  bool isUndefined() const { return std::holds_alternative<Undefined>(what); }
  bool isNone() const { return std::holds_alternative<std::nullptr_t>(what); }
  const bool *boolean() const { return std::get_if<bool>(&what); }
  const int64_t *integer() const { return std::get_if<int64_t>(&what); }
  const double *real() const { return std::get_if<double>(&what); }
  /// bool, int or float, as Python counts them.
  bool isNumber() const { return boolean() || integer() || real(); }
  double number() const;
  int64_t whole() const { return boolean() ? *boolean() : *integer(); }
  const std::string *string() const { return pointer<std::shared_ptr<const std::string>>(); }
  const List *list() const { return pointer<std::shared_ptr<const List>>(); }
  Dict *dict() const { return pointer<std::shared_ptr<Dict>>(); }
  const Callable *callable() const { return pointer<std::shared_ptr<const Callable>>(); }
  const std::string &undefinedName() const { return std::get<Undefined>(what).name; }

  bool truth() const;
  /// As str(): what {{ }} prints. `repr`: as inside of a list.
  std::string text(bool repr = false) const;
  bool equals(const Value &other) const;
  /// The same object, as `is sameas` asks.
  bool same(const Value &other) const;
  /// "a string", for messages.
  const char *kind() const;

private:
  std::variant<Undefined, std::nullptr_t, bool, int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const List>, std::shared_ptr<Dict>, std::shared_ptr<const Callable>>
      what;
  template <typename Pointer> typename Pointer::element_type *pointer() const {
    const Pointer *found = std::get_if<Pointer>(&what);
    return found ? found->get() : nullptr;
  }
  void write(std::string &out, bool repr, int depth) const;
};

/// As Python's json.dumps with ensure_ascii=False; `indent` < 0: on one line.
std::string toJson(const Value &value, int indent);
/// -1, 0, 1. Throws UserError for values without an order.
int compare(const Value &a, const Value &b);

} // namespace quern::runtime::jinja
#endif
