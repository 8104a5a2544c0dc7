// The value of a polynomial over run-time lengths, in LLVM IR.
#ifndef QUERN_CODEGEN_LLVM_SIZEVALUE_H
#define QUERN_CODEGEN_LLVM_SIZEVALUE_H

#include "ir/Size.h"

#include "llvm/IR/IRBuilder.h"

#include <map>
#include <string>

namespace quern::codegen {

/// `type`: of the result and of each length.
inline llvm::Value *sizeValue(llvm::IRBuilderBase &b, const ir::Size &size, llvm::Type *type,
                              const std::map<std::string, llvm::Value *> &lengths) {
  auto number = [&](int64_t value) { return llvm::ConstantInt::get(type, uint64_t(value), true); };
  llvm::Value *sum = number(0);
  for (const auto &[monomial, coefficient] : size.getTerms()) {
    llvm::Value *product = number(coefficient);
    for (const std::string &symbol : monomial)
      product = b.CreateMul(product, lengths.at(symbol));
    sum = b.CreateAdd(sum, product);
  }
  return sum;
}

} // namespace quern::codegen
#endif
