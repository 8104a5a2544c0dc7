// Takes: a module's PTX. Gives: the same, each of whose kernels waits by itself (PTX ISA: griddepcontrol).
#include "runtime/device/cuda/EarlyLaunch.h"

#include <algorithm>

namespace quern::runtime::cuda {

WaitingPtx withWaits(std::string ptx) {
  WaitingPtx made;
  if (ptx.find("griddepcontrol.wait") != std::string::npos)
    return {std::move(ptx), {}}; // its producer knows better
  bool isNewer = ptx.find(".target sm_90") != std::string::npos;
  auto replace = [&](const char *directive, const char *line) {
    if (size_t at = ptx.find(directive); at != std::string::npos && !isNewer)
      ptx.replace(at, ptx.find('\n', at) - at, line);
  };
  replace(".version", ".version 7.8");
  replace(".target", ".target sm_90");
  // In this order: else those after the next would begin, too, and take room from the ones at work.
  const std::string wait = "\n\tgriddepcontrol.wait;", next = "\n\tgriddepcontrol.launch_dependents;";
  const std::string entry = ".entry ", waitHere = "// quern: wait", endHere = "// quern: end";
  size_t at = std::min(ptx.find(entry), ptx.size());
  made.ptx = ptx.substr(0, at);
  while (at < ptx.size()) {
    size_t end = std::min(ptx.find(entry, at + 1), ptx.size());
    std::string kernel = ptx.substr(at, end - at);
    at = end;
    bool saysWait = kernel.find(waitHere) != std::string::npos, saysEnd = kernel.find(endHere) != std::string::npos;
    if (saysWait || saysEnd)
      made.eager.insert(kernel.substr(entry.size(), kernel.find('(') - entry.size()));
    for (size_t place; (place = kernel.find(endHere)) != std::string::npos;)
      kernel.replace(place, endHere.size(), next);
    const std::string first = saysEnd ? wait : wait + next;
    if (saysWait)
      kernel.replace(kernel.find(waitHere), waitHere.size(), first);
    else if (size_t body = kernel.find('{'); body != std::string::npos)
      kernel.insert(body + 1, first);
    made.ptx += kernel;
  }
  return made;
}

} // namespace quern::runtime::cuda
