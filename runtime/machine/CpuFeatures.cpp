// Takes: names of instruction sets. Gives: whether they can be used here.
// Why by hand: __builtin_cpu_supports knows fewer names and differs between compilers. This file and all of the runtime
// are compiled for the oldest x86-64, so the check itself runs anywhere.
#include "runtime/machine/CpuFeatures.h"

#include "runtime/Error.h"
#include "support/Machine.h"
#include "support/Processors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#endif

namespace quern::runtime {

#if defined(__x86_64__)
namespace {

enum Register { EAX, EBX, ECX, EDX };
/// What the operating system must save at a switch (bits of XCR0) for the registers to be usable.
enum State : uint64_t { None = 0, Avx = 0x6, Avx512 = 0xe6, Amx = 0x60000 };

struct Row {
  const char *name;
  uint32_t leaf, subleaf;
  Register reg;
  int bit;
  uint64_t state;
};

constexpr Row rows[] = {
    {"cmov", 1, 0, EDX, 15, None},
    {"mmx", 1, 0, EDX, 23, None},
    {"sse", 1, 0, EDX, 25, None},
    {"sse2", 1, 0, EDX, 26, None},
    {"fxsr", 1, 0, EDX, 24, None},
    {"cx8", 1, 0, EDX, 8, None},
    {"sse3", 1, 0, ECX, 0, None},
    {"pclmul", 1, 0, ECX, 1, None},
    {"ssse3", 1, 0, ECX, 9, None},
    {"fma", 1, 0, ECX, 12, Avx},
    {"cx16", 1, 0, ECX, 13, None},
    {"sse4.1", 1, 0, ECX, 19, None},
    {"sse4.2", 1, 0, ECX, 20, None},
    {"movbe", 1, 0, ECX, 22, None},
    {"popcnt", 1, 0, ECX, 23, None},
    {"aes", 1, 0, ECX, 25, None},
    {"avx", 1, 0, ECX, 28, Avx},
    {"f16c", 1, 0, ECX, 29, Avx},
    {"rdrnd", 1, 0, ECX, 30, None},
    {"bmi", 7, 0, EBX, 3, None},
    {"avx2", 7, 0, EBX, 5, Avx},
    {"bmi2", 7, 0, EBX, 8, None},
    {"avx512f", 7, 0, EBX, 16, Avx512},
    {"avx512dq", 7, 0, EBX, 17, Avx512},
    {"avx512ifma", 7, 0, EBX, 21, Avx512},
    {"avx512cd", 7, 0, EBX, 28, Avx512},
    {"sha", 7, 0, EBX, 29, None},
    {"avx512bw", 7, 0, EBX, 30, Avx512},
    {"avx512vl", 7, 0, EBX, 31, Avx512},
    {"avx512vbmi", 7, 0, ECX, 1, Avx512},
    {"avx512vbmi2", 7, 0, ECX, 6, Avx512},
    {"gfni", 7, 0, ECX, 8, None},
    {"vaes", 7, 0, ECX, 9, Avx},
    {"vpclmulqdq", 7, 0, ECX, 10, Avx},
    {"avx512vnni", 7, 0, ECX, 11, Avx512},
    {"avx512bitalg", 7, 0, ECX, 12, Avx512},
    {"avx512vpopcntdq", 7, 0, ECX, 14, Avx512},
    {"amx-bf16", 7, 0, EDX, 22, Amx},
    {"avx512fp16", 7, 0, EDX, 23, Avx512},
    {"amx-tile", 7, 0, EDX, 24, Amx},
    {"amx-int8", 7, 0, EDX, 25, Amx},
    {"avxvnni", 7, 1, EAX, 4, Avx},
    {"avx512bf16", 7, 1, EAX, 5, Avx512},
    {"lzcnt", 0x80000001, 0, ECX, 5, None},
    {"prfchw", 0x80000001, 0, ECX, 8, None},
    {"pni", 1, 0, ECX, 0, None},
    {"pclmulqdq", 1, 0, ECX, 1, None},
    {"rdrand", 1, 0, ECX, 30, None},
    {"bmi1", 7, 0, EBX, 3, None},
    {"sha_ni", 7, 0, EBX, 29, None},
    {"abm", 0x80000001, 0, ECX, 5, None},
    {"3dnowprefetch", 0x80000001, 0, ECX, 8, None},
};

/// LLVM says avx512vnni and sse4.1, Linux avx512_vnni and sse4_1.
bool sameFeature(std::string_view a, std::string_view b) {
  auto isMark = [](char c) { return c == '.' || c == '_' || c == '-'; };
  size_t i = 0, j = 0;
  while (true) {
    while (i < a.size() && isMark(a[i]))
      ++i;
    while (j < b.size() && isMark(b[j]))
      ++j;
    if (i == a.size() || j == b.size())
      return i == a.size() && j == b.size();
    if (a[i++] != b[j++])
      return false;
  }
}

uint64_t enabledStates() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) // OSXSAVE
    return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

} // namespace

