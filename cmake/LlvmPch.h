// What writes LLVM's IR includes.
#include "cmake/StdPch.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
