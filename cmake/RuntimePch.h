// What nearly every file of the runtime includes, and its JSON parser.
#include "cmake/StdPch.h"

#include <nlohmann/json.hpp>
