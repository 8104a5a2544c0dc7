// One launch of a tile program in LLVM IR for NVPTX.
#ifndef QUERN_CODEGEN_TILE_PTX_KERNELIR_H
#define QUERN_CODEGEN_TILE_PTX_KERNELIR_H

#include "codegen/llvm/VectorMath.h"
#include "codegen/tile/Signature.h"

#include "llvm/IR/Module.h"

#include <functional>

namespace quern::codegen::tile {

/// What all forms of launches are written with: parameters, values at the place where the kernel stands, loops.
class KernelIr {
public:
  KernelIr(const Program &program, const Stage &stage, const std::string &name, llvm::Module &module);
  virtual ~KernelIr() = default;
  /// Writes the function.
  void run();

protected:
  const Program &p;
  const Stage &s;
  llvm::Module &module;
  llvm::LLVMContext &context;
  llvm::IRBuilder<> b;
  VectorMath math;
  llvm::Function *function = nullptr;
  bool quickPowers = false; ///< e^x by the unit for 2^x
  llvm::Value *thread = nullptr, *lane = nullptr, *warp = nullptr;
  llvm::Value *group[3] = {}; ///< this block's place in the grid

  virtual void body() = 0;
  /// The sum of the row where it stands, at another column.
  virtual llvm::Value *sumAt(llvm::Value *row, llvm::Value *column);

  // ---- small things; integers have 32 bits
  llvm::Value *number(int64_t value) { return b.getInt32(uint32_t(value)); }
  llvm::Value *add(llvm::Value *x, llvm::Value *y) { return b.CreateAdd(x, y); }
  llvm::Value *add(llvm::Value *x, int64_t y) { return b.CreateAdd(x, number(y)); }
  llvm::Value *mul(llvm::Value *x, int64_t y) { return b.CreateMul(x, number(y)); }
  llvm::Value *divide(llvm::Value *x, int64_t y) { return b.CreateUDiv(x, number(y)); }
  llvm::Value *rest(llvm::Value *x, int64_t y) { return b.CreateURem(x, number(y)); }
  llvm::Value *least(llvm::Value *x, llvm::Value *y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y); }
  llvm::Value *most(llvm::Value *x, llvm::Value *y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y); }
  /// What LLVM has no intrinsic for; lanes of a warp do it together.
  llvm::Value *assembly(const std::string &text, const std::string &constraints, llvm::Type *result,
                        const std::vector<llvm::Value *> &arguments);
  llvm::Value *call(llvm::Intrinsic::ID id, std::vector<llvm::Value *> arguments, std::vector<llvm::Type *> types = {});
  void barrier();
  /// `body` where the condition holds.
  void when(llvm::Value *condition, const std::function<void()> &body);
  /// What the one makes where the condition holds, else what the other makes.
  std::vector<llvm::Value *> either(llvm::Value *condition, const std::function<std::vector<llvm::Value *>()> &then,
                                    const std::function<std::vector<llvm::Value *>()> &otherwise);
  /// For counter from `from`, by `step`, while it is less than `to`; `carried` go from step to step. `together`: steps that
  /// LLVM makes one of.
  void loop(llvm::Value *from, llvm::Value *to, llvm::Value *step, std::vector<llvm::Value *> &carried,
            const std::function<void(llvm::Value *counter)> &body, int together = 1);
  llvm::Value *sizeOf(const ir::Size &size);
  /// Bytes of shared memory, from the start of the launch's.
  llvm::Value *shared(llvm::Value *bytes);

  // ---- values
  /// Where the kernel stands from now on; null: nowhere.
  void stand(llvm::Value *row, llvm::Value *column, llvm::Value *matrix, llvm::Value *depth);
  llvm::Value *get(int value);
  /// All that the value loads and that does not wait for sums: on its way while these are.
  void ask(int value);
  std::vector<llvm::Value *> sums;       ///< of the parts
  std::vector<llvm::Value *> statistics; ///< of the row where it stands
  /// Of two numbers that are reduced; and what a sum begins with.
  llvm::Value *combined(Reduction reduction, llvm::Value *x, llvm::Value *y);
  llvm::Value *neutral(Reduction reduction);
  llvm::Value *ofWarp(Reduction reduction, llvm::Value *x); ///< of all lanes, in each
  /// The address of an element.
  llvm::Value *address(int buffer, const std::vector<int> &at);
  llvm::Value *load(int buffer, const std::vector<int> &at);
  /// Where `inside` holds. `value`: instead of the store's.
  void store(const Store &store, llvm::Value *inside, llvm::Value *value = nullptr);
  /// An element of a product's tile, and the sums of its parts.
  struct Element {
    llvm::Value *row, *column;
    std::vector<llvm::Value *> sums;
  };
  /// What becomes of some elements, where they are inside: all that it reads is asked for before anything is written. Those
  /// of columns 2 i and 2 i + 1 follow each other.
  void storeElements(const std::vector<Element> &elements);
  /// Two of a store with `pairs`; it stands at the first one.
  void storePair(const Store &store, llvm::Value *inside, llvm::Value *first, llvm::Value *second);
  llvm::Value *pointerOf(int buffer) { return pointers.at(buffer); }
  llvm::Value *tensorAt(size_t operand) { return tensors.at(operand); } ///< in 64 bits
  /// 2^x by the unit for it: within two of f32's last bits, and 0 below 2^-126.
  llvm::Value *powerOfTwo(llvm::Value *x);
  llvm::Value *widened(llvm::Value *bits);           ///< of bf16 in an integer of 16 bits
  llvm::Value *halfOf(llvm::Value *word, int shift); ///< of f16 in 16 bits of a word
  llvm::Value *floatOf(const support::FloatCodes &form, llvm::Value *word);

  // Codes in super-blocks (support/CodedGroups.h, SuperCodes.cpp). `units`: the word of the block's d and e.
  struct SuperGroup {
    llvm::Value *scale, *minimum;
  };
  SuperGroup levelsOf(llvm::Value *units, llvm::Value *pair, llvm::Value *group);
  /// The number of the word with the high bits of eight codes. `first`: that of the group's first word.
  llvm::Value *highWord(const support::SuperBlocks &form, llvm::Value *first, llvm::Value *step);
  /// The code 4 * `four` + `part` of a group, as a float.
  llvm::Value *codeOf(const support::SuperBlocks &form, llvm::Value *low, llvm::Value *high, llvm::Value *four,
                      int part);
  std::vector<uint8_t> depends; ///< of each value: a bit for each coordinate, then one for sums

