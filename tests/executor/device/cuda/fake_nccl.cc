#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/executor/device/cuda/fake_runtime.h"

namespace parplan {

FakeNccl& TheFakeNccl() {
  static FakeNccl fake;
  return fake;
}

namespace {

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
  std::shared_ptr<fake::Item> item;
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

size_t SizeOf(ncclDataType_t type) {
  return type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : type == ncclBfloat16 ? 2 : 1;
}

// Numbers are fp32 in the tests that look at them.
void Reduce(std::vector<float>& sum, const char* from, size_t count, ncclRedOp_t reduction) {
  const auto* const numbers = reinterpret_cast<const float*>(from);
  for (size_t i = 0; i < count; ++i) {
    sum[i] = reduction == ncclSum ? sum[i] + numbers[i] : std::max(sum[i], numbers[i]);
  }
}

// The collective that all ranks have begun. Ranks that call different ones never end, as on a GPU;
// false then.
bool Execute(const Launches& all) {
  const int size = static_cast<int>(all.size());
  const Call& first = all[0]->calls[0];
  for (const std::shared_ptr<Launch>& launch : all) {
    const Call& call = launch->calls[0];
    if (call.kind != first.kind || call.count != first.count || call.type != first.type)
      return false;
  }
  const size_t bytes = first.count * SizeOf(first.type);
  const bool is_number = first.type == ncclFloat32;
  if (first.kind == Kind::kAllReduce || first.kind == Kind::kReduceScatter) {
    const size_t count = first.count * (first.kind == Kind::kAllReduce ? 1 : size);
    if (is_number) {
      const auto* const begin = reinterpret_cast<const float*>(first.send);
      std::vector<float> sum(begin, begin + count);
      for (int r = 1; r < size; ++r) Reduce(sum, all[r]->calls[0].send, count, first.reduction);
      for (int r = 0; r < size; ++r) {
        const size_t offset = first.kind == Kind::kAllReduce ? 0 : r * first.count;
        std::memcpy(all[r]->calls[0].receive, sum.data() + offset, bytes);
      }
    }
  } else if (first.kind == Kind::kAllGather) {
    std::string whole;
    for (int r = 0; r < size; ++r) whole.append(all[r]->calls[0].send, bytes);
    for (int r = 0; r < size; ++r) {
      std::memcpy(all[r]->calls[0].receive, whole.data(), whole.size());
    }
  } else {
    const std::string told(all[first.peer]->calls[0].send, bytes);
    for (int r = 0; r < size; ++r) std::memcpy(all[r]->calls[0].receive, told.data(), bytes);
  }
  for (const std::shared_ptr<Launch>& launch : all) {
    launch->open_count = 0;
    fake::Finish(*launch->item);
  }
  return true;
}

bool HasBegun(const std::shared_ptr<Launch>& launch) {
  return launch != nullptr && launch->item->has_begun && !launch->is_aborted;
}

void Close(Launch& launch) {
  if (--launch.open_count == 0) fake::Finish(*launch.item);
}

// Ends the message `key` of the clique if both sides have begun it.
void Exchange(Clique& clique, const std::tuple<int, int, int>& key) {
  const auto found = clique.messages.find(key);
  if (found == clique.messages.end()) return;
  const Message& message = found->second;
  if (!HasBegun(message.sender) || !HasBegun(message.receiver)) return;
  std::memcpy(message.receive.receive, message.send.send,
              message.send.count * SizeOf(message.send.type));
  const Message done = message;
  clique.messages.erase(found);
  Close(*done.sender);
  Close(*done.receiver);
}

std::map<std::string, std::shared_ptr<Clique>> cliques;
// Wakes aborts that wait for others.
std::condition_variable aborting;
thread_local int group_depth = 0;
thread_local std::vector<std::pair<ncclComm_t, Call>> group_calls;
thread_local cudaStream_t group_stream = nullptr;

}  // namespace

void fake::ForgetCliques() { cliques.clear(); }

}  // namespace parplan

struct ncclComm {
  std::shared_ptr<parplan::Clique> clique;
  int rank = 0;
  int split_count = 0;
  // The device, and the memory that is taken of it.
  int device = 0;
  size_t memory = 0;
  bool is_made = false;
  bool is_aborted = false;
  // Calls that wait for others, and those that take their time.
  int caller_count = 0;
  int slow_call_count = 0;
  parplan::Launches launches;
};

