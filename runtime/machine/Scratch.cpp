// Takes: requests for memory by kernels, many times the same few sizes in each step. Gives: blocks from a stack, which
// costs no call of malloc.
#include "runtime/machine/Scratch.h"

#include "runtime/abi/Abi.h"
#include "runtime/machine/ThreadPool.h"
#include "support/Processors.h"

#include <algorithm>
#include <cstdlib>

namespace quern::runtime {
namespace {

constexpr size_t alignment = QUERN_SCRATCH_ALIGNMENT;
constexpr size_t none = SIZE_MAX;

size_t rounded(size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

} // namespace

/// Stands in the alignment before a block.
struct ScratchStack::Header {
  size_t before; // of the stack, the header below; `none` if there is none
  size_t bytes;  // header and room after included
  bool freed;
  bool isBeside;        // not of the stack
  Header *next, **link; // of those: the list
  static Header &of(void *block) { return *reinterpret_cast<Header *>(static_cast<uint8_t *>(block) - alignment); }
  void *block() { return reinterpret_cast<uint8_t *>(this) + alignment; }
};

ScratchStack::~ScratchStack() {
  while (Header *header = beside) {
    beside = header->next;
    std::free(header);
  }
  std::free(memory);
}

void *ScratchStack::take(Scratch &scratch, size_t size, size_t planned) {
  static_assert(sizeof(Header) <= alignment);
  if (size > SIZE_MAX / 2)
    return nullptr;
  size_t bytes = rounded(size) + 2 * alignment;
  if (top == 0)
    ensure(scratch, bytes, std::max(planned, wanted));
  if (capacity - top < bytes) { // more than was planned: the next kernel finds a larger stack
    wanted = std::max(wanted, top + bytes);
    auto *header = static_cast<Header *>(support::allocateAligned(bytes, alignment));
    if (!header)
      return nullptr;
    *header = {none, bytes, false, true, beside, &beside};
    if (beside)
      beside->link = &header->next;
    beside = header;
    scratch.count(bytes);
    return header->block();
  }
  auto *header = reinterpret_cast<Header *>(memory + top);
  *header = {last, bytes, false, false, nullptr, nullptr};
  last = top;
  top += bytes;
  if (top > highest) {
    scratch.count(top - highest);
    highest = top;
  }
  return header->block();
}

void ScratchStack::give(Scratch &scratch, void *block) {
  Header &own = Header::of(block);
  if (own.isBeside) {
    *own.link = own.next;
    if (own.next)
      own.next->link = own.link;
    scratch.now -= own.bytes;
    std::free(&own);
    return;
  }
  own.freed = true;
  while (last != none && reinterpret_cast<Header *>(memory + last)->freed) {
    top = last;
    last = reinterpret_cast<Header *>(memory + last)->before;
  }
}

void ScratchStack::cut(size_t mark) {
  while (last != none && last >= mark) {
    top = last;
    last = reinterpret_cast<Header *>(memory + last)->before;
  }
}

/// The stack is empty. It gets room for `expected` where the machine has that, else for a block of `bytes`: a plan alone
/// stops no program.
void ScratchStack::ensure(Scratch &scratch, size_t bytes, size_t expected) {
  expected = std::max(bytes, std::min(expected, SIZE_MAX / 2));
  if (expected <= capacity)
    return;
  scratch.now -= highest;
  highest = 0;
  std::free(memory);
  capacity = rounded(expected + expected / 8); // so that a growing text does not come here every step
  memory = static_cast<uint8_t *>(support::allocateAligned(capacity, alignment));
  if (!memory)
    memory = static_cast<uint8_t *>(support::allocateAligned(capacity = bytes, alignment));
  if (!memory)
    capacity = 0;
}

Scratch::Scratch() = default;
Scratch::~Scratch() = default;

void Scratch::plan(uint64_t ofCaller, uint64_t ofWorker) {
  if (!stacks)
    stacks = std::make_unique<ScratchStack[]>(size_t(ThreadPool::instance().threads()));
  caller = ofCaller;
  worker = ofWorker;
}

void *Scratch::take(int thread, size_t size) {
  return stacks[thread].take(*this, size, size_t(thread == 0 ? std::max(caller, worker) : worker));
}

void Scratch::give(int thread, void *block) {
  stacks[thread].give(*this, block);
}

void Scratch::count(uint64_t bytes) {
  uint64_t total = now.fetch_add(bytes) + bytes;
  for (uint64_t highest = peak; highest < total && !peak.compare_exchange_weak(highest, total);)
    ;
}

} // namespace quern::runtime
