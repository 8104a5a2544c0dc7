// What the tools include beside MLIR: their options, and JSON.
#include "cmake/MlirPch.h"

#include <boost/program_options.hpp>
#include <nlohmann/json.hpp>