private:
  std::map<int, llvm::Value *> pointers;
  std::map<size_t, llvm::Value *> tensors;
  std::map<std::string, llvm::Value *> lengths;
  std::map<std::pair<int, size_t>, llvm::Value *> strides;
  llvm::Value *at[4] = {};
  std::map<std::pair<int, std::vector<llvm::Value *>>, llvm::Value *> known;

  llvm::Value *compute(const Value &value);
  llvm::Value *code(int buffer, const std::vector<int> &at);
  llvm::Value *superCode(int buffer, const std::vector<int> &at); // SuperCodes.cpp
  llvm::Value *strideOf(int buffer, size_t dim);
};

/// Writes a function for each launch.
void emitProduct(const Program &program, const Stage &stage, const std::string &name, llvm::Module &module);
void emitDots(const Program &program, const Stage &stage, const std::string &name, llvm::Module &module);
void emitReduce(const Program &program, const Stage &stage, const std::string &name, llvm::Module &module);
void emitMap(const Program &program, const Stage &stage, const std::string &name, llvm::Module &module);
void emitAsync(const Program &program, const Stage &stage, const std::string &name, llvm::Module &module);
void emitAttend(const Program &program, const Stage &stage, const std::string &name, llvm::Module &module);
void emitGroupAttend(const Program &program, const Stage &stage, const std::string &name, llvm::Module &module);

} // namespace quern::codegen::tile
#endif