/// Of what the processor and the system's saved registers allow; tiles are given to who asks, besides.
static bool isThere(const std::string &name, bool asked) {
  for (const Row &row : rows) {
    if (!sameFeature(name, row.name))
      continue;
    unsigned values[4] = {0, 0, 0, 0};
    if (!__get_cpuid_count(row.leaf, row.subleaf, &values[0], &values[1], &values[2], &values[3]))
      return false;
    return (values[row.reg] >> row.bit & 1) && (enabledStates() & row.state) == row.state &&
           (row.state != Amx || !asked || support::allowTiles());
  }
  return false;
}

bool hasCpuFeature(const std::string &name) {
  return isThere(name, true);
}

std::string cpuName() {
  char text[49] = {};
  unsigned *words = reinterpret_cast<unsigned *>(text);
  for (unsigned leaf = 0; leaf < 3; ++leaf)
    if (!__get_cpuid(0x80000002 + leaf, words + leaf * 4, words + leaf * 4 + 1, words + leaf * 4 + 2,
                     words + leaf * 4 + 3))
      return "unknown processor";
  std::string name = text;
  size_t first = name.find_first_not_of(' ');
  return first == std::string::npos ? "unknown processor" : name.substr(first);
}
#else
static bool isThere(const std::string &, bool) {
  return false;
}
bool hasCpuFeature(const std::string &) {
  return false;
}
std::string cpuName() {
  return "unknown processor";
}
#endif

/// The newest level of x86-64 (https://gitlab.com/x86-psABIs/x86-64-ABI) that this processor has, as --target takes it.
static std::string ownLevel() {
  auto all = [](std::initializer_list<const char *> names) {
    return std::all_of(names.begin(), names.end(), [](const char *name) { return hasCpuFeature(name); });
  };
  if (!all({"avx2", "fma", "f16c", "bmi1", "bmi2", "movbe"}))
    return "x86-64-v2";
  return all({"avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"}) ? "x86-64-v4" : "x86-64-v3";
}

void requireCpuFeatures(const std::vector<std::string> &names) {
  std::string missing;
  bool refused = false;
  for (const std::string &name : names)
    if (!hasCpuFeature(name) && !(refused |= isThere(name, false)))
      missing += (missing.empty() ? "" : ", ") + name;
  if (missing.empty() && refused)
    throw MachineError("this program was compiled for a processor with AMX; this one (" + cpuName() +
                       ") has it, but the system does not let programs use its registers (Linux does from 5.16 on); "
                       "compile it again with --target sapphirerapids-noamx");
  if (!missing.empty())
    throw MachineError("this program was compiled for a processor with " + missing + ", which this one (" + cpuName() +
                       ") lacks; compile it again with --target " + ownLevel() + ", or on this machine");
}

void flushDenormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040); // results, operands
#endif
}

std::string machineName() {
  std::string name = cpuName();
  unsigned a = 0, b, c, d;
  if (__get_cpuid(1, &a, &b, &c,
                  &d)) { // the extended parts count where the base is 15, of the model also where it is 6
    unsigned family = (a >> 8 & 15), model = (a >> 4 & 15);
    model |= family == 15 || family == 6 ? (a >> 16 & 15) << 4 : 0;
    family += family == 15 ? (a >> 20 & 255) : 0;
    name += ", family " + std::to_string(family) + " model " + std::to_string(model);
  }
  const support::Machine machine = support::thisMachine(name);
  for (int level : {2, 3})
    if (int64_t bytes = machine.caches[level - 1])
      name += ", L" + std::to_string(level) + " " + std::to_string(bytes / 1024) + " KiB";
  return name;
}

} // namespace quern::runtime
