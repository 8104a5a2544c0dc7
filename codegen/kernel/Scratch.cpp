// Takes: what a kernel asks for. Gives: that as text and back, and its bytes.
#include "codegen/kernel/Scratch.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <stdexcept>

using namespace quern::codegen;
using quern::ir::Size;

int64_t quern::codegen::bytesOf(const std::vector<Scratch::Case> &cases,
                                const std::function<int64_t(const Size &)> &value) {
  int64_t bytes = 0;
  for (const Scratch::Case &one : cases) {
    if (!std::all_of(one.ones.begin(), one.ones.end(), [&](const Size &length) { return value(length) == 1; }))
      continue;
    bytes = INT64_MAX;
    for (const Size &polynomial : one.least)
      bytes = std::min(bytes, value(polynomial));
  }
  return bytes;
}

static std::string textOf(const std::vector<Scratch::Case> &cases) {
  std::string text;
  for (const Scratch::Case &one : cases) {
    for (const Size &length : one.ones)
      text += length.str() + " ";
    text += ":";
    for (const Size &size : one.least)
      text += " " + size.str() + ";";
    text += "\n";
  }
  return text + "\n";
}

std::string quern::codegen::scratchText(const Scratch &scratch) {
  return textOf(scratch.caller) + textOf(scratch.worker);
}

Scratch quern::codegen::parseScratch(const std::string &text) {
  Scratch scratch;
  std::istringstream lines(text);
  for (std::vector<Scratch::Case> *cases : {&scratch.caller, &scratch.worker})
    for (std::string line; std::getline(lines, line) && !line.empty();) {
      Scratch::Case one;
      size_t colon = line.find(':');
      std::istringstream names(line.substr(0, colon)), sizes(colon == std::string::npos ? "" : line.substr(colon + 1));
      for (std::string name; names >> name;)
        one.ones.push_back(Size::symbol(name));
      for (std::string part; std::getline(sizes, part, ';');) {
        std::optional<Size> size = Size::parse(part);
        if (!size)
          throw std::runtime_error("not the size of scratch: '" + part + "'");
        one.least.push_back(*size);
      }
      if (one.least.empty())
        throw std::runtime_error("not a line of a kernel's scratch: '" + line + "'");
      cases->push_back(std::move(one));
    }
  return scratch;
}
