// Takes: SPIR-V modules of Halide 21, one for each launch, behind a list of their sizes and names. Gives: modules in which
// every access to a buffer is shifted by a number that the launch gives.
//
//   %at = OpAccessChain %ptr %buffer %zero %i    becomes    %j  = OpIAdd %uint %i %shift
//                                                           %at = OpAccessChain %ptr %buffer %zero %j
//
// Why: a buffer is any rows of a block (a layer's part of a cache, slots of an arena), but what is bound must begin at a
// multiple of the device's alignment (16 to 256 bytes), and Halide's code counts from where the binding begins.
//
// Also said here, as Halide does not: that buffers may overlap (a result may overwrite an argument), that infinities and
// NaN are values, at which offsets numbers of different sizes are (and truth values, which may not), and that arithmetic is what was written: a driver that
// may take x - n a - n b for x - n (a + b) loses the digits for which an exponential was written so.
#include "runtime/device/vulkan/Spirv.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace quern::runtime::vulkan {

namespace {

// Numbers of the Khronos SPIR-V specification.
enum Op : uint32_t {
  OpExtension = 10,
  OpEntryPoint = 15,
  OpExecutionMode = 16,
  OpCapability = 17,
  OpTypeVoid = 19,
  OpTypeBool = 20,
  OpTypeInt = 21,
  OpTypeFloat = 22,
  OpTypeRuntimeArray = 29,
  OpTypeStruct = 30,
  OpTypePointer = 32,
  OpTypeForwardPointer = 39,
  OpConstantTrue = 41,
  OpConstant = 43,
  OpFunction = 54,
  OpVariable = 59,
  OpLoad = 61,
  OpStore = 62,
  OpAccessChain = 65,
  OpInBoundsAccessChain = 66,
  OpDecorate = 71,
  OpMemberDecorate = 72,
  OpUConvert = 113,
  OpSelect = 169,
  OpULessThan = 176,
  OpSLessThan = 177,
  OpIAdd = 128,
  OpFAdd = 129,
  OpFSub = 131,
  OpFMul = 133,
  OpFDiv = 136,
  OpControlBarrier = 224,
  OpMemoryBarrier = 225,
  OpLoopMerge = 246, // the first of what ends a block
  OpINotEqual = 171,
  OpLabel = 248,
};
constexpr uint32_t decorateBlock = 2, decorateBufferBlock = 3, decorateStride = 6, decorateSet = 34,
                   decorateAliased = 20, decorateBinding = 33, decorateOffset = 35, uniform = 2,
                   decorateNoContraction = 42, pushConstant = 9, magic = 0x07230203, header = 5, keepCapability = 4466,
                   keepMode = 4461, localSize = 17;

[[noreturn]] void unexpected(const char *what) {
  throw MachineError(std::string("a kernel's SPIR-V is not what Halide 21 makes: ") + what);
}

struct Instruction {
  uint32_t op;
  std::vector<uint32_t> with; ///< operands, results among them
};

std::vector<uint32_t> textWords(const char *text) {
  std::vector<uint32_t> words(std::strlen(text) / 4 + 1);
  std::memcpy(words.data(), text, std::strlen(text));
  return words;
}

class Shift {
public:
  Shift(KernelCode &code, bool keepsNaN, bool watches) : code(code), keepsNaN(keepsNaN), watches(watches) {}

  void run() {
    read();
    size_t at = 0;
    for (; at < instructions.size() && instructions[at].op == OpCapability; ++at)
      put(OpCapability, instructions[at].with);
    if (keepsNaN) {
      put(OpCapability, {keepCapability});
      put(OpExtension, textWords("SPV_KHR_float_controls"));
    }
    for (; at < instructions.size(); ++at)
      rewrite(instructions[at]);
    out[3] = bound;
    code.words = std::move(out);
  }

private:
  KernelCode &code;
  bool keepsNaN, watches;
  std::vector<Instruction> instructions;
  std::vector<uint32_t> out;
  uint32_t bound = 0;

  struct Buffer {
    uint32_t variable, binding, number, shift;
  };
  std::map<uint32_t, const Instruction *> types; // by their id
  std::map<uint32_t, uint32_t> typeOf;           // of a value
  std::vector<Buffer> buffers;                   // in the order of their bindings
  struct Loop {                                  ///< while less(load(variable), end)
    uint32_t less, truth, kind, variable, end;
  };
  std::map<uint32_t, Loop> loops;               // by the block behind them
  std::vector<uint32_t> exact;                  // results of arithmetic with floats
  uint32_t numbers = 0, word = 0, function = 0; // ids: of the structure of numbers, of a 32-bit integer's type
  bool typesBegan = false;
  enum { Before, Head, Shifted } state = Before; // of the function's first block

