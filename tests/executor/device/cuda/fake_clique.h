// The ranks of one communicator of the fake NCCL: what each has called, and who has met whom.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_CLIQUE_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_CLIQUE_H_

#include <nccl.h>

#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/executor/device/cuda/fake_runtime.h"

namespace parplan::fake {

enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSend, kReceive };

struct Call {
  Kind kind;
  const char* send;
  char* receive;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  // Root, or the other side.
  int peer;
};

// Calls of one rank that were given to a stream as one.
struct Launch {
  std::vector<Call> calls;
  std::shared_ptr<Item> item;
  // Calls whose peers have not begun.
  size_t open_count = 0;
  bool is_aborted = false;
};
using Launches = std::vector<std::shared_ptr<Launch>>;

// The two sides of a message: launches, and which of their calls.
struct Message {
  std::shared_ptr<Launch> sender;
  std::shared_ptr<Launch> receiver;
  Call send;
  Call receive;
};

// State shared by the ranks of a communicator.
struct Clique {
  // Wakes ranks that wait within a call for others of it.
  std::condition_variable changed;
  int size = 0;
  int joined = 0;
  int ended = 0;
  // Ranks that destroy it or have aborted it.
  int left = 0;
  bool is_used = false;
  // [rank] number of collectives so far.
  std::vector<int> collective_counts;
  // [number of the collective][rank]
  std::map<int, Launches> collectives;
  // [sends, sender, receiver] number of calls so far, and [sender, receiver, number].
  std::map<std::tuple<bool, int, int>, int> message_counts;
  std::map<std::tuple<int, int, int>, Message> messages;
  // Sides that have called the first message of a pair: sends, sender, receiver.
  std::set<std::tuple<bool, int, int>> connected;
  // Colors and keys: [split][rank].
  std::map<int, std::map<int, std::pair<int, int>>> splits;
  std::map<std::pair<int, int>, std::shared_ptr<Clique>> parts;
};

// Makes `launch`, with its calls, the next of `rank`, and gives its item what it does and waits
// for. The item is then to be submitted. Called with `mutex`.
void Enter(const std::shared_ptr<Clique>& clique, int rank, const std::shared_ptr<Launch>& launch);

}  // namespace parplan::fake

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_FAKE_CLIQUE_H_
