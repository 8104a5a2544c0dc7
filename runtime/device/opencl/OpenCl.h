// The part of OpenCL that programs use, declared here and opened at run time, so that no header or library of it is needed
// to compile or start one. Names and numbers: the Khronos OpenCL 3.0 specification.
#ifndef QUERN_RUNTIME_DEVICE_OPENCL_OPENCL_H
#define QUERN_RUNTIME_DEVICE_OPENCL_OPENCL_H

#include <cstddef>
#include <cstdint>

namespace quern::runtime::opencl {

using Platform = struct PlatformOf *;
using DeviceId = struct DeviceOf *;
using Context = struct ContextOf *;
using Queue = struct QueueOf *;
using Source = struct ProgramOf *;
using Kernel = struct KernelOf *;
using Event = struct EventOf *;

inline constexpr uint64_t deviceTypeGpu = 4, deviceTypeAll = 0xffffffff;
inline constexpr uint32_t deviceType = 0x1000, deviceName = 0x102b, deviceSvm = 0x1053, deviceDoubles = 0x1032,
                          buildLog = 0x1183;
inline constexpr uint64_t coarseSvm = 1, readWrite = 1;
inline constexpr uint64_t profiling = 2;       // of CreateCommandQueue
inline constexpr uint32_t commandEnd = 0x1283; // of GetEventProfilingInfo
inline constexpr int32_t noPlatform = -1001;   // cl_khr_icd

/// The functions of a driver. Each has its C name without the prefix; statuses are 0 or a negative code.
struct Api {
  int32_t (*GetPlatformIDs)(uint32_t most, Platform *platforms, uint32_t *count);
  int32_t (*GetDeviceIDs)(Platform, uint64_t type, uint32_t most, DeviceId *devices, uint32_t *count);
  int32_t (*GetDeviceInfo)(DeviceId, uint32_t what, size_t room, void *value, size_t *bytes);
  Context (*CreateContext)(const intptr_t *properties, uint32_t count, const DeviceId *devices, void *, void *,
                           int32_t *status);
  Queue (*CreateCommandQueue)(Context, DeviceId, uint64_t properties, int32_t *status);
  Source (*CreateProgramWithSource)(Context, uint32_t count, const char **texts, const size_t *lengths,
                                    int32_t *status);
  int32_t (*BuildProgram)(Source, uint32_t count, const DeviceId *devices, const char *options, void *, void *);
  int32_t (*GetProgramBuildInfo)(Source, DeviceId, uint32_t what, size_t room, void *value, size_t *bytes);
  Kernel (*CreateKernel)(Source, const char *name, int32_t *status);
  int32_t (*SetKernelArg)(Kernel, uint32_t number, size_t bytes, const void *value);
  int32_t (*SetKernelArgSVMPointer)(Kernel, uint32_t number, const void *pointer);
  int32_t (*EnqueueNDRangeKernel)(Queue, Kernel, uint32_t dimensions, const size_t *from, const size_t *global,
                                  const size_t *local, uint32_t, const Event *, Event *);
  void *(*SVMAlloc)(Context, uint64_t flags, size_t bytes, uint32_t alignment);
  void (*SVMFree)(Context, void *pointer);
  int32_t (*EnqueueSVMMemcpy)(Queue, uint32_t wait, void *to, const void *from, size_t bytes, uint32_t, const Event *,
                              Event *);
  int32_t (*EnqueueSVMMemFill)(Queue, void *to, const void *pattern, size_t patternBytes, size_t bytes, uint32_t,
                               const Event *, Event *);
  int32_t (*EnqueueMarkerWithWaitList)(Queue, uint32_t, const Event *, Event *);
  int32_t (*GetEventProfilingInfo)(Event, uint32_t what, size_t room, void *value, size_t *bytes);
  int32_t (*ReleaseEvent)(Event);
  int32_t (*Finish)(Queue);
};

/// Opens libOpenCL.so.1 (or the library that QUERN_OPENCL_LIBRARY names). Throws MachineError that says what to install.
const Api &openApi();

} // namespace quern::runtime::opencl
#endif