  void put(uint32_t op, const std::vector<uint32_t> &with) {
    out.push_back(uint32_t(with.size() + 1) << 16 | op);
    out.insert(out.end(), with.begin(), with.end());
  }

  bool isBool(uint32_t id) const { return type(id).op == OpTypeBool; }
  const Instruction &type(uint32_t id) const {
    auto found = types.find(id);
    if (found == types.end())
      unexpected("a type is missing");
    return *found->second;
  }
  uint32_t bytesOf(uint32_t id) const {
    const Instruction &found = type(id);
    if (found.op != OpTypeInt && found.op != OpTypeFloat)
      unexpected("an element or a number is neither an integer nor a float");
    return found.with[1] / 8;
  }

  void split() {
    const std::vector<uint32_t> &words = code.words;
    if (words.size() < header || words[0] != magic)
      unexpected("it does not begin as a module does");
    out.assign(words.begin(), words.begin() + header);
    bound = words[3];
    for (size_t at = header; at < words.size();) {
      uint32_t length = words[at] >> 16;
      if (!length || length > words.size() - at)
        unexpected("an instruction does not end");
      instructions.push_back({words[at] & 0xffff, {words.begin() + at + 1, words.begin() + at + length}});
      at += length;
    }
  }

  static bool isArithmetic(uint32_t op) { return op == OpFAdd || op == OpFSub || op == OpFMul || op == OpFDiv; }
  /// Stores, barriers, merges, branches: without a result.
  static bool isStatement(uint32_t op) {
    return op == OpStore || op == OpControlBarrier || op == OpMemoryBarrier || op >= OpLoopMerge;
  }

  static size_t least(uint32_t op) {
    switch (op) {
    case OpStore:
    case OpExecutionMode:
    case OpTypeInt:
    case OpTypeFloat:
    case OpTypeRuntimeArray:
    case OpDecorate:
    case OpEntryPoint:
      return 2;
    case OpTypePointer:
    case OpVariable:
    case OpConstant:
    case OpLoad:
    case OpFunction:
    case OpAccessChain:
    case OpInBoundsAccessChain:
      return 3;
    case OpMemberDecorate:
      return 3;
    case OpCapability:
    case OpTypeBool:
    case OpTypeStruct:
      return 1;
    }
    return 0;
  }

  void read() {
    split();
    std::map<uint32_t, uint32_t> bindings; // of variables
    std::map<uint32_t, bool> bufferBlock;  // of structures: of a buffer, not of numbers
    std::vector<const Instruction *> variables;
    const Instruction *merge = nullptr, *load = nullptr; // of the loop whose condition comes
    for (const Instruction &each : instructions) {
      const std::vector<uint32_t> &with = each.with;
      if (with.size() < least(each.op))
        unexpected("an instruction lacks operands");
      switch (each.op) {
      case OpCapability:
        code.needs.push_back(with[0]);
        break;
      case OpExecutionMode:
        if (with[1] == localSize && with.size() == 5)
          std::copy(with.begin() + 2, with.end(), code.group);
        break;
      case OpTypeInt:
        if (with[1] == 32 && !word)
          word = with[0];
        [[fallthrough]];
      case OpTypeBool:
      case OpTypeFloat:
      case OpTypeRuntimeArray:
      case OpTypeStruct:
      case OpTypePointer:
        types[with[0]] = &each;
        break;
      case OpDecorate:
        if (with.size() > 2 && with[1] == decorateBinding)
          bindings[with[0]] = with[2];
        if (with[1] == decorateBlock || with[1] == decorateBufferBlock)
          bufferBlock[with[0]] = with[1] == decorateBufferBlock;
        break;
      case OpVariable:
        variables.push_back(&each);
        break;
      case OpFunction:
        if (function)
          unexpected("it has two functions");
        function = with[1];
        break;
      default:
        // What has a result, in a function or a constant, begins with its type.
        if (with.size() > 1 && (function ? !isStatement(each.op) : each.op >= OpConstantTrue && each.op < OpFunction))
          typeOf[with[1]] = with[0];
        if (each.op == OpLoopMerge)
          merge = &each;
        if (each.op == OpLoad)
          load = &each;
        if (merge && load && (each.op == OpSLessThan || each.op == OpULessThan) && load->with[1] == with.at(2)) {
          loops[merge->with.at(0)] = {each.op, with[0], load->with[0], load->with[2], with.at(3)};
          merge = nullptr;
        }
        if (function && isArithmetic(each.op))
          exact.push_back(with.at(1));
      }
    }
    if (!function || !word)
      unexpected("it has no function");
    for (const Instruction *variable : variables) {
      auto binding = bindings.find(variable->with[1]);
      if (binding == bindings.end())
        continue;
      uint32_t structure = type(variable->with[0]).with.at(2);
      const Instruction &members = type(structure);
      if (bufferBlock[structure]) {
        uint32_t array = members.with.at(1);
        buffers.push_back({variable->with[1], binding->second, 0, 0});
        code.elementBytes.push_back(bytesOf(type(array).with[1]));
        continue;
      }
      numbers = structure;
      uint32_t at = 0;
      for (size_t member = 1; member < members.with.size(); ++member) {
        uint32_t bytes = isBool(members.with[member]) ? 4 : bytesOf(members.with[member]);
        at = (at + bytes - 1) / bytes * bytes;
        code.numbers.push_back({at, bytes});
        at += bytes;
      }
    }
    code.watched = watches && !loops.empty();
    for (uint32_t number = 0; number < buffers.size(); ++number) {
      buffers[number].number = number;
      if (buffers[number].binding != number + !code.numbers.empty())
        unexpected("its buffers are not bound in order");
    }
  }

