#include "tests/executor/device/cuda/fake_runtime.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "tests/executor/device/cuda/fake_cuda.h"

namespace parplan {

FakeCuda& TheFakeCuda() {
  static FakeCuda fake;
  return fake;
}

namespace fake {

std::mutex mutex;

namespace {

struct Device {
  std::vector<std::unique_ptr<Queue>> queues;
  int taken = 0;
  size_t taken_memory = 0;
  int open_count = 0;
  int thread_count = 0;
};

std::map<int, Device> devices;
std::set<Stream*> streams;
// Queues whose head may have become able to begin.
std::deque<Queue*> ready;
// A thread that waits for work. Each is woken by itself: woken all at once, the many ranks of a job
// would do little else.
struct Host {
  absl::FunctionRef<bool()> is_over;
  std::condition_variable changed;
};
std::set<Host*> waiting_hosts;
thread_local int device = 0;
thread_local cudaError_t last_error = cudaSuccess;

Queue* NextQueue() {
  Device& own = devices[device];
  while (static_cast<int>(own.queues.size()) < TheFakeCuda().queue_count) {
    own.queues.push_back(std::make_unique<Queue>());
  }
  return own.queues[own.taken++ % own.queues.size()].get();
}

void End(Item& item) {
  item.is_over = true;
  if (item.is_open) --devices[item.stream->device].open_count;
  // It may only be over after earlier work of its stream.
  item.stream->items.pop_front();
  ready.push_back(item.stream->queue);
  for (Queue* const queue : item.waiting) ready.push_back(queue);
  item.waiting.clear();
}

// Begins what is at the head of `queue`, while it can.
void Run(Queue& queue) {
  while (!queue.items.empty()) {
    const std::shared_ptr<Item> item = queue.items.front();
    if (item->stream->items.front() != item) return;
    if (item->awaited != nullptr && !item->awaited->is_over) {
      item->awaited->waiting.push_back(&queue);
      return;
    }
    queue.items.pop_front();
    item->has_begun = true;
    if (!item->is_open) {
      if (item->run) item->run();
      End(*item);
    } else {
      const int open_count = ++devices[item->stream->device].open_count;
      if (open_count > TheFakeCuda().most_open) TheFakeCuda().most_open = open_count;
      item->run();
    }
  }
}

// Returns the item that `item`, which is not over, waits for; null if that was not submitted.
std::shared_ptr<Item> CauseOf(const std::shared_ptr<Item>& item, std::string& text) {
  const auto say = [&](const char* why, const std::shared_ptr<Item>& cause) {
    absl::StrAppend(&text, item->name, why, cause->name, "; ");
    return cause;
  };
  if (item->has_begun) {
    for (const std::shared_ptr<Item>& cause : item->missing()) {
      if (cause != nullptr) return say(" waits for its peer ", cause);
    }
    absl::StrAppend(&text, item->name, " waits for a peer that was not queued");
    return nullptr;
  }
  if (item->stream->queue->items.front() != item) {
    return say(" is queued behind ", item->stream->queue->items.front());
  }
  if (item->stream->items.front() != item) {
    return say(" comes in its stream after ", item->stream->items.front());
  }
  if (item->awaited != nullptr && !item->awaited->is_over) {
    return say(" waits for ", item->awaited);
  }
  absl::StrAppend(&text, item->name, " could run");
  return nullptr;
}

// Runs what can run until `is_over` holds.
void AwaitOnHost(std::unique_lock<std::mutex>& lock, absl::FunctionRef<bool()> is_over) {
  ++TheFakeCuda().host_waits;
  Host host{.is_over = is_over};
  waiting_hosts.insert(&host);
  Advance();
  host.changed.wait(lock, is_over);
  waiting_hosts.erase(&host);
}

std::shared_ptr<Item> Named(std::string name) {
  auto item = std::make_shared<Item>();
  item->name = std::move(name);
  return item;
}

}  // namespace

std::shared_ptr<Item> Submit(Stream& stream, std::shared_ptr<Item> item) {
  item->stream = &stream;
  absl::StrAppend(&item->name, " of device ", stream.device);
  stream.items.push_back(item);
  stream.queue->items.push_back(item);
  ready.push_back(stream.queue);
  // The time at which it runs shows only where a host waits.
  if (!waiting_hosts.empty()) Advance();
  return item;
}

void Finish(Item& item) { End(item); }

void Advance() {
  const bool has_work = !ready.empty();
  while (!ready.empty()) {
    Queue* const queue = ready.front();
    ready.pop_front();
    Run(*queue);
  }
  if (!has_work) return;
  for (Host* const host : waiting_hosts) {
    if (host->is_over()) host->changed.notify_one();
  }
}

void TakeLaunchTime() {
  ++TheFakeCuda().host_calls;
  const int most = TheFakeCuda().launch_latency;
  if (most == 0) return;
  thread_local std::mt19937 random = [] {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto thread = static_cast<uint32_t>(devices[device].thread_count++);
    return std::mt19937(TheFakeCuda().launch_seed * 1024 + static_cast<uint32_t>(device) * 16 +
                        thread);
  }();
  if (random() % static_cast<uint32_t>(TheFakeCuda().launch_share) != 0) return;
  std::this_thread::sleep_for(
      std::chrono::microseconds(random() % static_cast<uint32_t>(most + 1)));
}

int CurrentDevice() { return device; }
void TakeMemory(int device, size_t size) { devices[device].taken_memory += size; }
void GiveMemoryBack(int device, size_t size) { devices[device].taken_memory -= size; }

void TakeQueues(int count) {
  for (int i = 0; i < count; ++i) NextQueue();
}

}  // namespace fake

std::string DescribeHang() {
  const std::lock_guard<std::mutex> lock(fake::mutex);
  fake::Advance();
  std::string longest;
  for (const fake::Stream* const stream : fake::streams) {
    if (stream->items.empty()) continue;
    std::string text;
    std::set<fake::Item*> seen;
    std::shared_ptr<fake::Item> item = stream->items.front();
    while (item != nullptr && seen.insert(item.get()).second) item = fake::CauseOf(item, text);
    if (item != nullptr) return absl::StrCat(text, "in a circle");
    if (text.size() > longest.size()) longest = text;
  }
  return longest;
}

void ResetFakes() {
  const std::lock_guard<std::mutex> lock(fake::mutex);
  fake::devices.clear();
  fake::ready.clear();
  fake::ForgetCommunicators();
  TheFakeCuda().queue_count = 8;
  TheFakeCuda().records_block = true;
  TheFakeCuda().host_calls = 0;
  TheFakeCuda().host_waits = 0;
  TheFakeCuda().allocations = 0;
  TheFakeCuda().allocated_bytes = 0;
  TheFakeCuda().most_open = 0;
  TheFakeCuda().launch_latency = 0;
  TheFakeCuda().launch_share = 8;
  TheFakeCuda().launch_seed = 0;
  TheFakeCuda().has_virtual_memory = true;
  FakeNccl& fake = TheFakeNccl();
  fake.is_missing = false;
  fake.make_result = ncclSuccess;
  fake.state = ncclSuccess;
  fake.aborts_at_once = 1;
  fake.calls_block = false;
  fake.first_messages_block = false;
  fake.records_ends = false;
  fake.within_call = nullptr;
  for (std::atomic<int>* const count :
       {&fake.made, &fake.ended, &fake.aborted, &fake.unused, &fake.operations, &fake.connections,
        &fake.ended_within_calls, &fake.looks}) {
    *count = 0;
  }
}

}  // namespace parplan

