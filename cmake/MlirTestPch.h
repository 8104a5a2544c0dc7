// What nearly every test that touches MLIR includes.
#include "cmake/MlirPch.h"
#include "cmake/TestPch.h"