  uint32_t fresh() { return bound++; }

  uint32_t structure = 0, push = 0; // ids: of the shifts' structure and variable

  /// What is said of ids that come later.
  void decorate() {
    if (code.watched) {
      flagArray = fresh(), flagBlock = fresh(), flags = fresh();
      put(OpDecorate, {flagArray, decorateStride, 4});
      put(OpDecorate, {flagBlock, decorateBufferBlock});
      put(OpMemberDecorate, {flagBlock, 0, decorateOffset, 0});
      put(OpDecorate, {flags, decorateSet, 0});
      put(OpDecorate, {flags, decorateBinding, uint32_t(buffers.size()) + !code.numbers.empty()});
    }
    for (const Buffer &buffer : buffers)
      put(OpDecorate, {buffer.variable, decorateAliased});
    for (uint32_t value : exact)
      put(OpDecorate, {value, decorateNoContraction});
    if (buffers.empty())
      return;
    structure = fresh(), push = fresh();
    put(OpDecorate, {structure, decorateBlock});
    for (const Buffer &buffer : buffers)
      put(OpMemberDecorate, {structure, buffer.number, decorateOffset, 4 * buffer.number});
  }

  std::vector<uint32_t> members; // of the shifts' structure: constants that name them
  uint32_t flagArray = 0, flagBlock = 0, flags = 0, flagPointer = 0, one = 0, none = 0; // ids of what loops leave
  uint32_t wordPointer = 0, zero = 0, numberPointer = 0;
  std::map<uint32_t, uint32_t> truths; // pointers to truth values among the numbers

  void declare() {
    if (code.watched) {
      uint32_t pointer = fresh();
      one = fresh(), none = fresh(), flagPointer = fresh();
      put(OpTypeRuntimeArray, {flagArray, word});
      put(OpTypeStruct, {flagBlock, flagArray});
      put(OpTypePointer, {pointer, uniform, flagBlock});
      put(OpTypePointer, {flagPointer, uniform, word});
      put(OpVariable, {pointer, flags, uniform});
      put(OpConstant, {word, one, 1});
      put(OpConstant, {word, none, 0});
    }
    if (numbers) {
      zero = fresh(), numberPointer = fresh();
      put(OpConstant, {word, zero, 0});
      put(OpTypePointer, {numberPointer, uniform, word});
    }
    if (buffers.empty())
      return;
    std::vector<uint32_t> with(buffers.size() + 1, word);
    with[0] = structure;
    put(OpTypeStruct, with);
    uint32_t pointer = fresh();
    put(OpTypePointer, {pointer, pushConstant, structure});
    put(OpVariable, {pointer, push, pushConstant});
    wordPointer = fresh();
    put(OpTypePointer, {wordPointer, pushConstant, word});
    for (const Buffer &buffer : buffers) {
      members.push_back(fresh());
      put(OpConstant, {word, members.back(), buffer.number});
    }
  }

  /// A loop that did not reach its end leaves a 1 in the second of the words behind the buffers; else the first gets it.
  void watch(const Loop &loop) {
    uint32_t now = fresh(), cut = fresh(), which = fresh(), at = fresh();
    put(OpLoad, {loop.kind, now, loop.variable});
    put(loop.less, {loop.truth, cut, now, loop.end});
    put(OpSelect, {word, which, cut, one, none});
    put(OpAccessChain, {flagPointer, at, flags, none, which});
    put(OpStore, {at, one});
  }