namespace {

using parplan::Call;
using parplan::Clique;
using parplan::Kind;
using parplan::Launch;
using parplan::TheFakeNccl;

// Called with the mutex of the fakes.
void TakeMemory(ncclComm_t comm, size_t size) {
  comm->memory += size;
  parplan::fake::TakeMemory(comm->device, size);
}

ncclComm_t Join(std::shared_ptr<Clique> clique, int rank, int size) {
  auto* const comm = new ncclComm;
  if (clique->size == 0) {
    clique->size = size;
    clique->collective_counts.resize(size);
  }
  ++clique->joined;
  comm->clique = std::move(clique);
  comm->rank = rank;
  ++TheFakeNccl().made;
  // NCCL has streams of its own.
  parplan::fake::TakeQueues(2);
  comm->device = parplan::fake::CurrentDevice();
  TakeMemory(comm, parplan::fake::kCommunicator);
  return comm;
}

// Runs what a test puts into calls. Returns whether the communicator lives on.
bool TakeTime(ncclComm_t comm) {
  if (!TheFakeNccl().within_call) return true;
  std::unique_lock<std::mutex> lock(parplan::fake::mutex);
  ++comm->slow_call_count;
  lock.unlock();
  TheFakeNccl().within_call();
  lock.lock();
  --comm->slow_call_count;
  comm->clique->changed.notify_all();
  return !comm->is_aborted;
}

ncclResult_t Put(ncclComm_t comm, const Call& call, cudaStream_t stream) {
  parplan::fake::TakeLaunchTime();
  if (TheFakeNccl().calls_block) {
    std::unique_lock<std::mutex> lock(parplan::fake::mutex);
    ++comm->caller_count;
    comm->clique->changed.wait(lock, [&] { return comm->is_aborted; });
    --comm->caller_count;
    comm->clique->changed.notify_all();
    return ncclInternalError;
  }
  if (!TakeTime(comm)) return ncclInternalError;
  parplan::group_calls.push_back({comm, call});
  parplan::group_stream = stream;
  if (parplan::group_depth > 0) return ncclSuccess;
  return ::ncclGroupEnd();
}

// Called with the mutex of the fakes.
ncclResult_t EndLocked(ncclComm_t comm) {
  Clique& clique = *comm->clique;
  ++TheFakeNccl().ended;
  parplan::fake::GiveMemoryBack(comm->device, comm->memory);
  if (++clique.ended == clique.size && !clique.is_used) TheFakeNccl().unused += clique.size;
  // Running operations end and leave arbitrary data in their buffers.
  for (const std::shared_ptr<Launch>& launch : comm->launches) {
    if (launch->item->is_over) continue;
    launch->is_aborted = true;
    if (launch->item->has_begun) parplan::fake::Finish(*launch->item);
  }
  parplan::fake::Advance();
  return ncclSuccess;
}

ncclResult_t End(ncclComm_t comm, bool awaits_others) {
  const std::shared_ptr<Clique> clique = comm->clique;
  std::unique_lock<std::mutex> lock(parplan::fake::mutex);
  ++clique->left;
  clique->changed.notify_all();
  if (awaits_others) {
    clique->changed.wait(lock, [&] { return clique->left == clique->size; });
  }
  if (!comm->is_made) {
    // The thread that makes it sees this, and destroys it.
    comm->is_aborted = true;
    clique->changed.notify_all();
    return ncclSuccess;
  }
  if (comm->slow_call_count > 0) ++TheFakeNccl().ended_within_calls;
  if (comm->caller_count + comm->slow_call_count > 0) {
    comm->is_aborted = true;
    clique->changed.notify_all();
    clique->changed.wait(lock, [&] { return comm->caller_count + comm->slow_call_count == 0; });
  }
  EndLocked(comm);
  delete comm;
  return ncclSuccess;
}

// Waits for the other ranks.
ncclResult_t AwaitOthers(std::unique_lock<std::mutex>& lock, ncclComm_t& comm) {
  ncclComm_t const made = comm;
  const std::shared_ptr<Clique> clique = made->clique;
  if (clique->joined == clique->size) clique->changed.notify_all();
  clique->changed.wait(lock, [&] { return made->is_aborted || clique->joined == clique->size; });
  made->is_made = true;
  if (!made->is_aborted) return ncclSuccess;
  EndLocked(made);
  delete made;
  comm = nullptr;
  return ncclInternalError;
}

// Connects the sides of the calls' first messages. Returns whether the communicator lives on.
bool Connect(std::unique_lock<std::mutex>& lock, ncclComm_t comm, const std::vector<Call>& calls) {
  std::vector<std::tuple<bool, int, int>> others;
  for (const Call& call : calls) {
    const bool sends = call.kind == Kind::kSend;
    if ((!sends && call.kind != Kind::kReceive) || call.peer == comm->rank) continue;
    const int from = sends ? comm->rank : call.peer;
    const int to = sends ? call.peer : comm->rank;
    if (!comm->clique->connected.insert({sends, from, to}).second) continue;
    ++TheFakeNccl().connections;
    others.emplace_back(!sends, from, to);
  }
  if (others.empty() || !TheFakeNccl().first_messages_block) return true;
  const auto is_connected = [&](const auto& side) {
    return comm->clique->connected.contains(side);
  };
  ++comm->caller_count;
  comm->clique->changed.notify_all();
  comm->clique->changed.wait(lock, [&] {
    return comm->is_aborted || std::all_of(others.begin(), others.end(), is_connected);
  });
  --comm->caller_count;
  comm->clique->changed.notify_all();
  return !comm->is_aborted;
}

// Runs when a stream has come to `launch`.
void Begin(const std::shared_ptr<Clique>& clique, const std::shared_ptr<Launch>& launch,
           const std::vector<std::tuple<int, int, int>>& keys, int number) {
  if (launch->is_aborted) return parplan::fake::Finish(*launch->item);
  if (number >= 0) {
    const parplan::Launches all = clique->collectives[number];
    if (std::all_of(all.begin(), all.end(), parplan::HasBegun) && parplan::Execute(all)) {
      clique->collectives.erase(number);
    }
    return;
  }
  for (const auto& key : keys) parplan::Exchange(*clique, key);
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "some error of NCCL";
}
const char* ncclGetLastError(ncclComm_t) { return "the fake was told to"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> count = 0;
  std::memset(id->internal, 0, sizeof(id->internal));
  std::snprintf(id->internal, sizeof(id->internal), "fake %d", count++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 1) return ncclInvalidArgument;
  if (TheFakeNccl().make_result != ncclSuccess) return TheFakeNccl().make_result;
  std::unique_lock<std::mutex> lock(parplan::fake::mutex);
  auto& clique = parplan::cliques[id.internal];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  *comm = Join(clique, rank, size);
  return AwaitOthers(lock, *comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  ++TheFakeNccl().looks;
  *state = TheFakeNccl().state;
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t*) {
  if (!TakeTime(comm)) return ncclInternalError;
  std::unique_lock<std::mutex> lock(parplan::fake::mutex);
  Clique& clique = *comm->clique;
  clique.is_used = true;
  const int split = comm->split_count++;
  auto& choices = clique.splits[split];
  choices[comm->rank] = {color, key};
  clique.changed.notify_all();
  ++comm->caller_count;
  clique.changed.wait(
      lock, [&] { return comm->is_aborted || static_cast<int>(choices.size()) == clique.size; });
  --comm->caller_count;
  clique.changed.notify_all();
  if (comm->is_aborted) return ncclInternalError;
  if (color < 0) return ncclSuccess;
  int rank = 0;
  int size = 0;
  for (const auto& [other, choice] : choices) {
    if (choice.first != color) continue;
    ++size;
    if (std::pair(choice.second, other) < std::pair(key, comm->rank)) ++rank;
  }
  auto& shared = clique.parts[{split, color}];
  if (shared == nullptr) shared = std::make_shared<Clique>();
  *part = Join(shared, rank, size);
  return AwaitOthers(lock, *part);
}
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t comm, int* size) {
  *size = comm->clique->size;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    std::unique_lock<std::mutex> lock(parplan::fake::mutex);
    ++TheFakeNccl().aborted;
    parplan::aborting.notify_all();
    parplan::aborting.wait(lock,
                           [] { return TheFakeNccl().aborted >= TheFakeNccl().aborts_at_once; });
  }
  return End(comm, /*awaits_others=*/false);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return End(comm, /*awaits_others=*/true); }

