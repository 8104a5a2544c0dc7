// Takes: nothing. Gives: the driver's functions, or a sentence about what is missing.
#include "runtime/device/opencl/OpenCl.h"

#include "runtime/Error.h"

#include <cstdlib>
#include <dlfcn.h>

namespace quern::runtime::opencl {

namespace {
const char *libraryName() {
  const char *own = std::getenv("QUERN_OPENCL_LIBRARY");
  return own && *own ? own : "libOpenCL.so.1";
}

template <typename Function> void find(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function)
    throw MachineError(std::string("the OpenCL driver is too old: ") + libraryName() + " has no " + name +
                       "; OpenCL 2.0 or later is needed");
}
} // namespace

const Api &openApi() {
  static const Api api = [] {
    void *library = ::dlopen(libraryName(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char *reason = ::dlerror();
      throw MachineError(std::string("this program computes on an OpenCL device, but no driver can be opened: ") +
                         (reason ? reason : libraryName()) +
                         ". Install the device's OpenCL driver and libOpenCL.so.1 (Debian: ocl-icd-libopencl1; for a "
                         "processor pocl-opencl-icd), or compile the model with --target native");
    }
    Api found{};
    find(library, "clGetPlatformIDs", found.GetPlatformIDs);
    find(library, "clGetDeviceIDs", found.GetDeviceIDs);
    find(library, "clGetDeviceInfo", found.GetDeviceInfo);
    find(library, "clCreateContext", found.CreateContext);
    find(library, "clCreateCommandQueue", found.CreateCommandQueue);
    find(library, "clCreateProgramWithSource", found.CreateProgramWithSource);
    find(library, "clBuildProgram", found.BuildProgram);
    find(library, "clGetProgramBuildInfo", found.GetProgramBuildInfo);
    find(library, "clCreateKernel", found.CreateKernel);
    find(library, "clSetKernelArg", found.SetKernelArg);
    find(library, "clSetKernelArgSVMPointer", found.SetKernelArgSVMPointer);
    find(library, "clEnqueueNDRangeKernel", found.EnqueueNDRangeKernel);
    find(library, "clSVMAlloc", found.SVMAlloc);
    find(library, "clSVMFree", found.SVMFree);
    find(library, "clEnqueueSVMMemcpy", found.EnqueueSVMMemcpy);
    find(library, "clEnqueueSVMMemFill", found.EnqueueSVMMemFill);
    find(library, "clFinish", found.Finish);
    return found;
  }();
  return api;
}

} // namespace quern::runtime::opencl