  void declareNumbers(Instruction members) {
    for (size_t member = 1; member < members.with.size(); ++member)
      if (isBool(members.with[member]))
        members.with[member] = word;
    put(OpTypeStruct, members.with);
  }

  void loadShifts() {
    for (Buffer &buffer : buffers) {
      uint32_t at = fresh();
      buffer.shift = fresh();
      put(OpAccessChain, {wordPointer, at, push, members[buffer.number]});
      put(OpLoad, {word, buffer.shift, at});
    }
  }

  /// A truth value has no place in memory that others see, but Halide passes them there: such a number is a word.
  void readTruth(const Instruction &load) {
    uint32_t value = fresh();
    put(OpLoad, {word, value, load.with[2]});
    put(OpINotEqual, {load.with[0], load.with[1], value, zero});
  }

  void shifted(Instruction access) {
    if (numbers && isBool(type(access.with[0]).with[2])) {
      truths[access.with[1]] = access.with[0] = numberPointer;
      return put(access.op, access.with);
    }
    auto buffer = std::find_if(buffers.begin(), buffers.end(),
                               [&](const Buffer &each) { return each.variable == access.with[2]; });
    if (buffer != buffers.end()) {
      if (access.with.size() != 5)
        unexpected("an access to a buffer is not to one of its elements");
      uint32_t index = access.with[4], kind = typeOf[index], by = buffer->shift;
      if (bytesOf(kind) != 4) {
        uint32_t wide = fresh();
        put(OpUConvert, {kind, wide, by});
        by = wide;
      }
      access.with[4] = fresh();
      put(OpIAdd, {kind, access.with[4], index, by});
    }
    put(access.op, access.with);
  }

  void rewrite(const Instruction &each) {
    if (each.op >= OpTypeVoid && each.op <= OpTypeForwardPointer && !typesBegan) {
      typesBegan = true;
      decorate();
    }
    if (each.op == OpFunction)
      declare();
    // A block's variables come first.
    if (state == Head && each.op != OpVariable)
      loadShifts(), state = Shifted;
    if (state == Before && each.op == OpLabel)
      state = Head;
    if (each.op == OpMemberDecorate && each.with[0] == numbers && each.with[2] == decorateOffset)
      put(each.op, {numbers, each.with[1], decorateOffset, code.numbers.at(each.with[1]).at});
    else if (each.op == OpTypeStruct && each.with[0] == numbers)
      declareNumbers(each);
    else if (each.op == OpLoad && truths.count(each.with[2]))
      readTruth(each);
    else if (each.op == OpAccessChain || each.op == OpInBoundsAccessChain)
      shifted(each);
    else
      put(each.op, each.with);
    if (each.op == OpLabel && code.watched && loops.count(each.with.at(0)))
      watch(loops[each.with[0]]);
    if (each.op == OpEntryPoint && keepsNaN)
      put(OpExecutionMode, {function, keepMode, 32});
  }
};

/// Words of a list, with a look at its end before each.
class Words {
public:
  Words(const char *bytes, size_t size) : bytes(bytes), left(size) {}
  uint32_t next() {
    uint32_t word;
    std::memcpy(&word, take(4), 4);
    return word;
  }
  /// Padded with zeros to whole words, whose number comes before.
  std::string text() {
    size_t length = size_t(next()) * 4;
    const char *begin = take(length);
    return {begin, strnlen(begin, length)};
  }
  const char *take(size_t count) {
    if (count > left)
      unexpected("it ends too early");
    const char *begin = bytes;
    bytes += count, left -= count;
    return begin;
  }

private:
  const char *bytes;
  size_t left;
};

} // namespace

std::vector<KernelCode> readKernels(const char *bytes, size_t size, bool keepsNaN, bool watches) {
  Words list(bytes, size);
  std::vector<KernelCode> kernels(std::min<size_t>(list.next(), size / 8));
  std::vector<size_t> sizes;
  for (KernelCode &kernel : kernels) {
    sizes.push_back(list.next());
    kernel.name = list.text();
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    // What Halide's own runtime reads of a module (its bindings, ...) comes before it; all of that is in the module, too.
    Words module(list.take(sizes[i]), sizes[i]);
    size_t before = size_t(module.next()) * 4;
    if (before < 4 || before > sizes[i])
      unexpected("a module's list of bindings does not end");
    module.take(before - 4);
    kernels[i].words.resize((sizes[i] - before) / 4);
    if (!kernels[i].words.empty())
      std::memcpy(kernels[i].words.data(), module.take(sizes[i] - before), kernels[i].words.size() * 4);
    Shift(kernels[i], keepsNaN, watches).run();
  }
  return kernels;
}

} // namespace quern::runtime::vulkan
