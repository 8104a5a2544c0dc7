// Vulkan as a device: one queue, memory of the device, a kernel's SPIR-V made into pipelines when it is first launched.
//
// What is asked for is written down in a list of commands (`Batch`), which the device gets when the list is full or when
// somebody waits. There are two lists: while the device works on one, the other is written. Each has a piece of memory that
// the host sees, through which everything goes that the host sends or fetches, kernels' numbers among it.
#include "runtime/Error.h"
#include "runtime/device/HalideInterface.h"
#include "runtime/device/vulkan/Card.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

namespace quern::runtime {
namespace {

using namespace vulkan;

constexpr uint64_t stagingBytes = 8 << 20;
constexpr uint32_t mostSets = 256, mostBuffers = 4096; // launches of a batch, and what they bind

struct Kernel {
  std::vector<KernelCode::Number> numbers;
  std::vector<uint32_t> elementBytes; ///< of each buffer
  bool watched;
  SetLayout sets;
  PipelineLayout layout;
  Pipeline pipeline;
};
using Built = std::map<std::string, Kernel, std::less<>>;

struct Batch {
  Commands commands;
  SetPool pool;
  Fence fence;
  Held staging;
  uint8_t *seen = nullptr; ///< the staging memory, as the host sees it
  uint64_t used = 0;       ///< of it
  uint32_t sets = 0, buffers = 0;
  bool begun = false, submitted = false;
};

class VulkanDevice : public GpuDevice {
public:
  VulkanDevice() : api(card.api) {
    for (Batch &batch : batches)
      prepare(batch);
    cut = seenMemory(2 * sizeof(uint32_t), seenCut);
    std::memset(seenCut, 0, 2 * sizeof(uint32_t));
    QueryPoolInfo times;
    times.count = mostMarks;
    check(api.CreateQueryPool(device, &times, nullptr, &marks), "opening the device");
  }

  const char *name() const override { return card.title.c_str(); }

  void *build(const char *source, size_t bytes) override {
    auto built = std::make_unique<Built>();
    for (const KernelCode &code : readKernels(source, bytes, card.keepsNaN(), card.cutsLoops()))
      (*built)[code.name] = pipelineOf(code);
    return built.release(); // stays as long as the program
  }

protected:
  void *takeMemory(size_t bytes) override {
    Held held = card.take(bytes, deviceLocal);
    return held.buffer ? new Held(held) : nullptr;
  }
  void giveMemory(void *memory) override {
    std::unique_ptr<Held> held(static_cast<Held *>(memory));
    card.give(*held);
  }

  void send(const Place &to, const void *from, size_t bytes) override {
    for (size_t done = 0, piece; done < bytes; done += piece) {
      piece = std::min<size_t>(bytes - done, stagingBytes);
      uint64_t at = room(piece, 4);
      std::memcpy(now().seen + at, static_cast<const uint8_t *>(from) + done, piece);
      copyBuffer(now().staging.buffer, at, heldOf(to).buffer, to.offset + done, piece);
    }
  }
  void fetch(void *to, const Place &from, size_t bytes) override {
    for (size_t done = 0, piece; done < bytes; done += piece) {
      piece = std::min<size_t>(bytes - done, stagingBytes);
      uint64_t at = room(piece, 4);
      const uint8_t *seen = now().seen + at;
      copyBuffer(heldOf(from).buffer, from.offset + done, now().staging.buffer, at, piece);
      finish();
      std::memcpy(static_cast<uint8_t *>(to) + done, seen, piece);
    }
  }
  void move(const Place &to, const Place &from, size_t bytes) override {
    copyBuffer(heldOf(from).buffer, from.offset, heldOf(to).buffer, to.offset, bytes);
  }
  /// The driver fills whole words. What is beside them is sent.
  void fillWith(const Place &to, int byte, size_t bytes) override {
    const uint8_t edge[4] = {uint8_t(byte), uint8_t(byte), uint8_t(byte), uint8_t(byte)};
    size_t before = std::min<size_t>((4 - to.offset % 4) % 4, bytes), whole = (bytes - before) / 4 * 4,
           after = bytes - before - whole;
    auto part = [&](size_t from) { return Place{to.block, to.offset + from, to.left - from}; };
    if (before)
      send(to, edge, before);
    if (whole) {
      api.CmdFillBuffer(record(), heldOf(to).buffer, to.offset + before, whole, uint32_t(uint8_t(byte)) * 0x01010101u);
      inOrder();
    }
    if (after)
      send(part(before + whole), edge, after);
  }

