// A CUDA runtime and an NCCL made of the process's own memory and threads, so that our host code
// for them runs without a GPU. Tests can make them fail.
//
// Work is done when it is submitted. An operation of NCCL is done when the last of its ranks has
// submitted it; until then its stream, and the streams that wait for it, block. As in NCCL, the
// operations of a communicator run in the order in which they started.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_CUDA_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_CUDA_H_

#include <nccl.h>

#include <atomic>

namespace parplan {

// Settings of all communicators; set before they are made.
struct FakeNccl {
  // So many questions after each call are answered with `ncclInProgress`.
  std::atomic<int> patience = 0;
  // Result of an attempt to make a communicator.
  std::atomic<ncclResult_t> make_result = ncclSuccess;
  // Asynchronous error of an existing communicator.
  std::atomic<ncclResult_t> state = ncclSuccess;
  // Counted.
  std::atomic<int> made = 0;
  std::atomic<int> ended = 0;
  std::atomic<int> aborted = 0;
};
FakeNccl& TheFakeNccl();
// Restores the initial state.
void ResetFakeNccl();

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_CUDA_H_
