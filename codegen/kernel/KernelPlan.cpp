// Takes: a plan. Gives: its numbers by name, and its text, which is part of the key of the kernel's object.
#include "codegen/kernel/KernelPlan.h"

#include <stdexcept>

namespace quern::codegen {

int PlanPart::operator[](const std::string &name) const {
  auto it = numbers.find(name);
  if (it == numbers.end())
    throw std::logic_error("the plan of '" + family + "' has no number '" + name + "'");
  return static_cast<int>(it->second);
}

int PlanPart::tiles() const {
  auto it = numbers.find("amx");
  return it == numbers.end() ? 0 : static_cast<int>(it->second);
}

std::string KernelPlan::text() const {
  std::string text = producer;
  for (const PlanPart &part : parts) {
    text += (&part == parts.data() ? ": " : ", ") + part.family + "(";
    bool first = true;
    for (const auto &[name, value] : part.numbers) {
      text += (first ? "" : ", ") + name + " = " + std::to_string(value);
      first = false;
    }
    text += ")";
  }
  return text;
}

} // namespace quern::codegen