  void finish() override {
    submit();
    for (Batch &batch : batches)
      wait(batch);
    uint32_t wasCut = 0;
    std::memcpy(&wasCut, seenCut + sizeof(wasCut), sizeof(wasCut));
    std::memset(seenCut, 0, 2 * sizeof(wasCut));
    if (wasCut)
      throw MachineError(std::string(name()) +
                         " ended a kernel's loops before their end (llvmpipe counts 65,535 steps), so its "
                         "results would be wrong; take fewer or shorter rows, choose another device with "
                         "QUERN_DEVICE, or compile the model with --target native");
  }

  /// The end of all commands before it.
  void setMark(size_t number) override {
    api.CmdResetQueryPool(record(), marks, uint32_t(number), 1);
    api.CmdWriteTimestamp(record(), atEnd, marks, uint32_t(number));
  }
  double secondsBetween(size_t from, size_t to) override {
    constexpr uint32_t asWords64 = 1, waiting = 2;
    uint64_t ends[2] = {};
    for (int i = 0; i < 2; ++i)
      check(api.GetQueryPoolResults(device, marks, uint32_t(i ? to : from), 1, sizeof(uint64_t), &ends[i],
                                    sizeof(uint64_t), asWords64 | waiting),
            "measuring time");
    return double(ends[1] - ends[0]) * double(limits().tick) * 1e-9;
  }

  void begin(void *built, const char *name, const Grid &grid, const std::vector<Argument> &arguments,
             const std::vector<Place> &places) override {
    auto known = static_cast<Built *>(built)->find(std::string_view(name));
    if (known == static_cast<Built *>(built)->end())
      throw MachineError(std::string("a kernel has no launch ") + name);
    const Kernel &kernel = known->second;
    uint32_t count = uint32_t(kernel.elementBytes.size());
    if (now().sets == mostSets || now().buffers + count > mostBuffers)
      next();
    std::vector<uint8_t> numbers = numbersOf(kernel, arguments);
    uint64_t at = room(numbers.size(), limits().uniformAlignment);
    std::memcpy(now().seen + at, numbers.data(), numbers.size());

    Set set = nullptr;
    SetInfo info;
    info.pool = now().pool, info.layouts = &kernel.sets;
    check(api.AllocateDescriptorSets(device, &info, &set), "passing an argument");
    ++now().sets, now().buffers += count;
    std::vector<BufferRange> ranges;
    std::vector<uint32_t> shifts;
    if (!numbers.empty())
      ranges.push_back({now().staging.buffer, at, numbers.size()});
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].isBuffer)
        ranges.push_back(rangeOf(kernel, places[i], arguments[i].bytes, shifts));
    if (shifts.size() != count)
      throw MachineError(std::string("a launch does not pass what the kernel takes: ") + name);
    if (kernel.watched)
      ranges.push_back({cut.buffer, 0, 2 * sizeof(uint32_t)});
    std::vector<SetWrite> writes(ranges.size());
    for (uint32_t i = 0; i < writes.size(); ++i) {
      writes[i].set = set, writes[i].binding = i, writes[i].buffers = &ranges[i];
      writes[i].type = !i && !numbers.empty() ? uniformBuffer : storageBuffer;
    }
    api.UpdateDescriptorSets(device, uint32_t(writes.size()), writes.data(), 0, nullptr);

    Commands commands = record();
    api.CmdBindPipeline(commands, computePoint, kernel.pipeline);
    api.CmdBindDescriptorSets(commands, computePoint, kernel.layout, 0, 1, &set, 0, nullptr);
    if (count)
      api.CmdPushConstants(commands, kernel.layout, computeStage, 0, 4 * count, shifts.data());
    dispatch(commands, grid);
    inOrder();
  }

private:
  const Card card;
  const Api &api;
  const DeviceHandle device = card.device;
  Batch batches[2];
  int current = 0;
  QueryPool marks = nullptr;
  Held cut;                   // what loops leave that were cut short (Spirv.h)
  uint8_t *seenCut = nullptr; // as the host sees it

