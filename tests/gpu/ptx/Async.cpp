// Hopper's asynchronous instructions: NVIDIA's PTX ISA, "mbarrier", "cp.async.bulk.tensor", "wgmma" with its shared memory
// layouts and descriptors. A warp multiplies its own sixteen rows, as the ISA's words allow; a product's sums may be read only
// after its group was waited for.
#include "tests/gpu/ptx/Async.h"
#include "tests/gpu/ptx/Operations.h"

#include <algorithm>
#include <cstdlib>

namespace quern::ptx {

using namespace operations;

namespace {

constexpr size_t warpSize = 32, groupRows = 64;

void need(bool holds, const char *what) {
  if (!holds)
    throw std::runtime_error(what);
}

/// Where a byte is: 16-byte pieces change places within 32, 64 or 128 bytes (1, 2, 3), by the line that they are in.
uint32_t swizzled(uint32_t address, uint32_t swizzle) {
  return address ^ ((address >> 7 & ((1u << swizzle) - 1)) << 4);
}

Barrier &barrierAt(Thread &t, const Operand &where) {
  uint32_t address = uint32_t((where.reg < 0 ? 0 : t.registers[size_t(where.reg)]) + where.bits);
  auto found = t.async->barriers.find(address);
  need(found != t.async->barriers.end(), "no barrier is there");
  return found->second;
}
uint32_t sharedAddress(const Thread &t, const Operand &where) {
  return uint32_t((where.reg < 0 ? 0 : t.registers[size_t(where.reg)]) + where.bits);
}

void initBarrier(Thread &t, const Instruction &at) {
  uint32_t address = sharedAddress(t, at.operands[0]), count = get<uint32_t>(t, at, 1);
  need(address % 8 == 0 && address + 8 <= t.shared->size() && count > 0, "a barrier that cannot be");
  need(t.async->barriers.emplace(address, Barrier{count, count}).second, "a barrier is made twice");
}
void fenceBarriers(Thread &t, const Instruction &) {
  for (auto &[address, barrier] : t.async->barriers)
    barrier.fenced = true;
}
void arrive(Thread &t, const Instruction &at) {
  Barrier &barrier = barrierAt(t, at.operands[1]);
  need(barrier.pending > 0, "more arrivals than the barrier counts");
  if (at.operands.size() > 2)
    barrier.bytes += get<uint32_t>(t, at, 2);
  --barrier.pending;
  barrier.settle();
}
void setRegisters(Thread &, const Instruction &at) {
  uint64_t count = at.operands[0].bits;
  need(count % 8 == 0 && count >= 24 && count <= 256, "a number of registers that cannot be");
}
/// cp.async.bulk.tensor [to], [map, {position ...}], [barrier]
void beginBox(Thread &t, const Instruction &at) {
  BoxCopy copy{};
  copy.to = sharedAddress(t, at.operands[0]);
  copy.barrier = sharedAddress(t, at.operands.back());
  const Operand &map = at.operands[1];
  uint64_t from = (map.reg < 0 ? 0 : t.registers[size_t(map.reg)]) + map.bits;
  need(from % 64 == 0 && from < (1 << 12), "a tensor map that is no parameter");
  std::memcpy(static_cast<void *>(&copy.map), t.parameters + from, sizeof copy.map);
  need(copy.map.mark == tensorMark, "a tensor map that nobody made");
  need(copy.map.rank + 3 == at.operands.size(), "a tensor of another rank");
  for (uint32_t d = 0; d < copy.map.rank; ++d)
    copy.at[d] = get<int32_t>(t, at, 2 + d);
  need(barrierAt(t, at.operands.back()).fenced, "a copy does not see its barrier");
  t.async->begin(copy);
}

/// A lane's wait; where it fails its warp has others before it.
void tryWait(std::vector<Thread *> &lanes, const Instruction &at) {
  for (Thread *lane : lanes) {
    bool over = barrierAt(*lane, at.operands[1]).phase != (get<uint32_t>(*lane, at, 2) & 1);
    put(*lane, at, uint64_t(over));
    lanes[0]->yields |= !over;
  }
}

WarpProducts &productsOf(std::vector<Thread *> &lanes) {
  need(lanes.size() == warpSize, "needs a whole warp");
  return lanes[0]->async->warps[lanes[0]->warp];
}

void fence(std::vector<Thread *> &lanes, const Instruction &) {
  WarpProducts &products = productsOf(lanes);
  products.fenced.clear();
  for (Thread *lane : lanes)
    products.fenced.push_back(lane->registers);
}

/// sums[16 rows of the warp, columns] += x[64, 16] w[16, columns]
void execute(std::vector<Thread *> &lanes, Product &product) {
  const std::vector<uint8_t> &shared = *lanes[0]->shared;
  auto read = [&](uint64_t descriptor, bool across, uint32_t own, uint32_t k) {
    uint32_t start = uint32_t(descriptor & 0x3fff) << 4, leading = uint32_t(descriptor >> 16 & 0x3fff) << 4,
             stride = uint32_t(descriptor >> 32 & 0x3fff) << 4, mode = uint32_t(descriptor >> 62),
             swizzle = mode == 1   ? 3
                       : mode == 2 ? 2
                       : mode == 3 ? 1
                                   : 0,
             line = 16u << swizzle;
    need(swizzle > 0, "a layout without swizzle");
    need((descriptor >> 49 & 7) == 0, "a base offset");
    uint32_t address = across ? start + 2 * own / line * leading + 2 * own % line + k / 8 * stride + k % 8 * line
                              : start + own / 8 * stride + own % 8 * line + 2 * k;
    address = swizzled(address, swizzle);
    need(address + 2 <= shared.size(), "reads behind its memory");
    return uint32_t(shared[address] | shared[address + 1] << 8) << 16;
  };
  auto real = [](uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  };
  // Rows lane / 4 and 8 later, of the depth 2 (lane % 4) and the next one, then the same 8 later.
  auto held = [&](uint32_t r, uint32_t k) {
    uint64_t pair = lanes[r % 8 * 4 + k % 8 / 2]->registers[size_t(product.rows[r / 8 + k / 8 * 2])];
    return real(uint32_t(pair >> (16 * (k % 2)) & 0xffff) << 16);
  };
  size_t columns = product.sums.size() * 2, first = lanes[0]->warp % 4 * 16;
  std::vector<float> x(16 * 16), w(columns * 16), sums(16 * columns);
  for (uint32_t k = 0; k < 16; ++k) {
    for (uint32_t r = 0; r < 16; ++r)
      x[r * 16 + k] =
          product.rows.empty() ? real(read(product.x, product.acrossX, uint32_t(first) + r, k)) : held(r, k);
    for (uint32_t c = 0; c < columns; ++c)
      w[k * columns + c] = real(read(product.w, product.acrossW, c, k));
  }
  std::vector<double> row(columns);
  for (size_t r = 0; r < 16; ++r) {
    std::fill(row.begin(), row.end(), 0);
    for (size_t k = 0; k < 16; ++k)
      for (size_t c = 0; c < columns; ++c)
        row[c] += double(x[r * 16 + k]) * double(w[k * columns + c]);
    for (size_t c = 0; c < columns; ++c)
      sums[r * columns + c] = float(row[c]); // with what was there, below
    for (size_t lane = 4 * (r % 8); lane < 4 * (r % 8) + 4; ++lane)
      for (size_t i = 0; i < product.sums.size(); ++i) {
        if ((i / 2 % 2 != 0) != (r >= 8))
          continue;
        uint64_t &sum = lanes[lane]->registers[size_t(product.sums[i])];
        float made =
            float((product.adds ? double(real(uint32_t(sum))) : 0) + row[8 * (i / 4) + 2 * (lane % 4) + i % 2]);
        uint32_t bits;
        std::memcpy(&bits, &made, 4);
        sum = bits;
      }
  }
  product.done = true;
}

/// wgmma.mma_async {sums}, x, w, p, 1, 1, x across, w across; or with {four registers} for x, without x across. Where p does not hold they
/// begin at 0.
void multiplyGroup(std::vector<Thread *> &lanes, const Instruction &at) {
  WarpProducts &products = productsOf(lanes);
  size_t count = std::strtoul(at.text.c_str() + at.text.find(".m64n") + 5, nullptr, 10) / 2, end = at.operands.size();
  bool inRegisters = end == count + 9;
  size_t w = count + (inRegisters ? 4 : 1);
  need(inRegisters || end == count + 7, "as many sums as it has columns");
  Product made{{}, {}, 0, get<uint64_t>(*lanes[0], at, w), false, at.operands[end - 1].bits != 0, false, false};
  if (inRegisters)
    for (size_t i = count; i < w; ++i)
      made.rows.push_back(at.operands[i].reg);
  else
    made.x = get<uint64_t>(*lanes[0], at, count), made.acrossX = at.operands[w + 4].bits != 0;
  need(at.operands[w + 2].bits == 1 && at.operands[w + 3].bits == 1, "a form of it that is not known");
  made.adds = predicate(*lanes[0], at, w + 1);
  need(products.fenced.size() == warpSize, "no fence before the first product");
  products.held.resize(lanes[0]->registers.size());
  for (size_t i = 0; i < count; ++i) {
    int sum = at.operands[i].reg;
    made.sums.push_back(sum);
    for (size_t lane = 0; lane < warpSize; ++lane)
      need(products.held[size_t(sum)] || lanes[lane]->registers[size_t(sum)] == products.fenced[lane][size_t(sum)],
           "a sum was written after the fence");
  }
  for (int sum : made.sums)
    products.held[size_t(sum)] = 1;
  for (int row : made.rows)
    for (size_t lane = 0; lane < warpSize; ++lane)
      need(lanes[lane]->registers[size_t(row)] == products.fenced[lane][size_t(row)],
           "a register of the left factor was written after the fence");
  for (Thread *lane : lanes)
    need((inRegisters || get<uint64_t>(*lane, at, count) == made.x) && get<uint64_t>(*lane, at, w) == made.w,
         "lanes have several descriptors");
  Async &async = *lanes[0]->async;
  bool late = async.landing == Landing::Early || (async.landing == Landing::Random && async.random() % 2);
  // In order: what adds to the same sums comes behind those before it.
  for (const auto &group : products.groups)
    for (const Product &before : group)
      late |= !before.done;
  if (!late)
    execute(lanes, made);
  products.groups.back().push_back(std::move(made));
}
void commitGroup(std::vector<Thread *> &lanes, const Instruction &) {
  productsOf(lanes).groups.emplace_back();
}
void awaitGroups(std::vector<Thread *> &lanes, const Instruction &at) {
  WarpProducts &products = productsOf(lanes);
  while (products.groups.size() > at.operands[0].bits + 1) {
    for (Product &product : products.groups.front())
      if (!product.done)
        execute(lanes, product);
    products.groups.erase(products.groups.begin());
  }
  std::fill(products.held.begin(), products.held.end(), 0);
  for (const auto &group : products.groups)
    for (const Product &product : group)
      for (int sum : product.sums)
        products.held[size_t(sum)] = 1;
  products.fenced.clear(); // what comes next needs one of its own
}

} // namespace

void Barrier::settle() {
  if (pending || bytes)
    return;
  phase ^= 1;
  pending = count;
}

/// A box's elements in shared memory: the lines of its first dimension one after the other.
static void eachLine(const BoxCopy &copy, const auto &line) {
  const TensorMap &map = copy.map;
  uint32_t lines = 1, bytes = 2u * map.box[0];
  for (uint32_t d = 1; d < map.rank; ++d)
    lines *= map.box[d];
  for (uint32_t i = 0; i < lines; ++i) {
    uint32_t rest = i;
    uint64_t from = map.address;
    bool inside = true;
    for (uint32_t d = 1; d < map.rank; ++d) {
      int64_t at = int64_t(copy.at[d]) + rest % map.box[d];
      rest /= map.box[d];
      inside &= at >= 0 && at < int64_t(map.extents[d]);
      from += uint64_t(at) * map.strides[d - 1];
    }
    line(copy.to + i * bytes, from, inside);
  }
}

void Async::begin(BoxCopy copy) {
  uint32_t bytes = 2;
  for (uint32_t d = 0; d < copy.map.rank; ++d)
    bytes *= copy.map.box[d];
  need(copy.to % (128u << copy.map.swizzle) == 0, "a swizzle that begins between its lines");
  need(2u * copy.map.box[0] == 16u << copy.map.swizzle, "lines that are no swizzle's");
  need(copy.to + bytes <= shared->size(), "copies behind its memory");
  std::memset(shared->data() + copy.to, 0xff, bytes); // until it has landed there are no numbers
  copies.push_back(copy);
  if (landing == Landing::Early || (landing == Landing::Random && random() % 2))
    land();
}

void Async::land() {
  BoxCopy copy = copies.front();
  copies.pop_front();
  int64_t bytes = 0;
  eachLine(copy, [&](uint32_t to, uint64_t from, bool inside) {
    for (uint32_t i = 0; i < copy.map.box[0]; ++i, bytes += 2) {
      int64_t at = int64_t(copy.at[0]) + i;
      uint16_t value = 0;
      if (inside && at >= 0 && at < int64_t(copy.map.extents[0]))
        std::memcpy(&value, memory->at(from + 2 * uint64_t(at), 2), 2);
      std::memcpy(shared->data() + swizzled(to + 2 * i, copy.map.swizzle), &value, 2);
    }
  });
  Barrier &barrier = barriers.at(copy.barrier);
  barrier.bytes -= bytes;
  barrier.settle();
}

void Async::touches(const WarpProducts &products, const Instruction &at) {
  for (const Operand &operand : at.operands)
    if (operand.reg >= 0 && size_t(operand.reg) < products.held.size() && products.held[size_t(operand.reg)])
      throw std::runtime_error("a sum that a product still writes");
}

Step asyncStepOf(const std::string &name) {
  if (name == "mbarrier.init.shared::cta.b64")
    return initBarrier;
  if (name == "fence.mbarrier_init.release.cluster")
    return fenceBarriers;
  if (name == "mbarrier.arrive.shared::cta.b64" || name == "mbarrier.arrive.expect_tx.shared::cta.b64")
    return arrive;
  if (name == "setmaxnreg.dec.sync.aligned.u32" || name == "setmaxnreg.inc.sync.aligned.u32")
    return setRegisters;
  if (name.starts_with("cp.async.bulk.tensor.") &&
      name.ends_with("d.shared::cluster.global.mbarrier::complete_tx::bytes"))
    return beginBox;
  return nullptr;
}

Together asyncTogetherOf(const std::string &name) {
  if (name == "mbarrier.try_wait.parity.shared::cta.b64")
    return tryWait;
  if (name == "wgmma.fence.sync.aligned")
    return fence;
  if (name.starts_with("wgmma.mma_async.sync.aligned.m64n") && name.ends_with("k16.f32.bf16.bf16"))
    return multiplyGroup;
  if (name == "wgmma.commit_group.sync.aligned")
    return commitGroup;
  if (name == "wgmma.wait_group.sync.aligned")
    return awaitGroups;
  return nullptr;
}

} // namespace quern::ptx
