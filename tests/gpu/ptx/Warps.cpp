// What the lanes of a warp do together, and copies that go on while their thread does. Layouts of fragments: NVIDIA's PTX
// ISA, "Matrix fragments for mma.m16n8k16" and "ldmatrix".
#include "tests/gpu/ptx/Warps.h"
#include "tests/gpu/ptx/Async.h"
#include "tests/gpu/ptx/Operations.h"

#include <random>

namespace quern::ptx {

using namespace operations;

namespace {

constexpr size_t warpSize = 32;

void whole(const std::vector<Thread *> &lanes) {
  if (lanes.size() != warpSize)
    throw std::runtime_error("needs a whole warp");
}

float ofBF16(uint32_t bits) {
  bits <<= 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// shfl.sync.MODE.b32 d, a, b, c, mask: the lane that is meant, within segments that c says; without one a lane keeps its own.
template <char mode> void shuffle(std::vector<Thread *> &lanes, const Instruction &at) {
  whole(lanes);
  uint32_t given[warpSize];
  for (size_t i = 0; i < warpSize; ++i) {
    given[i] = get<uint32_t>(*lanes[i], at, 1);
    if (get<uint32_t>(*lanes[i], at, 4) != 0xffffffff)
      throw std::runtime_error("of some lanes alone");
  }
  for (uint32_t i = 0; i < warpSize; ++i) {
    uint32_t b = get<uint32_t>(*lanes[i], at, 2) & 31, c = get<uint32_t>(*lanes[i], at, 3), segment = c >> 8 & 31,
             most = (i & segment) | (c & 31 & ~segment);
    uint32_t from = mode == 'x' ? i ^ b : mode == 'd' ? i + b : mode == 'u' ? i - b : (i & segment) | (b & ~segment);
    bool inside = mode == 'u' ? int32_t(from) >= int32_t(most) : from <= most;
    put(*lanes[i], at, given[inside ? from : i]);
  }
}

/// vote.sync.any.pred p, q, mask
void voteAny(std::vector<Thread *> &lanes, const Instruction &at) {
  whole(lanes);
  bool any = false;
  for (Thread *lane : lanes)
    any |= predicate(*lane, at, 1);
  for (Thread *lane : lanes)
    put(*lane, at, uint64_t(any));
}

/// Lane 8 m + r says where row r of matrix m is; a lane gets two neighbours of row lane / 4, or of column lane / 4.
template <int many, bool transposed> void loadMatrices(std::vector<Thread *> &lanes, const Instruction &at) {
  whole(lanes);
  uint16_t matrices[many][8][8];
  for (size_t m = 0; m < many; ++m)
    for (size_t r = 0; r < 8; ++r)
      std::memcpy(matrices[m][r], placeOf<Space::Shared>(*lanes[8 * m + r], at.operands.back(), 16), 16);
  for (size_t i = 0; i < warpSize; ++i)
    for (size_t m = 0; m < many; ++m) {
      size_t r = i / 4, c = i % 4 * 2;
      uint32_t low = transposed ? matrices[m][c][r] : matrices[m][r][c],
               high = transposed ? matrices[m][c + 1][r] : matrices[m][r][c + 1];
      put(*lanes[i], at, low | high << 16, m);
    }
}

/// mma.sync m16n8k16: d[16, 8] = a[16, 16] b[16, 8] + c. Its products are exact and come together before they are rounded.
void multiply(std::vector<Thread *> &lanes, const Instruction &at) {
  whole(lanes);
  float a[16][16], b[16][8], c[16][8];
  for (size_t i = 0; i < warpSize; ++i) {
    size_t g = i / 4, t = i % 4 * 2;
    for (size_t r = 0; r < 4; ++r) {
      uint32_t pair = get<uint32_t>(*lanes[i], at, 4 + r);
      size_t row = g + 8 * (r % 2), column = t + 8 * (r / 2);
      a[row][column] = ofBF16(pair & 0xffff), a[row][column + 1] = ofBF16(pair >> 16);
    }
    for (size_t r = 0; r < 2; ++r) {
      uint32_t pair = get<uint32_t>(*lanes[i], at, 8 + r);
      b[t + 8 * r][g] = ofBF16(pair & 0xffff), b[t + 8 * r + 1][g] = ofBF16(pair >> 16);
    }
    for (size_t r = 0; r < 4; ++r)
      c[g + 8 * (r / 2)][t + r % 2] = get<float>(*lanes[i], at, 10 + r);
  }
  for (size_t row = 0; row < 16; ++row) {
    double sums[8] = {};
    for (size_t k = 0; k < 16; ++k)
      for (size_t column = 0; column < 8; ++column)
        sums[column] += double(a[row][k]) * double(b[k][column]);
    for (size_t column = 0; column < 8; ++column)
      c[row][column] = float(double(c[row][column]) + sums[column]);
  }
  for (size_t i = 0; i < warpSize; ++i)
    for (size_t r = 0; r < 4; ++r)
      put(*lanes[i], at, c[i / 4 + 8 * (r / 2)][i % 4 * 2 + r % 2], r);
}

void landOne(const Copy &copy) {
  std::memcpy(copy.to, copy.from, copy.bytes);
  std::memset(copy.to + copy.bytes, 0, copy.room - copy.bytes);
}

} // namespace

void land(Thread &thread, size_t left) {
  while (thread.copies.size() > left + 1) {
    for (const Copy &copy : thread.copies.front())
      landOne(copy);
    thread.copies.erase(thread.copies.begin());
  }
}

/// cp.async.cg.shared.global [to], [from], 16, bytes: what is beyond `bytes` is 0, and nothing of it is read.
void beginCopy(Thread &t, const Instruction &at) {
  size_t room = at.operands[2].bits, bytes = at.operands.size() > 3 ? get<uint32_t>(t, at, 3) : room;
  if (bytes > room)
    throw std::runtime_error("copies more than it has room for");
  Copy copy{placeOf<Space::Shared>(t, at.operands[0], room), nullptr, bytes, room};
  uint64_t from = t.registers[size_t(at.operands[1].reg)] + at.operands[1].bits;
  if (from % room)
    throw std::runtime_error("copies from an address that is not aligned");
  if (bytes)
    copy.from = t.memory->at(from, bytes);
  static std::minstd_rand random;
  if (t.landing == Landing::Early || (t.landing == Landing::Random && random() % 2))
    return landOne(copy);
  std::memset(copy.to, 0xff, room); // until it has landed there are no numbers
  t.copies.back().push_back(copy);
}
void commitCopies(Thread &t, const Instruction &) {
  t.copies.emplace_back();
}
void awaitCopies(Thread &t, const Instruction &at) {
  land(t, at.operands[0].bits);
}

Together togetherOf(const std::string &name) {
  if (name == "shfl.sync.bfly.b32")
    return shuffle<'x'>;
  if (name == "shfl.sync.idx.b32")
    return shuffle<'i'>;
  if (name == "shfl.sync.down.b32")
    return shuffle<'d'>;
  if (name == "shfl.sync.up.b32")
    return shuffle<'u'>;
  if (name == "vote.sync.any.pred")
    return voteAny;
  if (name == "ldmatrix.sync.aligned.m8n8.x4.shared.b16")
    return loadMatrices<4, false>;
  if (name == "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16")
    return loadMatrices<4, true>;
  if (name == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
    return multiply;
  return asyncTogetherOf(name);
}

} // namespace quern::ptx
