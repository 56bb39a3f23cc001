// A CUDA runtime whose device is the emulator: what host programs of CUTLASS call, for one process and one thread. Memory of the
// device is the host's own; kernels go to a function that Python sets.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "driver.hpp"

namespace {
using Launch = int (*)(char const* name, unsigned const* grid, unsigned const* block, unsigned const* cluster,
                       unsigned long shared, void** args);
using Allocate = void* (*)(unsigned long bytes);
Launch launch_kernel;
Allocate allocate;
int major, minor, multiprocessors;
std::map<void const*, std::string> names;  // of kernels, by the host's function
struct Call {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
} call;

cudaError_t launch(void const* kernel, dim3 grid, dim3 block, dim3 cluster, size_t shared, void** args) {
  unsigned g[] = {grid.x, grid.y, grid.z}, b[] = {block.x, block.y, block.z}, c[] = {cluster.x, cluster.y, cluster.z};
  auto found = names.find(kernel);
  if (found == names.end()) {
    // In example 79a g++ 12 and nvcc's front end come to different types for the kernel's arguments: g++ then fills in the
    // template that stands for a kernel without a stub, which launches nothing.
    std::fprintf(stderr, "emulator: a kernel that nobody registered\n");
    return cudaErrorInvalidDeviceFunction;
  }
  return launch_kernel(found->second.c_str(), g, b, c, shared, args) ? cudaErrorLaunchFailure : cudaSuccess;
}
}  // namespace

extern "C" {
void emulator_device(Launch run, Allocate get, int compute_major, int compute_minor, int count) {
  launch_kernel = run, allocate = get, major = compute_major, minor = compute_minor, multiprocessors = count;
}

void** __cudaRegisterFatBinary(void*) { return new void*(nullptr); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void**, char const* host, char*, char const* device, int, uint3*, uint3*, dim3*, dim3*, int*) {
  names[host] = device;
}
void __cudaRegisterVar(void**, char*, char*, char const*, int, size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  call = {grid, block, shared, static_cast<cudaStream_t>(stream)};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = call.grid, *block = call.block, *shared = call.shared, *static_cast<cudaStream_t*>(stream) = call.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, void const* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  return launch(kernel, grid, block, dim3(0, 0, 0), shared, args);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  return launch(kernel, grid, block, dim3(0, 0, 0), shared, args);
}
cudaError_t cudaLaunchKernel(void const* kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  return launch(kernel, grid, block, dim3(0, 0, 0), shared, args);
}
cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* config, void const* kernel, void** args) {
  dim3 cluster(0, 0, 0);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    auto const& each = config->attrs[i];
    if (each.id == cudaLaunchAttributeClusterDimension)
      cluster = dim3(each.val.clusterDim.x, each.val.clusterDim.y, each.val.clusterDim.z);
  }
  return launch(kernel, config->gridDim, config->blockDim, cluster, config->dynamicSmemBytes, args);
}

cudaError_t cudaMalloc(void** at, size_t bytes) { return *at = allocate(bytes), cudaSuccess; }
cudaError_t cudaMallocAsync(void** at, size_t bytes, cudaStream_t) { return cudaMalloc(at, bytes); }
cudaError_t cudaMallocManaged(void** at, size_t bytes, unsigned) { return cudaMalloc(at, bytes); }
cudaError_t cudaFree(void*) { return cudaSuccess; }
cudaError_t cudaFreeAsync(void*, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemcpy(void* to, void const* from, size_t n, cudaMemcpyKind) { return std::memcpy(to, from, n), cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* to, void const* from, size_t n, cudaMemcpyKind, cudaStream_t) {
  return std::memcpy(to, from, n), cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t n) { return std::memset(to, value, n), cudaSuccess; }
cudaError_t cudaMemsetAsync(void* to, int value, size_t n, cudaStream_t) { return std::memset(to, value, n), cudaSuccess; }

CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t n, CUstream) {
  return std::memset(reinterpret_cast<void*>(at), value, n), CUDA_SUCCESS;
}
CUresult cuMemsetD16Async(CUdeviceptr at, unsigned short value, size_t n, CUstream) {
  return std::fill_n(reinterpret_cast<unsigned short*>(at), n, value), CUDA_SUCCESS;
}
CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t n, CUstream) {
  return std::fill_n(reinterpret_cast<unsigned*>(at), n, value), CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, char const** text) { return *text = "an error of the emulator", CUDA_SUCCESS; }

cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
char const* cudaGetErrorString(cudaError_t) { return "an error of the emulator"; }
char const* cudaGetErrorName(cudaError_t) { return "an error of the emulator"; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13040, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13040, cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) { return *free = *total = size_t(1) << 34, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* of, int) {
  std::memset(of, 0, sizeof *of);
  std::strcpy(of->name, "the emulator");
  of->major = major, of->minor = minor, of->multiProcessorCount = multiprocessors;
  of->warpSize = 32, of->maxThreadsPerBlock = 1024, of->maxThreadsPerMultiProcessor = 2048;
  of->sharedMemPerBlock = 49152, of->sharedMemPerBlockOptin = 232448, of->sharedMemPerMultiprocessor = 233472;
  of->regsPerBlock = of->regsPerMultiprocessor = 65536, of->totalGlobalMem = size_t(1) << 34, of->l2CacheSize = 1 << 25;
  for (int i = 0; i < 3; ++i) of->maxGridSize[i] = i ? 65535 : 0x7FFFFFFF;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int) {
  switch (what) {
    case cudaDevAttrMultiProcessorCount: *value = multiprocessors; break;
    case cudaDevAttrComputeCapabilityMajor: *value = major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = minor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 232448; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 233472; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrClusterLaunch: *value = major >= 9; break;
    default: *value = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(void const*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* of, void const*) {
  std::memset(of, 0, sizeof *of);
  of->maxThreadsPerBlock = 1024, of->numRegs = 128, of->maxDynamicSharedSizeBytes = 232448;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void const*, int, size_t) {
  return *blocks = 1, cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void const*, int, size_t, unsigned) {
  return *blocks = 1, cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void const*, cudaLaunchConfig_t const*) {
  return *clusters = 1, cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* made) { return *made = nullptr, cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned) { return *made = nullptr, cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* made) { return *made = nullptr, cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned) { return *made = nullptr, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) { return *ms = 1, cudaSuccess; }
cudaError_t cudaGetDriverEntryPointByVersion(char const* name, void** entry, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  bool tiled = !std::strcmp(name, "cuTensorMapEncodeTiled"), known = tiled || !std::strcmp(name, "cuTensorMapEncodeIm2col");
  *entry = tiled ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled)
                 : known ? reinterpret_cast<void*>(&cuTensorMapEncodeIm2col) : nullptr;
  if (status) *status = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return known ? cudaSuccess : cudaErrorSymbolNotFound;
}
}
