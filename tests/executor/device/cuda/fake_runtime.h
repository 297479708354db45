// Streams and events of the fake runtime, for the fake NCCL.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_RUNTIME_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace parplan::fake {

// Guards everything of the fakes.
extern std::mutex mutex;
extern std::condition_variable changed;

// Something that takes until it is over.
struct Token {
  bool is_over = false;
};
using Tokens = std::vector<std::shared_ptr<Token>>;

struct Stream {
  // The work that it waits for.
  Tokens tokens;
};
struct Event {
  Tokens tokens;
};

inline Stream* StreamOf(cudaStream_t stream) { return reinterpret_cast<Stream*>(stream); }
inline Event* EventOf(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }

}  // namespace parplan::fake

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_RUNTIME_H_
