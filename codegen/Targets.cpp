// Takes: the name of a target. Gives: what Halide, LLVM and the start-up check of the program need to know of it.
// Why a table: a program must explain itself on an older CPU, so each target lists every feature its code may use.
#include "codegen/Targets.h"

#include "support/Processors.h"

#include <algorithm>
#include <stdexcept>

namespace quern::codegen {

namespace {
struct Row {
  const char *name, *llvmCpu, *halide;
  std::vector<std::string> features;
  int vector, registers;
};
} // namespace

static std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string> &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// From the least to the most demanding; `native` is the last one that the machine can run.
static const std::vector<Row> &rows() {
  static const std::vector<std::string> v2 = {"sse4_1", "sse4_2", "ssse3", "popcnt"},
                                        avx = v2 + std::vector<std::string>{"avx"},
                                        v3 = avx + std::vector<std::string>{"avx2", "fma", "f16c", "bmi1",
                                                                            "bmi2", "abm", "movbe"},
                                        alder = v3 + std::vector<std::string>{"avx_vnni", "gfni", "3dnowprefetch"},
                                        v4 = v3 + std::vector<std::string>{"avx512f", "avx512cd", "avx512vl",
                                                                           "avx512dq", "avx512bw"},
                                        cascade = v4 + std::vector<std::string>{"avx512_vnni", "3dnowprefetch"},
                                        ice = cascade + std::vector<std::string>{"avx512ifma", "avx512vbmi",
                                                                                 "avx512_vbmi2", "gfni"},
                                        zen4 = ice + std::vector<std::string>{"avx512_bf16"},
                                        sapphire = zen4 + std::vector<std::string>{"avx_vnni", "avx512_fp16"};
  static const char *ofSapphire =
      "avx512-avx512_skylake-avx512_cannonlake-avx512_zen4-avx512_sapphirerapids-avx2-avx-f16c-fma-sse41";
  static const std::vector<Row> table = {
      {"x86-64-v2", "x86-64-v2", "sse41", v2, 4, 16},
      {"x86-64-v3", "x86-64-v3", "avx2-avx-f16c-fma-sse41", v3, 8, 16},
      {"alderlake", "alderlake", "avx2-avx-f16c-fma-sse41", alder, 8, 16},
      {"x86-64-v4", "x86-64-v4", "avx512-avx512_skylake-avx2-avx-f16c-fma-sse41", v4, 16, 32},
      {"cascadelake", "cascadelake", "avx512-avx512_skylake-avx2-avx-f16c-fma-sse41", cascade, 16, 32},
      {"icelake-server", "icelake-server", "avx512-avx512_skylake-avx512_cannonlake-avx2-avx-f16c-fma-sse41", ice, 16,
       32},
      {"znver4", "znver4", "avx512-avx512_skylake-avx512_cannonlake-avx512_zen4-avx2-avx-f16c-fma-sse41", zen4, 16, 32},
      // Some virtual machines hide AMX, and some systems don't save its registers.
      {"sapphirerapids-noamx", "sapphirerapids", ofSapphire, sapphire, 16, 32},
      {"sapphirerapids", "sapphirerapids", ofSapphire,
       sapphire + std::vector<std::string>{"amx_tile", "amx_bf16", "amx_int8"}, 16, 32},
  };
  return table;
}

/// Of two targets with nearly the same instructions, whether it is the one for this maker's processors.
static bool isOfMaker(const std::string &name) {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") ? name.rfind("sapphirerapids", 0) != 0 : name != "znver4";
}

static bool machineHas(const std::string &name) {
  __builtin_cpu_init();
  bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512bw");
  bool cascade = v4 && __builtin_cpu_supports("avx512vnni");
  bool ice = cascade && __builtin_cpu_supports("avx512ifma") && __builtin_cpu_supports("avx512vbmi") &&
             __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("gfni");
  bool zen4 = ice && __builtin_cpu_supports("avx512bf16");
  if (name == "x86-64-v2")
    return v2;
  if (name == "x86-64-v3")
    return v3;
  if (name == "alderlake")
    return v3 && __builtin_cpu_supports("avxvnni") && __builtin_cpu_supports("gfni");
  if (name == "x86-64-v4")
    return v4;
  if (name == "cascadelake")
    return cascade;
  if (name == "icelake-server")
    return ice;
  if (name == "znver4")
    return zen4;
  if (!zen4 || !isOfMaker(name))
    return false;
  if (name == "sapphirerapids-noamx")
    return __builtin_cpu_supports("avxvnni") && __builtin_cpu_supports("avx512fp16");
  return name == "sapphirerapids" && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
         __builtin_cpu_supports("amx-int8") && support::allowTiles();
}

std::vector<std::string> cpuTargetNames() {
  std::vector<std::string> names = {"native"};
  for (const Row &row : rows())
    names.push_back(row.name);
  return names;
}

static bool has(const CpuTarget &target, const char *feature) {
  return std::find(target.features.begin(), target.features.end(), feature) != target.features.end();
}

ByteProducts byteProducts(const CpuTarget &target) {
  if (!target.device.empty())
    return ByteProducts::None;
  return has(target, "avx512_vnni") || has(target, "avx_vnni") ? ByteProducts::Fours : ByteProducts::Pairs;
}

bool multipliesBF16(const CpuTarget &target) {
  return target.device.empty() && has(target, "avx512_bf16");
}

bool gainsByBF16(const CpuTarget &target) {
  return multipliesBF16(target) && !has(target, "avx512_fp16");
}

bool multipliesTiles(const CpuTarget &target) {
  return target.device.empty() && has(target, "amx_bf16") && has(target, "amx_int8");
}

/// A processor by name; x86-64-v3 and such are others', too.
static bool isOfIntel(const CpuTarget &target) {
  static const std::vector<std::string> names = {"alderlake", "cascadelake", "icelake-server", "sapphirerapids"};
  return std::find(names.begin(), names.end(), target.llvmCpu) != names.end();
}

/// Intel's servers have two units of 512 bits (a few of the cheaper Cascade Lakes one), Zen 4 two halves of one.
int productUnits(const CpuTarget &target) {
  return target.vector < 16 || isOfIntel(target) ? 2 : 1;
}

/// By measurement (docs/design/contractions.md): a core of AMD has few reads of its first cache under way, and requests take these
/// from the loop's own; on a Sapphire Rapids the first cache gained.
int cacheAhead(const CpuTarget &target) {
  return isOfIntel(target) ? 1 : 2;
}

/// By measurement, as the next one (docs/design/contractions.md): a Cascade Lake gained, a Xeon with AMX lost.
int aheadInTiles(const CpuTarget &target) {
  return isOfIntel(target) && !has(target, "avx512_fp16") ? 1536 : 0;
}

bool asksBesideSums(const CpuTarget &target) {
  return isOfIntel(target);
}

bool callsDoubles(const CpuTarget &target) {
  return target.device != "vulkan";
}

/// Halide 21 makes vpdpbusd for this feature alone.
std::string halideOfProducts(const CpuTarget &target) {
  const bool lacks = byteProducts(target) == ByteProducts::Fours && !has(target, "avx512_bf16");
  return lacks ? "x86-64-linux-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4-avx2-avx-f16c-fma-sse41"
               : target.halide;
}

std::vector<std::string> deviceTargetNames() {
  return {"opencl", "cuda", "vulkan"};
}

/// Speeds are those of an assumed machine, so that passes do the same everywhere; kernels are cut for this machine's threads and
/// caches where they are compiled for it.
static support::Machine machineOf(const std::string &target) {
  support::Machine machine = support::assumedMachine();
  if (target != "native")
    return machine;
  support::Machine here = support::thisMachine("");
  machine.threads = here.threads;
  for (int level = 0; level < 3; ++level) // 0 in some virtual machines
    if (here.caches[level])
      machine.caches[level] = here.caches[level];
  return machine;
}

/// Kernels for the device, launched by code that any CPU runs. Weights are packed as for the widest of CPUs: neighbouring
/// work-items then read neighbouring numbers.
static CpuTarget deviceTarget(const std::string &name) {
  CpuTarget target = cpuTarget("x86-64-v2");
  target.name = target.resolved = target.device = name;
  // Angles of rotary positions are reduced in double precision. Of NVIDIA's capabilities the oldest that its drivers of
  // today know (Volta): what is newer in PTX serves tensor cores, which Halide does not use. Vulkan's names say what SPIR-V
  // may contain; what of it a kernel does is asked of the device. Where a product and a sum are not fused (Vulkan, OpenCL),
  // Halide may not make one product of two: an exponential would lose the digits for which it was written with two.
  target.halide += name == "opencl"   ? "-opencl-cl_doubles-strict_float"
                   : name == "vulkan" ? "-vulkan-vk_int8-vk_int16-vk_int64-vk_float64-strict_float"
                                      : "-cuda-cuda_capability_70";
  target.vector = 16, target.registers = 32;
  return target;
}

CpuTarget cpuTarget(const std::string &name) {
  std::vector<std::string> devices = deviceTargetNames();
  if (std::find(devices.begin(), devices.end(), name) != devices.end())
    return deviceTarget(name);
  const Row *found = nullptr;
  for (const Row &row : rows())
    if (name == "native" ? machineHas(row.name) && isOfMaker(row.name) : name == row.name)
      found = &row;
  if (!found && name == "native")
    throw std::runtime_error("this machine is older than x86-64-v2, the oldest CPU that Quern compiles for");
  if (!found) {
    std::string list;
    std::vector<std::string> all = cpuTargetNames();
    all.insert(all.end(), devices.begin(), devices.end());
    for (const std::string &known : all)
      list += (list.empty() ? "" : ", ") + known;
    throw std::runtime_error("unknown target '" + name + "'; there are " + list);
  }
  return {name,
          found->name,
          std::string("x86-64-linux-") + found->halide,
          found->llvmCpu,
          found->features,
          found->vector,
          found->registers,
          "",
          machineOf(name)};
}

bool machineRuns(const CpuTarget &target) {
  return target.device.empty() && (target.name == "native" || machineHas(target.name));
}

} // namespace quern::codegen
