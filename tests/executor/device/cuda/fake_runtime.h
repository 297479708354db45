// Streams of the fake runtime, for the fake NCCL, and the functions of the fake driver.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_RUNTIME_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace parplan::fake {

// Guards everything of the fakes.
extern std::mutex mutex;

struct Stream;
struct Queue;

// Work of a stream.
struct Item {
  // For messages.
  std::string name;
  Stream* stream = nullptr;
  // Runs when the stream comes to it.
  std::function<void()> run;
  // The work that must be over first, besides earlier work; for waits.
  std::shared_ptr<Item> awaited;
  // Ends only when `Finish` is called, rather than when it has run.
  bool is_open = false;
  bool has_begun = false;
  bool is_over = false;
  // Lists what an open item waits for, for messages.
  std::function<std::vector<std::shared_ptr<Item>>()> missing;
  // Queues whose head waits for it.
  std::vector<Queue*> waiting;
};

// Work that has not begun, in the order in which it was submitted.
struct Queue {
  std::deque<std::shared_ptr<Item>> items;
};

struct Stream {
  int device = 0;
  Queue* queue = nullptr;
  // Work that is not over, in order.
  std::deque<std::shared_ptr<Item>> items;
};

struct Event {
  // The latest record; null if there was none.
  std::shared_ptr<Item> record;
};

inline Stream* StreamOf(cudaStream_t stream) { return reinterpret_cast<Stream*>(stream); }
inline Event* EventOf(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }

// Counts a call that gives work to a device, and takes the time of a launch.
void TakeLaunchTime();
// All others are called with `mutex`.
std::shared_ptr<Item> Submit(Stream& stream, std::shared_ptr<Item> item);
// Ends an open item that has begun.
void Finish(Item& item);
// Runs everything that can run, and wakes the hosts that waited for it.
void Advance();
// Returns the calling thread's device.
int CurrentDevice();
// Adds to the memory that is taken of a device besides arrays and its context, and takes from it.
void TakeMemory(int device, size_t size);
void GiveMemoryBack(int device, size_t size);
// Forgets by what communicators of NCCL ranks have met, and how many there were.
void ForgetCommunicators();
// Takes hardware queues of the calling thread's device, as streams of NCCL's own do.
void TakeQueues(int count);

// Memory of a device, and what the context and a communicator of NCCL take of it; the latter takes
// kConnections more with its first operation.
inline constexpr size_t kMemory = size_t{3} << 29;
inline constexpr size_t kCommunicator = size_t{6} << 20;
inline constexpr size_t kConnections = size_t{10} << 20;
inline constexpr size_t kContext = size_t{1} << 29;
// Returns the memory that chunks of virtual memory hold on a device. Called without `mutex`.
size_t HeldBytes(int device);
// Returns a function of the driver by its name; null if the fake has none.
void* FindDriverCall(const char* name);

}  // namespace parplan::fake

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_RUNTIME_H_
