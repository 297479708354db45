// A CUDA runtime and an NCCL made of the process's own memory, so that our host code for them runs
// without a GPU. It breaks what hardware breaks; tests can also make it fail.
//
// Work is done in the order of its stream. Streams share the hardware queues of their device: work
// at the head of a queue that waits for an event holds up what was queued behind it, of other
// streams too. An operation of NCCL begins when its stream comes to it, and ends when its peers'
// have begun; operations that ranks start in different orders never end. A communicator is
// destroyed when all of its ranks have said so, or have aborted it. When work runs has no influence
// on what can run, so no thread of a device is needed: work runs within calls of the runtime, as
// late as a host may notice.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_CUDA_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_CUDA_H_

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace parplan {

struct FakeCuda {
  // Hardware queues of every device, as CUDA_DEVICE_MAX_CONNECTIONS sets them. Streams take them in
  // turn. Set before the first stream is made.
  std::atomic<int> queue_count = 8;
  // Whether the record of an event holds up its queue until the work before it in its stream is
  // over. Waits for events always do. Programs that reduce beside products with one queue
  // (Megatron-LM) say that it does not; no GPU was asked.
  std::atomic<bool> records_block = true;
  // Counted: calls that give work to a device or wait for it, those of NCCL too; and among them
  // calls by which a host waits for work that is not over.
  std::atomic<int> host_calls = 0;
  std::atomic<int> host_waits = 0;
  // Counted: calls by which a host gets memory of a device, or such of its own that devices see;
  // and how much, with chunks of virtual memory.
  std::atomic<int> allocations = 0;
  std::atomic<int64_t> allocated_bytes = 0;
  // The most operations of NCCL of one device that had begun and not ended, as far as work was run.
  // Each holds multiprocessors of a GPU meanwhile.
  std::atomic<int> most_open = 0;
  // One in `launch_share` of the calls that give work to a device takes up to so many microseconds,
  // which `launch_seed` draws for each thread; 0: none. Set before the threads that call are
  // started.
  std::atomic<int> launch_latency = 0;
  std::atomic<int> launch_share = 8;
  std::atomic<uint32_t> launch_seed = 0;
  // Whether devices have virtual memory. Set before they are opened.
  std::atomic<bool> has_virtual_memory = true;
};
FakeCuda& TheFakeCuda();

// Settings of all communicators; set before they are made.
struct FakeNccl {
  // Whether the library is nowhere.
  std::atomic<bool> is_missing = false;
  // Result of an attempt to make a communicator.
  std::atomic<ncclResult_t> make_result = ncclSuccess;
  // Asynchronous error of an existing communicator.
  std::atomic<ncclResult_t> state = ncclSuccess;
  // An abort returns only when so many have begun, as where operations of several communicators
  // wait for each other on a GPU.
  std::atomic<int> aborts_at_once = 1;
  // Operations do not return until their communicator is aborted, as where NCCL waits for others.
  std::atomic<bool> calls_block = false;
  // The first message of a pair returns when both sides have called it, as where NCCL connects
  // them.
  std::atomic<bool> first_messages_block = false;
  // An event is recorded behind each operation, as NCCL does (`ncclLaunchFinish`).
  std::atomic<bool> records_ends = false;
  // Runs within every call of an operation or a split; none if empty. Set while no call is under
  // way.
  std::function<void()> within_call;
  // Counts of communicators of one rank, of those among them whose group has had no call, and of
  // operations given to streams, a group call as one; and of first messages, each side as one.
  std::atomic<int> made = 0;
  std::atomic<int> ended = 0;
  std::atomic<int> aborted = 0;
  std::atomic<int> unused = 0;
  std::atomic<int> operations = 0;
  std::atomic<int> connections = 0;
  // Communicators that ended while a call of theirs was under way that would have returned by
  // itself. NCCL frees what the call uses.
  std::atomic<int> ended_within_calls = 0;
  // Questions for the asynchronous errors of communicators.
  std::atomic<int> looks = 0;
};
FakeNccl& TheFakeNccl();
// Returns how many communicators ranks on this device have made.
int CommunicatorsMadeOn(int device);
// Restores the initial state of both. No stream may be left.
void ResetFakes();

// Returns what waits for what, from the first work that cannot run on; empty if all has run. Ends
// with `in a circle` where the wait leads back to itself.
std::string DescribeHang();

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_CUDA_H_
