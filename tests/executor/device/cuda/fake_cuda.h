// A CUDA runtime and an NCCL of the process's own memory and threads, so that what our host code
// does with them is run where there is no GPU; they can be told to fail.
//
// Work is done when it is given, but an operation of NCCL, when the last of its ranks has come
// to it; until then its stream, and those that wait for it, stand. As in NCCL, operations of a
// communicator run in the order of their start.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_CUDA_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_CUDA_H_

#include <nccl.h>

#include <atomic>

namespace parplan {

// Of all communicators; set before they are made.
struct FakeNccl {
  // So many questions after each call are answered with `ncclInProgress`.
  std::atomic<int> patience = 0;
  // What an attempt to make one gives.
  std::atomic<ncclResult_t> make_result = ncclSuccess;
  // What is said of one that is made.
  std::atomic<ncclResult_t> state = ncclSuccess;
  // Counted.
  std::atomic<int> made = 0;
  std::atomic<int> ended = 0;
  std::atomic<int> aborted = 0;
};
FakeNccl& TheFakeNccl();
// As it was in the beginning.
void ResetFakeNccl();

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_CUDA_H_
