#include "tests/executor/device/cuda/fake_runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "executor/device/cuda/kernel_queue.h"
#include "executor/device/cuda/matrix_products.h"

namespace parplan {
namespace fake {

std::mutex mutex;
std::condition_variable changed;

namespace {

bool AreOver(const Tokens& tokens) {
  return std::all_of(tokens.begin(), tokens.end(),
                     [](const std::shared_ptr<Token>& token) { return token->is_over; });
}

thread_local int device = 0;
thread_local cudaError_t last_error = cudaSuccess;

}  // namespace
}  // namespace fake

namespace cuda {

// Products are not what is looked at.
struct MatrixProducts::Choice {};
absl::StatusOr<std::unique_ptr<MatrixProducts>> MatrixProducts::Create() {
  return std::unique_ptr<MatrixProducts>(new MatrixProducts());
}
MatrixProducts::~MatrixProducts() = default;
absl::Status MatrixProducts::Multiply(ElementType, const MatrixProduct&, cudaStream_t) {
  return absl::InternalError("the fake multiplies nothing");
}
void LaunchSimpleProduct(ElementType, const MatrixProduct&, KernelQueue&) {}
std::unique_ptr<LayerKernels> MakeDeviceKernels(ElementType, KernelQueue&) { return nullptr; }

}  // namespace cuda
}  // namespace parplan

using parplan::fake::AreOver;
using parplan::fake::changed;
using parplan::fake::Event;
using parplan::fake::EventOf;
using parplan::fake::mutex;
using parplan::fake::Stream;
using parplan::fake::StreamOf;

cudaError_t cudaSetDevice(int device) {
  parplan::fake::device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* bus, int size, int device) {
  std::snprintf(bus, static_cast<size_t>(size), "0000:%02d:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  const cudaError_t error = parplan::fake::last_error;
  parplan::fake::last_error = cudaSuccess;
  return error;
}
const char* cudaGetErrorName(cudaError_t) { return "fakeError"; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the fake"; }

cudaError_t cudaMalloc(void** data, size_t size) {
  *data = std::malloc(size);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  std::free(data);
  return cudaSuccess;
}
// Pools hold nothing: memory comes from the host and goes back at once.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 1;
  return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  *pool = reinterpret_cast<cudaMemPool_t>(new int(0));
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  delete reinterpret_cast<int*>(pool);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  *static_cast<uint64_t*>(value) = 0;
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
cudaError_t cudaMallocFromPoolAsync(void** data, size_t size, cudaMemPool_t, cudaStream_t) {
  return ::cudaMalloc(data, size);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  // What was queued may still use the memory.
  static_cast<void>(::cudaStreamSynchronize(stream));
  return ::cudaFree(data);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = size_t{1} << 30;
  *total = size_t{3} << 29;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t size) { return ::cudaMalloc(data, size); }
cudaError_t cudaFreeHost(void* data) { return ::cudaFree(data); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new Stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete StreamOf(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return AreOver(StreamOf(stream)->tokens); });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard<std::mutex> lock(mutex);
  Stream& waiting = *StreamOf(stream);
  for (const auto& token : EventOf(event)->tokens) waiting.tokens.push_back(token);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind,
                            cudaStream_t stream) {
  // The copied range must be allocated.
  const cudaError_t waited = ::cudaStreamSynchronize(stream);
  std::memcpy(to, from, size);
  return waited;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t size, cudaStream_t stream) {
  const cudaError_t waited = ::cudaStreamSynchronize(stream);
  std::memset(data, value, size);
  return waited;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return ::cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete EventOf(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex);
  EventOf(event)->tokens = StreamOf(stream)->tokens;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (AreOver(EventOf(event)->tokens)) return cudaSuccess;
  parplan::fake::last_error = cudaErrorNotReady;
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return AreOver(EventOf(event)->tokens); });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1.0f;
  return cudaSuccess;
}