ncclResult_t ncclGroupStart() {
  ++parplan::group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (parplan::group_depth > 0) --parplan::group_depth;
  if (parplan::group_depth > 0 || parplan::group_calls.empty()) return ncclSuccess;
  std::unique_lock<std::mutex> lock(parplan::fake::mutex);
  ncclComm_t const comm = parplan::group_calls.front().first;
  const std::shared_ptr<Clique> clique = comm->clique;
  auto launch = std::make_shared<Launch>();
  launch->item = std::make_shared<parplan::fake::Item>();
  for (const auto& [unused, call] : parplan::group_calls) launch->calls.push_back(call);
  parplan::group_calls.clear();
  if (!Connect(lock, comm, launch->calls)) return ncclInternalError;
  launch->open_count = launch->calls.size();
  ++TheFakeNccl().operations;
  clique->is_used = true;
  if (comm->memory == parplan::fake::kCommunicator) TakeMemory(comm, parplan::fake::kConnections);
  std::erase_if(comm->launches, [](const auto& old) { return old->item->is_over; });
  comm->launches.push_back(launch);
  const Kind kind = launch->calls.front().kind;
  const bool is_message = kind == Kind::kSend || kind == Kind::kReceive;
  int number = -1;
  std::vector<std::tuple<int, int, int>> keys;
  if (!is_message) {
    number = clique->collective_counts[comm->rank]++;
    clique->collectives[number].resize(clique->size);
    clique->collectives[number][comm->rank] = launch;
  }
  for (const Call& call : launch->calls) {
    if (!is_message) break;
    const bool sends = call.kind == Kind::kSend;
    const std::pair<int, int> way =
        sends ? std::pair(comm->rank, call.peer) : std::pair(call.peer, comm->rank);
    const int count = clique->message_counts[{sends, way.first, way.second}]++;
    keys.emplace_back(way.first, way.second, count);
    parplan::Message& message = clique->messages[keys.back()];
    (sends ? message.sender : message.receiver) = launch;
    (sends ? message.send : message.receive) = call;
  }
  parplan::fake::Item& item = *launch->item;
  item.name = is_message ? "messages" : "collective";
  item.is_open = true;
  item.run = [clique, keys, number, weak = std::weak_ptr(launch)] {
    if (const auto own = weak.lock()) Begin(clique, own, keys, number);
  };
  item.missing = [clique, keys, number] {
    std::vector<std::shared_ptr<parplan::fake::Item>> missing;
    const auto add = [&](const std::shared_ptr<Launch>& other) {
      if (other != nullptr && !other->item->has_begun) missing.push_back(other->item);
    };
    if (number >= 0) {
      for (const auto& other : clique->collectives[number]) add(other);
    }
    for (const auto& key : keys) {
      const auto message = clique->messages.find(key);
      if (message == clique->messages.end()) continue;
      add(message->second.sender);
      add(message->second.receiver);
    }
    return missing;
  };
  parplan::fake::Submit(*parplan::fake::StreamOf(parplan::group_stream), launch->item);
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return Put(comm,
             {Kind::kAllReduce, static_cast<const char*>(send), static_cast<char*>(receive), count,
              type, reduction, 0},
             stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Put(comm,
             {Kind::kAllGather, static_cast<const char*>(send), static_cast<char*>(receive), count,
              type, ncclSum, 0},
             stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return Put(comm,
             {Kind::kReduceScatter, static_cast<const char*>(send), static_cast<char*>(receive),
              count, type, reduction, 0},
             stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return Put(comm,
             {Kind::kBroadcast, static_cast<const char*>(send), static_cast<char*>(receive), count,
              type, ncclSum, root},
             stream);
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Put(comm,
             {Kind::kSend, static_cast<const char*>(send), nullptr, count, type, ncclSum, peer},
             stream);
}
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Put(comm,
             {Kind::kReceive, nullptr, static_cast<char*>(receive), count, type, ncclSum, peer},
             stream);
}
