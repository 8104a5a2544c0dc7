// Takes: nothing. Gives: the driver's functions.
#include "runtime/device/cuda/Cuda.h"

#include "runtime/device/DriverLibrary.h"

namespace quern::runtime::cuda {

const Api &openApi() {
  static const Api api = [] {
    DriverLibrary library("a CUDA device", "libcuda.so.1", "QUERN_CUDA_LIBRARY",
                          "Install NVIDIA's driver for the card (no toolkit is needed), or compile the model with "
                          "--target native");
    const char *needed = "a driver of CUDA 11.4";
    Api found{};
    library.find("cuInit", found.Init, needed);
    library.find("cuDriverGetVersion", found.DriverGetVersion, needed);
    library.find("cuGetErrorString", found.GetErrorString, needed);
    library.find("cuDeviceGetCount", found.DeviceGetCount, needed);
    library.find("cuDeviceGet", found.DeviceGet, needed);
    library.find("cuDeviceGetName", found.DeviceGetName, needed);
    library.find("cuDeviceGetAttribute", found.DeviceGetAttribute, needed);
    library.find("cuDevicePrimaryCtxRetain", found.DevicePrimaryCtxRetain, needed);
    library.find("cuCtxSetCurrent", found.CtxSetCurrent, needed);
    library.find("cuStreamCreate", found.StreamCreate, needed);
    library.find("cuStreamSynchronize", found.StreamSynchronize, needed);
    library.find("cuMemAlloc_v2", found.MemAlloc, needed);
    library.find("cuMemFree_v2", found.MemFree, needed);
    library.find("cuMemAllocHost_v2", found.MemAllocHost, needed);
    library.find("cuMemcpyHtoDAsync_v2", found.MemcpyHtoDAsync, needed);
    library.find("cuMemcpyDtoHAsync_v2", found.MemcpyDtoHAsync, needed);
    library.find("cuMemcpyDtoDAsync_v2", found.MemcpyDtoDAsync, needed);
    library.find("cuMemsetD8Async", found.MemsetD8Async, needed);
    library.find("cuModuleLoadDataEx", found.ModuleLoadDataEx, needed);
    library.find("cuModuleGetFunction", found.ModuleGetFunction, needed);
    library.find("cuFuncSetAttribute", found.FuncSetAttribute, needed);
    library.find("cuLaunchKernel", found.LaunchKernel, needed);
    library.find("cuEventCreate", found.EventCreate, needed);
    library.find("cuEventRecord", found.EventRecord, needed);
    library.find("cuEventSynchronize", found.EventSynchronize, needed);
    library.find("cuEventElapsedTime", found.EventElapsedTime, needed);
    library.find("cuGraphCreate", found.GraphCreate, needed);
    library.find("cuGraphAddKernelNode", found.GraphAddKernelNode, needed);
    library.find("cuGraphAddMemcpyNode", found.GraphAddMemcpyNode, needed);
    library.find("cuGraphInstantiateWithFlags", found.GraphInstantiateWithFlags, needed);
    library.find("cuGraphExecKernelNodeSetParams", found.GraphExecKernelNodeSetParams, needed);
    library.find("cuGraphExecMemcpyNodeSetParams", found.GraphExecMemcpyNodeSetParams, needed);
    library.find("cuGraphLaunch", found.GraphLaunch, needed);
    library.find("cuGraphExecDestroy", found.GraphExecDestroy, needed);
    library.find("cuGraphDestroy", found.GraphDestroy, needed);
    library.find("cuTensorMapEncodeTiled", found.TensorMapEncodeTiled);
    library.find("cuGraphAddDependencies_v2", found.GraphAddDependencies);
    return found;
  }();
  return api;
}

} // namespace quern::runtime::cuda
