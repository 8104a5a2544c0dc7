// What --profile of a program wrote, for the page of the same program.
#ifndef QUERN_TOOLS_INSPECT_MEASUREDPROFILE_H
#define QUERN_TOOLS_INSPECT_MEASUREDPROFILE_H

#include "mlir/IR/BuiltinOps.h"
#include <nlohmann/json.hpp>

namespace quern::tools {

/// What the page shows of a profile: "file", "cpu", "threads", "limits" of the machine or null, "kinds" of calls with what each launch took (docs/profile.md),
/// "busy" the nanoseconds of each thread by launch. Launches are numbered in the order of the text. Throws
/// std::runtime_error for what is no profile, or one of another program than `planned` would become: the message says
/// what differs.
nlohmann::json readProfile(const std::string &path, mlir::ModuleOp planned);

} // namespace quern::tools
#endif
