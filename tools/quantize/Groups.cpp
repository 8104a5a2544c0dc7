// Takes: the forms of a model's tensors. Gives: groups by role, and globs for them.
#include "tools/quantize/Groups.h"

#include "support/Glob.h"
#include "tools/spec/StoredFormats.h"

#include <algorithm>
#include <map>

namespace quern::tools {
namespace {

/// The part of a name that says what it is: "k_proj" of "model.layers.*.self_attn.k_proj.weight".
std::string roleOf(const std::string &glob) {
  size_t end = glob.rfind('.');
  return end == std::string::npos ? glob
                                  : glob.substr(glob.rfind('.', end - 1) + 1, end - glob.rfind('.', end - 1) - 1);
}

} // namespace

std::string WeightGroup::title() const {
  std::string text = globs[0];
  for (size_t i = 1; i < globs.size() && i < 4; ++i)
    text += " + " + roleOf(globs[i]);
  return text + (globs.size() > 4 ? " ..." : "");
}

std::vector<WeightGroup> weightGroups(const std::vector<StoredForm> &forms) {
  std::vector<WeightGroup> groups;
  std::map<int, size_t> numberOf;
  for (const StoredForm &form : forms) {
    if (form.group < 0)
      continue;
    auto [at, isNew] = numberOf.try_emplace(form.group, groups.size());
    if (isNew)
      groups.emplace_back();
    groups[at->second].names.push_back(form.name);
  }
  for (WeightGroup &group : groups)
    for (const std::string &name : group.names) {
      std::string glob = withoutNumbers(name);
      bool others = std::any_of(groups.begin(), groups.end(), [&](const WeightGroup &other) {
        return &other != &group && std::any_of(other.names.begin(), other.names.end(),
                                               [&](const std::string &its) { return support::matchGlob(glob, its); });
      });
      if (others) // layers that are computed in different ways
        glob = name;
      if (std::find(group.globs.begin(), group.globs.end(), glob) == group.globs.end())
        group.globs.push_back(glob);
    }
  return groups;
}

std::string rulesOf(const WeightGroup &group, const std::string &format) {
  std::string rules;
  for (const std::string &glob : group.globs)
    rules += (rules.empty() ? "" : ",") + glob + "=" + format;
  return rules;
}

} // namespace quern::tools