  const Limits &limits() const { return card.limits(); }
  static const Held &heldOf(const Place &place) { return *static_cast<const Held *>(place.block); }

  Kernel pipelineOf(const KernelCode &code) const {
    std::string lacking = card.lacks(code);
    if (!lacking.empty())
      throw MachineError(std::string(name()) + " lacks what a kernel needs: " + lacking +
                         "; choose another device with QUERN_DEVICE, or compile the model with --target native");
    Kernel kernel{code.numbers, code.elementBytes, code.watched, nullptr, nullptr, nullptr};
    std::vector<SetBinding> bindings;
    if (!code.numbers.empty())
      bindings.push_back({0, uniformBuffer, 1, computeStage, nullptr});
    for (size_t i = 0; i < code.elementBytes.size() + code.watched; ++i)
      bindings.push_back({uint32_t(bindings.size()), storageBuffer, 1, computeStage, nullptr});
    SetLayoutInfo sets;
    sets.count = uint32_t(bindings.size()), sets.bindings = bindings.data();
    check(api.CreateDescriptorSetLayout(device, &sets, nullptr, &kernel.sets), "building a kernel");
    PushRange push{computeStage, 0, uint32_t(4 * code.elementBytes.size())};
    PipelineLayoutInfo layout;
    layout.sets = &kernel.sets, layout.pushCount = push.bytes > 0, layout.push = &push;
    check(api.CreatePipelineLayout(device, &layout, nullptr, &kernel.layout), "building a kernel");
    PipelineInfo info;
    ShaderInfo shader;
    shader.bytes = code.words.size() * 4, shader.code = code.words.data();
    check(api.CreateShaderModule(device, &shader, nullptr, &info.stage.shader), "building a kernel");
    info.stage.entry = code.name.c_str(), info.layout = kernel.layout;
    check(api.CreateComputePipelines(device, nullptr, 1, &info, nullptr, &kernel.pipeline), "building a kernel");
    api.DestroyShaderModule(device, info.stage.shader, nullptr);
    return kernel;
  }

  // Batches.

  void prepare(Batch &batch) {
    CommandPoolInfo commandPool;
    commandPool.family = card.family;
    CommandsInfo commands;
    check(api.CreateCommandPool(device, &commandPool, nullptr, &commands.pool), "opening the device");
    check(api.AllocateCommandBuffers(device, &commands, &batch.commands), "opening the device");
    PoolSize sizes[] = {{uniformBuffer, mostSets}, {storageBuffer, mostBuffers}};
    SetPoolInfo pool;
    pool.sets = mostSets, pool.sizeCount = 2, pool.sizes = sizes;
    check(api.CreateDescriptorPool(device, &pool, nullptr, &batch.pool), "opening the device");
    FenceInfo fence;
    check(api.CreateFence(device, &fence, nullptr, &batch.fence), "opening the device");
    batch.staging = seenMemory(stagingBytes, batch.seen);
  }
  /// Memory that the host sees at `seen`.
  Held seenMemory(uint64_t bytes, uint8_t *&seen) const {
    Held held = card.take(bytes, hostVisible | hostCoherent | hostCached);
    if (!held.buffer)
      throw MachineError("no memory is left on " + card.title + " for what the host sends");
    void *address = nullptr;
    check(api.MapMemory(device, held.memory, 0, bytes, 0, &address), "opening the device");
    seen = static_cast<uint8_t *>(address);
    return held;
  }

  Batch &now() { return batches[current]; }

