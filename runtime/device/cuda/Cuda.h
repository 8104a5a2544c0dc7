// The part of CUDA's driver API that programs use, declared here and opened at run time, so that no header, toolkit or
// library of it is needed to compile or start one. Names and numbers: NVIDIA's CUDA driver API reference.
#ifndef QUERN_RUNTIME_DEVICE_CUDA_CUDA_H
#define QUERN_RUNTIME_DEVICE_CUDA_CUDA_H

#include <cstddef>
#include <cstdint>

namespace quern::runtime::cuda {

using Device = int;
using Context = struct ContextOf *;
using Module = struct ModuleOf *;
using Function = struct FunctionOf *;
using Stream = struct StreamOf *;
using Address = uint64_t;

inline constexpr int outOfMemory = 2, noDevice = 100;
inline constexpr int capabilityMajor = 75, capabilityMinor = 76; // of DeviceGetAttribute
inline constexpr int errorLog = 5, errorLogBytes = 6;            // of ModuleLoadDataEx
inline constexpr int dynamicShared = 8;                          // of FuncSetAttribute
inline constexpr unsigned nonBlocking = 1;                       // of StreamCreate

/// The functions of a driver. Each has its C name without the prefix (and without the _v2 of those that have it); statuses
/// are 0 or a positive code.
struct Api {
  int (*Init)(unsigned flags);
  int (*DriverGetVersion)(int *version); ///< 12040: CUDA 12.4
  int (*GetErrorString)(int status, const char **text);
  int (*DeviceGetCount)(int *count);
  int (*DeviceGet)(Device *, int number);
  int (*DeviceGetName)(char *text, int room, Device);
  int (*DeviceGetAttribute)(int *value, int what, Device);
  int (*DevicePrimaryCtxRetain)(Context *, Device);
  int (*CtxSetCurrent)(Context);
  int (*StreamCreate)(Stream *, unsigned flags);
  int (*StreamSynchronize)(Stream);
  int (*MemAlloc)(Address *, size_t bytes);
  int (*MemFree)(Address);
  int (*MemcpyHtoDAsync)(Address to, const void *from, size_t bytes, Stream);
  int (*MemcpyDtoHAsync)(void *to, Address from, size_t bytes, Stream);
  int (*MemcpyDtoDAsync)(Address to, Address from, size_t bytes, Stream);
  int (*MemsetD8Async)(Address to, unsigned char byte, size_t bytes, Stream);
  int (*ModuleLoadDataEx)(Module *, const void *image, unsigned options, int *names, void **values);
  int (*ModuleGetFunction)(Function *, Module, const char *name);
  int (*FuncSetAttribute)(Function, int what, int value);
  int (*LaunchKernel)(Function, unsigned groupsX, unsigned groupsY, unsigned groupsZ, unsigned threadsX,
                      unsigned threadsY, unsigned threadsZ, unsigned sharedBytes, Stream, void **arguments,
                      void **extra);
};

/// Opens libcuda.so.1 (or the library that QUERN_CUDA_LIBRARY names). Throws MachineError that says what to install.
const Api &openApi();

} // namespace quern::runtime::cuda
#endif