using parplan::TheFakeCuda;
using parplan::fake::AwaitOnHost;
using parplan::fake::Event;
using parplan::fake::EventOf;
using parplan::fake::Item;
using parplan::fake::mutex;
using parplan::fake::Named;
using parplan::fake::Stream;
using parplan::fake::StreamOf;
using parplan::fake::Submit;

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
cudaError_t cudaPeekAtLastError() { return parplan::fake::last_error; }
const char* cudaGetErrorName(cudaError_t) { return "fakeError"; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the fake"; }

cudaError_t cudaMalloc(void** data, size_t size) {
  ++TheFakeCuda().allocations;
  TheFakeCuda().allocated_bytes += static_cast<int64_t>(size);
  *data = std::malloc(size);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = parplan::fake::FindDriverCall(name);
  *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const size_t held = parplan::fake::HeldBytes(parplan::fake::device);
  const std::lock_guard<std::mutex> lock(mutex);
  *total = parplan::fake::kMemory;
  *free = *total - parplan::fake::kContext - held -
          parplan::fake::devices[parplan::fake::device].taken_memory;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t size) { return ::cudaMalloc(data, size); }
cudaError_t cudaFreeHost(void* data) { return ::cudaFree(data); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto* const made = new Stream;
  made->device = parplan::fake::device;
  made->queue = parplan::fake::NextQueue();
  parplan::fake::streams.insert(made);
  *stream = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  parplan::fake::TakeLaunchTime();
  std::unique_lock<std::mutex> lock(mutex);
  const std::deque<std::shared_ptr<Item>>& items = StreamOf(stream)->items;
  const std::shared_ptr<Item> last = items.empty() ? nullptr : items.back();
  AwaitOnHost(lock, [&] { return last == nullptr || last->is_over; });
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex);
  parplan::fake::Advance();
  if (StreamOf(stream)->items.empty()) return cudaSuccess;
  parplan::fake::last_error = cudaErrorNotReady;
  return cudaErrorNotReady;
}
cudaError_t cudaDeviceSynchronize() {
  parplan::fake::TakeLaunchTime();
  std::unique_lock<std::mutex> lock(mutex);
  std::vector<std::shared_ptr<Item>> last;
  for (const Stream* const stream : parplan::fake::streams) {
    if (stream->device == parplan::fake::device && !stream->items.empty()) {
      last.push_back(stream->items.back());
    }
  }
  AwaitOnHost(lock, [&] {
    return std::all_of(last.begin(), last.end(), [](const auto& item) { return item->is_over; });
  });
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  static_cast<void>(::cudaStreamSynchronize(stream));
  const std::lock_guard<std::mutex> lock(mutex);
  parplan::fake::streams.erase(StreamOf(stream));
  delete StreamOf(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  parplan::fake::TakeLaunchTime();
  const std::lock_guard<std::mutex> lock(mutex);
  const std::shared_ptr<Item>& record = EventOf(event)->record;
  if (record == nullptr || record->is_over) return cudaSuccess;
  std::shared_ptr<Item> item = Named(absl::StrCat("wait for ", record->name));
  item->awaited = record;
  Submit(*StreamOf(stream), std::move(item));
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind,
                            cudaStream_t stream) {
  parplan::fake::TakeLaunchTime();
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Item> item = Named("copy");
  item->run = [=] { std::memcpy(to, from, size); };
  Submit(*StreamOf(stream), std::move(item));
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t size, cudaStream_t stream) {
  parplan::fake::TakeLaunchTime();
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Item> item = Named("set");
  item->run = [=] { std::memset(data, value, size); };
  Submit(*StreamOf(stream), std::move(item));
  return cudaSuccess;
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
  parplan::fake::TakeLaunchTime();
  const std::lock_guard<std::mutex> lock(mutex);
  Stream& own = *StreamOf(stream);
  if (!TheFakeCuda().records_block && !own.items.empty()) {
    EventOf(event)->record = own.items.back();
    return cudaSuccess;
  }
  const std::string before = own.items.empty() ? "nothing" : own.items.back()->name;
  EventOf(event)->record = Submit(own, Named(absl::StrCat("event after ", before)));
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard<std::mutex> lock(mutex);
  parplan::fake::Advance();
  const std::shared_ptr<Item>& record = EventOf(event)->record;
  if (record == nullptr || record->is_over) return cudaSuccess;
  parplan::fake::last_error = cudaErrorNotReady;
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::unique_lock<std::mutex> lock(mutex);
  const std::shared_ptr<Item> record = EventOf(event)->record;
  if (record != nullptr && !record->is_over) AwaitOnHost(lock, [&] { return record->is_over; });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1.0f;
  return cudaSuccess;
}
