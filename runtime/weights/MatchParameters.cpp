// Takes: the parameters that a model declares and the tensors that a checkpoint has. Gives: which is which, or all that
// is wrong.
//
// Everything is reported at once: a checkpoint that does not fit is mostly the wrong model or a wrong config, and the list
// shows the pattern.
#include "runtime/Error.h"
#include "runtime/weights/TextPart.h"
#include "runtime/weights/Weights.h"
#include "support/Glob.h"
#include "support/Nearest.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace quern::runtime {

namespace {

std::string placeOf(const ParameterInfo &parameter) {
  return parameter.at.empty() ? "" : "  (" + parameter.at + ")";
}

std::string namesOf(const ParameterInfo &parameter) {
  std::string text = parameter.names[0];
  for (size_t i = 1; i < parameter.names.size() && i < 4; ++i)
    text += " | " + parameter.names[i];
  return text;
}

/// The unused tensor of the same shape whose name is nearest, if it is near.
std::string suggestion(const ParameterInfo &parameter, const std::vector<std::string> &unused,
                       const TensorSource &source) {
  std::string best;
  size_t least = SIZE_MAX;
  for (const std::string &name : unused) {
    if (source.find(name)->shape != parameter.shape || name.size() > 300)
      continue;
    for (const std::string &wanted : parameter.names) {
      size_t d = editDistance(name, wanted);
      if (d < least && d <= std::max<size_t>(2, std::max(name.size(), wanted.size()) / 2)) {
        least = d;
        best = name;
      }
    }
  }
  return best.empty() ? "" : "; did you mean " + best + "?";
}

bool isCopy(const StoredTensor &tensor, const std::vector<const StoredTensor *> &used) {
  return std::any_of(used.begin(), used.end(), [&](const StoredTensor *other) {
    return other && other->dtype == tensor.dtype && other->shape == tensor.shape && other->bytes == tensor.bytes &&
           std::strcmp(typeName(*other), typeName(tensor)) == 0 &&
           std::memcmp(other->data, tensor.data, tensor.bytes) == 0;
  });
}

std::string section(const char *title, const std::vector<std::string> &lines) {
  if (lines.empty())
    return "";
  std::string text = format("\n%s (%zu):", title, lines.size());
  for (const std::string &line : lines)
    text += "\n  " + line;
  return text;
}

} // namespace

std::vector<const StoredTensor *> matchParameters(const Description &description, const TensorSource &source) {
  if (isPacked(source))
    throw UserError(source.path() +
                    " holds weights packed for kernels, not a checkpoint's tensors; give the checkpoint "
                    "that they were made of");
  std::vector<const StoredTensor *> result;
  std::vector<const ParameterInfo *> absent;
  std::vector<std::string> missing, wrong, unusedLines, unused;
  for (const ParameterInfo &parameter : description.parameters) {
    const StoredTensor *found = nullptr;
    for (const std::string &name : parameter.names) {
      found = source.find(name);
      if (!found)
        continue;
      if (found->shape != parameter.shape)
        wrong.push_back(name + " is " + shapeText(found->shape) + ", the model needs " + shapeText(parameter.shape) +
                        placeOf(parameter));
      else if (!isReal(found->dtype))
        wrong.push_back(name + " has the type " + typeName(*found) + ", the model needs real numbers" +
                        placeOf(parameter));
      break;
    }
    if (!found && !parameter.mayBeAbsent)
      absent.push_back(&parameter);
    result.push_back(found);
  }
  std::set<const void *> used;
  for (const StoredTensor *tensor : result)
    if (tensor)
      used.insert(tensor->data);
  auto isUsed = [&](const StoredTensor &tensor) { // or a part of it is
    auto first = used.lower_bound(tensor.data);
    return first != used.end() &&
           (*first == tensor.data || (!tensor.reader && std::less<const void *>()(*first, tensor.data + tensor.bytes)));
  };
  auto isOfOtherPart = [&](const std::string &name) { return source.hasTextPart() && nameInTextPart(name).empty(); };
  const std::vector<std::string> names = source.names();
  const bool textAlone = std::none_of(names.begin(), names.end(), [&](const std::string &name) {
    return isOfOtherPart(name) && isUsed(*source.find(name));
  });
  for (const std::string &name : names) {
    const StoredTensor &tensor = *source.find(name);
    if (textAlone && isOfOtherPart(name))
      continue;
    bool ignored = std::any_of(description.ignore.begin(), description.ignore.end(),
                               [&](const std::string &glob) { return matchGlob(glob, name); });
    if (isUsed(tensor) || ignored || isCopy(tensor, result))
      continue;
    unused.push_back(name);
    unusedLines.push_back(quote(name).substr(1, quote(name).size() - 2) + " " + typeName(tensor) +
                          shapeText(tensor.shape));
  }
  for (const ParameterInfo *parameter : absent) {
    // Names of hundreds of layers against hundreds of others: enough suggestions show the pattern.
    std::string guess = missing.size() < 50 ? suggestion(*parameter, unused, source) : "";
    missing.push_back(namesOf(*parameter) + " " + shapeText(parameter->shape) + placeOf(*parameter) + guess);
  }
  if (!missing.empty() || !wrong.empty() || !unused.empty())
    throw UserError("Q042: " + source.path() + " does not fit the model " + description.model +
                    section("missing tensors", missing) + section("tensors of another shape or type", wrong) +
                    section("tensors that the model does not use", unusedLines));
  return result;
}

} // namespace quern::runtime
