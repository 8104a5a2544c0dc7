// Takes: nothing. Gives: the driver's functions.
#include "runtime/device/opencl/OpenCl.h"

#include "runtime/device/DriverLibrary.h"

namespace quern::runtime::opencl {

const Api &openApi() {
  static const Api api = [] {
    DriverLibrary library("an OpenCL device", "libOpenCL.so.1", "QUERN_OPENCL_LIBRARY",
                          "Install the device's OpenCL driver and libOpenCL.so.1 (Debian: ocl-icd-libopencl1; for a "
                          "processor pocl-opencl-icd), or compile the model with --target native");
    Api found{};
    library.find("clGetPlatformIDs", found.GetPlatformIDs, "OpenCL 2.0");
    library.find("clGetDeviceIDs", found.GetDeviceIDs, "OpenCL 2.0");
    library.find("clGetDeviceInfo", found.GetDeviceInfo, "OpenCL 2.0");
    library.find("clCreateContext", found.CreateContext, "OpenCL 2.0");
    library.find("clCreateCommandQueue", found.CreateCommandQueue, "OpenCL 2.0");
    library.find("clCreateProgramWithSource", found.CreateProgramWithSource, "OpenCL 2.0");
    library.find("clBuildProgram", found.BuildProgram, "OpenCL 2.0");
    library.find("clGetProgramBuildInfo", found.GetProgramBuildInfo, "OpenCL 2.0");
    library.find("clCreateKernel", found.CreateKernel, "OpenCL 2.0");
    library.find("clSetKernelArg", found.SetKernelArg, "OpenCL 2.0");
    library.find("clSetKernelArgSVMPointer", found.SetKernelArgSVMPointer, "OpenCL 2.0");
    library.find("clEnqueueNDRangeKernel", found.EnqueueNDRangeKernel, "OpenCL 2.0");
    library.find("clSVMAlloc", found.SVMAlloc, "OpenCL 2.0");
    library.find("clSVMFree", found.SVMFree, "OpenCL 2.0");
    library.find("clEnqueueSVMMemcpy", found.EnqueueSVMMemcpy, "OpenCL 2.0");
    library.find("clEnqueueSVMMemFill", found.EnqueueSVMMemFill, "OpenCL 2.0");
    library.find("clEnqueueMarkerWithWaitList", found.EnqueueMarkerWithWaitList, "OpenCL 2.0");
    library.find("clGetEventProfilingInfo", found.GetEventProfilingInfo, "OpenCL 2.0");
    library.find("clReleaseEvent", found.ReleaseEvent, "OpenCL 2.0");
    library.find("clFinish", found.Finish, "OpenCL 2.0");
    return found;
  }();
  return api;
}

} // namespace quern::runtime::opencl
