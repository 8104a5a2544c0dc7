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
using GraphHandle = struct GraphOf *;
using GraphExec = struct GraphExecOf *;
using Node = struct NodeOf *;
using Event = struct EventOf *;
using Address = uint64_t;

/// CUDA_KERNEL_NODE_PARAMS, in its first form.
struct KernelNode {
  Function kernel;
  unsigned groupsX, groupsY, groupsZ, threadsX, threadsY, threadsZ, sharedBytes;
  void **arguments, **extra;
};
/// CUDA_MEMCPY3D, for bytes in a row within the device's memory.
struct CopyNode {
  struct Side {
    size_t x = 0, y = 0, z = 0, level = 0;
    unsigned kind = 2; ///< the device's memory
    const void *host = nullptr;
    Address address = 0;
    void *array = nullptr, *reserved = nullptr;
    size_t pitch = 0, height = 0;
  } from, to;
  size_t bytes = 0, rows = 1, depth = 1;
};
static_assert(sizeof(CopyNode) == 200);
/// CUgraphEdgeData.
struct EdgeData {
  unsigned char fromPort, toPort, type, reserved[5];
};
inline constexpr unsigned char programmaticPort = 1, programmaticEdge = 1;
/// CUtensorMap: how copies of whole boxes see a tensor. Opaque.
struct alignas(64) TensorMap {
  uint64_t words[16];
};
inline constexpr int tensorBF16 = 9, promoteWholeLines = 3; // 256 bytes

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
  int (*MemAllocHost)(void **, size_t bytes); ///< the host's, where copies go on behind its back
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
  int (*EventCreate)(Event *, unsigned flags);
  int (*EventRecord)(Event, Stream);
  int (*EventSynchronize)(Event);
  int (*EventElapsedTime)(float *milliseconds, Event from, Event to);
  int (*GraphCreate)(GraphHandle *, unsigned flags);
  int (*GraphAddKernelNode)(Node *, GraphHandle, const Node *after, size_t count, const KernelNode *);
  int (*GraphAddMemcpyNode)(Node *, GraphHandle, const Node *after, size_t count, const CopyNode *, Context);
  int (*GraphInstantiateWithFlags)(GraphExec *, GraphHandle, unsigned long long flags);
  int (*GraphExecKernelNodeSetParams)(GraphExec, Node, const KernelNode *);
  int (*GraphExecMemcpyNodeSetParams)(GraphExec, Node, const CopyNode *, Context);
  int (*GraphLaunch)(GraphExec, Stream);
  int (*GraphExecDestroy)(GraphExec);
  int (*GraphDestroy)(GraphHandle);
  /// Of CUDA 12; null in older drivers. `strides`: in bytes, of all dimensions but the first.
  int (*TensorMapEncodeTiled)(TensorMap *, int type, uint32_t rank, Address, const uint64_t *extents,
                              const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                              int swizzle, int promotion, int fill);
  /// Of CUDA 12.3; null in older drivers.
  int (*GraphAddDependencies)(GraphHandle, const Node *from, const Node *to, const EdgeData *, size_t count);
};

/// Opens libcuda.so.1 (or the library that QUERN_CUDA_LIBRARY names). Throws MachineError that says what to install.
const Api &openApi();

} // namespace quern::runtime::cuda
#endif
