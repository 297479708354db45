#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "executor/device/cuda/nccl_library.h"
#include "tests/executor/device/cuda/fake_clique.h"
#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/executor/device/cuda/fake_runtime.h"

namespace parplan {

FakeNccl& TheFakeNccl() {
  static FakeNccl fake;
  return fake;
}

namespace {

std::map<std::string, std::shared_ptr<fake::Clique>> cliques;
// [device] communicators that were made there.
std::map<int, int> made_on;
// Wakes aborts that wait for others.
std::condition_variable aborting;
thread_local int group_depth = 0;
thread_local std::vector<std::pair<ncclComm_t, fake::Call>> group_calls;
thread_local cudaStream_t group_stream = nullptr;

}  // namespace

void fake::ForgetCommunicators() {
  cliques.clear();
  made_on.clear();
}

int CommunicatorsMadeOn(int device) {
  const std::lock_guard<std::mutex> lock(fake::mutex);
  return made_on[device];
}

}  // namespace parplan

struct ncclComm {
  std::shared_ptr<parplan::fake::Clique> clique;
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
  parplan::fake::Launches launches;
  // The latest operation of all communicators that share resources with this one. NCCL has a stream
  // among those resources, for which each operation waits, and which then waits for it.
  std::shared_ptr<std::shared_ptr<parplan::fake::Item>> last =
      std::make_shared<std::shared_ptr<parplan::fake::Item>>();
};

namespace {

using parplan::TheFakeNccl;
using parplan::fake::Call;
using parplan::fake::Clique;
using parplan::fake::Kind;
using parplan::fake::Launch;

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
  ++parplan::made_on[comm->device];
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

}  // namespace

absl::Status parplan::cuda::OpenNccl() {
  if (!TheFakeNccl().is_missing) return absl::OkStatus();
  return absl::FailedPreconditionError("libnccl.so.2 cannot be loaded: the fake was told to");
}

const parplan::cuda::NcclLibrary& parplan::cuda::Nccl() {
  static const auto* const library = [] {
    auto* const made = new NcclLibrary;
#define PARPLAN_NCCL_TAKE(name) made->name = &::name
    PARPLAN_NCCL_FUNCTIONS(PARPLAN_NCCL_TAKE);
#undef PARPLAN_NCCL_TAKE
    return made;
  }();
  return *library;
}

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
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

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part,
                           ncclConfig_t* config) {
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
  if (config->splitShare == 1) (*part)->last = comm->last;
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
  ++TheFakeNccl().operations;
  clique->is_used = true;
  if (comm->memory == parplan::fake::kCommunicator) TakeMemory(comm, parplan::fake::kConnections);
  std::erase_if(comm->launches, [](const auto& old) { return old->item->is_over; });
  comm->launches.push_back(launch);
  parplan::fake::Stream& stream = *parplan::fake::StreamOf(parplan::group_stream);
  if (*comm->last != nullptr && !(*comm->last)->is_over && (*comm->last)->stream != &stream) {
    auto wait = std::make_shared<parplan::fake::Item>();
    wait->name = "wait for shared resources";
    wait->awaited = *comm->last;
    parplan::fake::Submit(stream, std::move(wait));
  }
  *comm->last = launch->item;
  Enter(clique, comm->rank, launch);
  parplan::fake::Submit(stream, launch->item);
  if (TheFakeNccl().records_ends && parplan::TheFakeCuda().records_block) {
    auto end = std::make_shared<parplan::fake::Item>();
    end->name = "event of NCCL";
    parplan::fake::Submit(stream, std::move(end));
  }
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
