// What a search of plans found, as a page.
#ifndef QUERN_TOOLS_TUNE_TUNEPAGE_H
#define QUERN_TOOLS_TUNE_TUNEPAGE_H

#include "tools/tune/Tuner.h"

namespace quern::tools {

/// One HTML file without scripts: the program before and after, and each kernel with every plan that was tried.
/// `model`: what was tuned.
std::string tunePage(const TuneReport &report, const std::string &model, const TuningConditions &where);

} // namespace quern::tools
#endif