  Commands record() {
    if (!now().begun) {
      CommandsBegin begin;
      check(api.BeginCommandBuffer(now().commands, &begin), "beginning");
      now().begun = true;
    }
    return now().commands;
  }
  void submit() {
    if (!now().begun)
      return;
    now().begun = false;
    check(api.EndCommandBuffer(now().commands), "computing");
    Submission submission;
    submission.commands = &now().commands;
    check(api.QueueSubmit(card.queue, 1, &submission, now().fence), "computing");
    now().submitted = true;
  }
  /// Until the device is done with it; then all of it is free again.
  void wait(Batch &batch) {
    if (batch.submitted) {
      batch.submitted = false;
      check(api.WaitForFences(device, 1, &batch.fence, 1, UINT64_MAX), "computing");
      check(api.ResetFences(device, 1, &batch.fence), "computing");
    }
    if (!batch.begun) {
      check(api.ResetDescriptorPool(device, batch.pool, 0), "computing");
      batch.used = batch.sets = batch.buffers = 0;
    }
  }
  void next() {
    submit();
    current = 1 - current;
    wait(now());
  }
  /// Where in the present batch's staging memory there are so many bytes.
  uint64_t room(uint64_t bytes, uint64_t alignment) {
    uint64_t at = (now().used + alignment - 1) / alignment * alignment;
    if (at + bytes > stagingBytes) {
      next();
      at = 0;
    }
    now().used = at + bytes;
    return at;
  }

  // Commands. Whatever comes later sees what came before: each is followed by a barrier.

  void inOrder() {
    MemoryBarrier barrier;
    barrier.from = shaderWrite | transferWrite;
    barrier.to = uniformRead | shaderRead | shaderWrite | transferRead | transferWrite | hostRead;
    api.CmdPipelineBarrier(now().commands, atCompute | atTransfer, atCompute | atTransfer | atHost, 0, 1, &barrier, 0,
                           nullptr, 0, nullptr);
  }
  void copyBuffer(Buffer from, uint64_t fromOffset, Buffer to, uint64_t toOffset, uint64_t bytes) {
    CopyRange range{fromOffset, toOffset, bytes};
    api.CmdCopyBuffer(record(), from, to, 1, &range);
    inOrder();
  }

  /// Numbers as the kernel's structure has them.
  static std::vector<uint8_t> numbersOf(const Kernel &kernel, const std::vector<Argument> &arguments) {
    std::vector<uint8_t> numbers;
    auto place = kernel.numbers.begin();
    for (const Argument &argument : arguments) {
      if (argument.isBuffer)
        continue;
      if (place == kernel.numbers.end() || argument.bytes > place->bytes)
        throw MachineError("a launch does not pass the numbers that the kernel takes");
      numbers.resize(place->at + place->bytes);
      std::memcpy(numbers.data() + place->at, argument.value, argument.bytes);
      ++place;
    }
    if (place != kernel.numbers.end())
      throw MachineError("a launch does not pass the numbers that the kernel takes");
    return numbers;
  }

  /// What is bound of a buffer's block: from an aligned place before the buffer on; `shifts` gets by how many elements before.
  BufferRange rangeOf(const Kernel &kernel, const Place &place, size_t bytes, std::vector<uint32_t> &shifts) const {
    uint64_t before = place.offset % limits().storageAlignment;
    if (shifts.size() == kernel.elementBytes.size() || before % kernel.elementBytes[shifts.size()])
      throw MachineError("a kernel got a buffer that does not begin at one of its elements");
    shifts.push_back(uint32_t(before / kernel.elementBytes[shifts.size()]));
    if (before + bytes > limits().storageRange)
      throw MachineError("a kernel reads or writes a tensor of " + formatBytes(double(bytes)) + ", of which " +
                         card.title + " can bind " + formatBytes(limits().storageRange) +
                         "; choose another device with QUERN_DEVICE, or compile the model with --target native");
    return {heldOf(place).buffer, place.offset - before,
            std::min<uint64_t>(place.left + before, limits().storageRange)};
  }

  /// A grid may be larger than what the device takes at once.
  void dispatch(Commands commands, const Grid &grid) const {
    const uint32_t *most = limits().groups;
    uint32_t all[3];
    for (int d = 0; d < 3; ++d)
      all[d] = uint32_t(grid.groups[d]);
    for (uint32_t z = 0; z < all[2]; z += std::min(most[2], all[2] - z))
      for (uint32_t y = 0; y < all[1]; y += std::min(most[1], all[1] - y))
        for (uint32_t x = 0; x < all[0]; x += std::min(most[0], all[0] - x))
          api.CmdDispatchBase(commands, x, y, z, std::min(most[0], all[0] - x), std::min(most[1], all[1] - y),
                              std::min(most[2], all[2] - z));
  }
};

} // namespace
} // namespace quern::runtime

QUERN_HALIDE_INTERFACE(vulkan, quern::runtime::VulkanDevice)
