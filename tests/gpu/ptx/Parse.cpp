// Takes: PTX's text. Gives: its functions, each instruction with what it does and where its operands are.
#include "tests/gpu/ptx/Steps.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

namespace quern::ptx {
namespace {

std::string trimmed(const std::string &text) {
  size_t begin = text.find_first_not_of(" \t\n"), end = text.find_last_not_of(" \t\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

size_t bytesOf(const std::string &type) {
  size_t bits = std::strtoul(type.c_str() + 1, nullptr, 10);
  if (bits < 8)
    throw std::runtime_error("unknown type '" + type + "'");
  return bits / 8;
}

/// What commas separate outside of brackets.
std::vector<std::string> separated(const std::string &text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (char c : text) {
    depth += c == '{' || c == '[' || c == '(';
    depth -= c == '}' || c == ']' || c == ')';
    if (c == ',' && depth == 0) {
      parts.push_back(trimmed(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trimmed(part).empty())
    parts.push_back(trimmed(part));
  return parts;
}

/// One function's names while its text is read.
class Body {
public:
  Body(Module &module, Function &function) : module(module), function(function) { function.registers = placeRegisters; }

  void parameter(const std::string &text, size_t &offset) {
    // .param .u64 .ptr .align 1 name      .param .b64 name      .param .align 4 .b8 name[12]
    std::istringstream words(text);
    std::string word, name;
    size_t bytes = 0, many = 1, align = 1;
    while (words >> word) {
      if (word == ".align") {
        words >> align;
      } else if (word[0] == '.' && bytes == 0 && std::isdigit(word.back())) {
        bytes = bytesOf(word.substr(1));
      } else if (word[0] != '.') {
        name = word;
      }
    }
    if (size_t bracket = name.find('['); bracket != std::string::npos) {
      many = std::strtoul(name.c_str() + bracket + 1, nullptr, 10);
      name.resize(bracket);
    }
    if (!bytes || name.empty())
      throw std::runtime_error("cannot read the parameter '" + text + "'");
    align = std::max(align, bytes);
    offset = (offset + align - 1) / align * align;
    function.parameters.push_back({name, offset, bytes * many});
    places[name] = offset;
    offset += bytes * many;
  }

  void label(const std::string &name) { labels[name] = function.code.size(); }

  /// `.local .align 8 .b8 name[40]`, `.shared ...`.
  void memory(const std::string &text) {
    bool local = text.starts_with(".local");
    size_t &bytes = local ? function.localBytes : function.sharedBytes;
    size_t bracket = text.find('['), type = text.rfind('.'), name = text.find(' ', type);
    if (bracket == std::string::npos)
      throw std::runtime_error("cannot read '" + text + "'");
    size_t each = bytesOf(trimmed(text.substr(type + 1, name - type - 1)));
    bytes = (bytes + 15) / 16 * 16;
    addresses[trimmed(text.substr(name, bracket - name))] = (local ? localBase : sharedBase) + bytes;
    bytes += each * std::strtoul(text.c_str() + bracket + 1, nullptr, 10);
  }

  void instruction(std::string text) {
    Instruction made;
    made.text = text;
    if (text[0] == '@') {
      size_t space = text.find_first_of(" \t\n");
      made.unless = text[1] == '!';
      made.guard = registerOf(text.substr(made.unless ? 2 : 1, space - (made.unless ? 2 : 1)));
      text = trimmed(text.substr(space));
    }
    size_t space = text.find_first_of(" \t\n");
    std::string name = text.substr(0, space), rest = space == std::string::npos ? "" : trimmed(text.substr(space));
    made.flow = name == "bra" || name == "bra.uni" ? Flow::Branch
                : name == "bar.sync"               ? Flow::Barrier
                : name == "ret" || name == "exit"  ? Flow::End
                                                   : Flow::Next;
    if (made.flow == Flow::Branch) {
      branches.emplace_back(function.code.size(), rest);
    } else if (name == "call.uni" || name == "call") {
      call(made, separated(rest));
    } else if (made.flow == Flow::Next) {
      operands(made, name, separated(rest));
      made.together = togetherOf(name);
      if (!made.together)
        made.step = stepOf(name);
    }
    function.code.push_back(std::move(made));
  }

  void finish() {
    for (auto &[at, name] : branches) {
      auto found = labels.find(name);
      if (found == labels.end())
        throw std::runtime_error("no label " + name);
      function.code[at].target = found->second;
    }
  }

private:
  Module &module;
  Function &function;
  std::map<std::string, int> registers;
  std::map<std::string, size_t> labels, places; // places: of parameters, of the function's and of its calls'
  std::map<std::string, uint64_t> addresses;
  std::vector<std::pair<size_t, std::string>> branches;

  int registerOf(const std::string &name) {
    static const char *const known[placeRegisters] = {"%tid.x",   "%tid.y",    "%tid.z",    "%ntid.x",
                                                      "%ntid.y",  "%ntid.z",   "%ctaid.x",  "%ctaid.y",
                                                      "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z"};
    for (int i = 0; i < placeRegisters; ++i)
      if (name == known[i])
        return i;
    auto [at, isNew] = registers.try_emplace(name, int(function.registers));
    function.registers += isNew;
    return at->second;
  }

  Operand operand(const std::string &text) {
    if (text == "_")
      return {registerOf("_"), 0};
    if (text[0] == '%')
      return {registerOf(text), 0};
    if (text.starts_with("0f") || text.starts_with("0d"))
      return {-1, std::strtoull(text.c_str() + 2, nullptr, 16)};
    if (std::isdigit(text[0]) || text[0] == '-')
      return {-1, text[0] == '-' ? uint64_t(std::strtoll(text.c_str(), nullptr, 0))
                                 : std::strtoull(text.c_str(), nullptr, 0)};
    if (auto at = addresses.find(text); at != addresses.end())
      return {-1, at->second};
    if (auto at = module.addresses.find(text); at != module.addresses.end())
      return {-1, at->second};
    if (auto at = places.find(text); at != places.end())
      return {-1, at->second};
    return {registerOf(text), 0}; // of an inner scope: "tmp"
  }

  /// "[%rd1+8]", "[name+4]", "[name]".
  Operand address(const std::string &text) {
    std::string inner = text.substr(1, text.size() - 2);
    size_t plus = inner.find('+', 1);
    Operand found = operand(trimmed(inner.substr(0, plus)));
    if (plus != std::string::npos)
      found.bits += uint64_t(std::strtoll(inner.c_str() + plus + 1, nullptr, 0));
    return found;
  }

  void operands(Instruction &made, std::string &name, const std::vector<std::string> &texts) {
    for (const std::string &text : texts) {
      if (size_t bar = text.find('|'); bar != std::string::npos) { // a second result: a predicate
        made.operands.push_back(operand(trimmed(text.substr(0, bar))));
      } else if (text[0] == '{') {
        if (name == "mov.b64" || name == "mov.b32")
          name = (&text == &texts.front() ? "split." : "join.") + name.substr(4);
        for (const std::string &part : separated(text.substr(1, text.size() - 2)))
          made.operands.push_back(operand(part));
      } else if (size_t brace = text.find('{');
                 brace != std::string::npos) { // "[%rd1, {%r1, %r2}]": a place in a tensor
        made.operands.push_back(address(text.substr(0, text.rfind(',', brace)) + "]"));
        for (const std::string &part : separated(text.substr(brace + 1, text.find('}') - brace - 1)))
          made.operands.push_back(operand(part));
      } else {
        made.operands.push_back(text[0] == '[' ? address(text) : operand(text));
      }
    }
  }

  /// A call's parameters are behind the function's own; each name has one place in the whole function.
  size_t callPlace(const std::string &name, size_t bytes) {
    auto [at, isNew] = places.try_emplace(name, (function.parameterBytes + 15) / 16 * 16);
    if (isNew)
      function.parameterBytes = at->second + bytes;
    return at->second;
  }

public:
  /// `.param .b64 param0` within a call's braces.
  void callParameter(const std::string &text) {
    size_t space = text.find_last_of(" \t");
    std::string name = trimmed(text.substr(space)), type = trimmed(text.substr(6, space - 6));
    size_t bytes = 16;
    if (size_t bracket = name.find('['); bracket != std::string::npos) {
      bytes = std::strtoul(name.c_str() + bracket + 1, nullptr, 10);
      name.resize(bracket);
    }
    callPlace(name, bytes);
  }

private:
  void call(Instruction &made, const std::vector<std::string> &parts) {
    // (retval0), name, (param0, param1)   or   name, (param0)
    std::vector<std::string> passed;
    std::string callee;
    for (const std::string &part : parts)
      if (part[0] != '(')
        callee = part;
      else
        for (const std::string &one : separated(part.substr(1, part.size() - 2)))
          passed.push_back(one);
    auto found = module.functions.find(callee);
    if (found == module.functions.end())
      throw std::runtime_error("calls " + callee + ", which is not there");
    made.callee = found->second.get();
    for (const std::string &name : passed)
      made.passed.push_back(operand(name));
  }
};

/// The text without comments.
std::string uncommented(const std::string &text) {
  std::string kept;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    kept += line.substr(0, line.find("//")) + "\n";
  return kept;
}

class Reader {
public:
  explicit Reader(const std::string &whole) : text(uncommented(whole)), module(std::make_unique<Module>()) {}

  std::unique_ptr<Module> read() {
    while (skip(), at < text.size()) {
      size_t end = text.find_first_of(";{(\n", at);
      std::string head = text.substr(at, end - at);
      if (head.find(".entry") != std::string::npos || head.find(".func") != std::string::npos)
        function();
      else if (head.find(".extern .shared") != std::string::npos || head.find(".const") != std::string::npos ||
               head.find(".global") != std::string::npos)
        memory(until(';'));
      else if (head.starts_with(".version") || head.starts_with(".target") || head.starts_with(".address_size"))
        at = text.find('\n', at);
      else
        throw std::runtime_error("cannot read '" + text.substr(at, std::min<size_t>(end - at, 80)) + "'");
    }
    return std::move(module);
  }

private:
  std::string text;
  std::unique_ptr<Module> module;
  size_t at = 0;

  void skip() { at = std::min(text.find_first_not_of(" \t\n", at), text.size()); }
  std::string until(char stop) {
    size_t end = text.find(stop, at);
    if (end == std::string::npos)
      throw std::runtime_error("the text ends too early");
    std::string part = text.substr(at, end - at);
    at = end + 1;
    return trimmed(part);
  }

  /// `.extern .shared .align 16 .b8 name[];`, `.const .align 4 .b8 name[8] = {0, 0, 128, 63, ...};`, `.global .align 4 .b8 name[8];`
  void memory(const std::string &given) {
    size_t bracket = given.find('['), values = given.find('{'), space = given.find_last_of(" \t", bracket);
    std::string name = given.substr(space + 1, bracket - space - 1);
    if (given.find(".shared") != std::string::npos) {
      module->addresses[name] = sharedBase; // kernels that take it declare no other
      return;
    }
    const bool zeros = given.find(".global") != std::string::npos && values == std::string::npos;
    if (given.find(".b8") == std::string::npos || (values == std::string::npos && !zeros))
      throw std::runtime_error("cannot read '" + given + "'");
    module->constants.resize((module->constants.size() + 15) / 16 * 16);
    module->addresses[name] = tableBase + module->constants.size();
    if (zeros) {
      module->constants.resize(module->constants.size() + std::strtoul(given.c_str() + bracket + 1, nullptr, 10));
      return;
    }
    std::istringstream numbers(given.substr(values + 1, given.find('}') - values - 1));
    for (std::string number; std::getline(numbers, number, ',');)
      module->constants.push_back(uint8_t(std::strtoul(number.c_str(), nullptr, 10)));
  }

  void function() {
    auto made = std::make_unique<Function>();
    Body body(*module, *made);
    // .visible .entry name(parameters) ... {      .func (.param .b64 result) name(parameters) {
    std::string head = until('(');
    bool isFunction = head.find(".func") != std::string::npos;
    if (isFunction && head.ends_with(".func")) {
      for (const std::string &result : separated(until(')')))
        body.parameter(result, made->parameterBytes);
      made->results = made->parameters.size();
      head = until('(');
    }
    made->name = trimmed(head.substr(head.find_last_of(" \t") + 1));
    for (const std::string &parameter : separated(until(')')))
      body.parameter(parameter, made->parameterBytes);
    std::string between = text.substr(at, text.find_first_of("{;", at) - at);
    if (text[at + between.size()] == ';') { // only declared
      at += between.size() + 1;
      return;
    }
    at += between.size() + 1;
    for (int depth = 1; depth;) {
      skip();
      if (at >= text.size())
        throw std::runtime_error(made->name + " has no end");
      if (text[at] == '{' || text[at] == '}') {
        depth += text[at++] == '{' ? 1 : -1;
        continue;
      }
      size_t end = text.find(';', at), colon = text.find(':', at), line = text.find('\n', at);
      if (colon < end && colon < line && text[at] == '$') {
        body.label(trimmed(text.substr(at, colon - at)));
        at = colon + 1;
        continue;
      }
      statement(body, *made, until(';'));
    }
    body.finish();
    std::string name = made->name;
    module->functions[name] = std::move(made);
  }

  static void statement(Body &body, const Function &function, const std::string &text) {
    try {
      if (text.starts_with(".reg") || text.starts_with(".pragma"))
        return;
      if (text.starts_with(".param"))
        return body.callParameter(text);
      if (text.starts_with(".local") || text.starts_with(".shared"))
        return body.memory(text);
      body.instruction(text);
    } catch (const std::exception &error) {
      throw std::runtime_error(function.name + ": " + text + ": " + error.what());
    }
  }
};

} // namespace

std::unique_ptr<Module> parse(const std::string &text) {
  return Reader(text).read();
}

} // namespace quern::ptx
