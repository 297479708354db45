#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/executor/device/cuda/fake_runtime.h"

namespace parplan {

FakeNccl& TheFakeNccl() {
  static FakeNccl fake;
  return fake;
}

void ResetFakeNccl() {
  FakeNccl& fake = TheFakeNccl();
  fake.patience = 0;
  fake.make_result = ncclSuccess;
  fake.state = ncclSuccess;
  fake.made = 0;
  fake.ended = 0;
  fake.aborted = 0;
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

// Calls of one rank that belong together.
struct Launch {
  std::vector<Call> calls;
  std::shared_ptr<fake::Token> token;
};

// State shared by the ranks of a communicator.
struct Clique {
  int size = 0;
  int joined = 0;
  bool is_aborted = false;
  std::vector<std::deque<Launch>> launches;
  // Colors and keys of splits under way: [split][rank].
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

// All ranks' next launches, which are of the same operation.
void Execute(Clique& clique) {
  const int size = clique.size;
  std::vector<Launch> all;
  for (auto& queue : clique.launches) {
    all.push_back(std::move(queue.front()));
    queue.pop_front();
  }
  const Call& first = all[0].calls[0];
  const size_t bytes = first.count * SizeOf(first.type);
  if (first.kind == Kind::kAllReduce || first.kind == Kind::kReduceScatter) {
    const size_t count = first.count * (first.kind == Kind::kAllReduce ? 1 : size);
    const auto* const begin = reinterpret_cast<const float*>(first.send);
    std::vector<float> sum(begin, begin + count);
    for (int r = 1; r < size; ++r) Reduce(sum, all[r].calls[0].send, count, first.reduction);
    for (int r = 0; r < size; ++r) {
      const size_t offset = first.kind == Kind::kAllReduce ? 0 : r * first.count;
      std::memcpy(all[r].calls[0].receive, sum.data() + offset, bytes);
    }
  } else if (first.kind == Kind::kAllGather) {
    std::string whole;
    for (int r = 0; r < size; ++r) whole.append(all[r].calls[0].send, bytes);
    for (int r = 0; r < size; ++r) {
      std::memcpy(all[r].calls[0].receive, whole.data(), whole.size());
    }
  } else if (first.kind == Kind::kBroadcast) {
    const std::string told(all[first.peer].calls[0].send, bytes);
    for (int r = 0; r < size; ++r) std::memcpy(all[r].calls[0].receive, told.data(), bytes);
  } else {
    for (int from = 0; from < size; ++from) {
      for (const Call& send : all[from].calls) {
        if (send.kind != Kind::kSend) continue;
        for (const Call& receive : all[send.peer].calls) {
          if (receive.kind == Kind::kReceive && receive.peer == from) {
            std::memcpy(receive.receive, send.send, send.count * SizeOf(send.type));
          }
        }
      }
    }
  }
  for (const Launch& launch : all) launch.token->is_over = true;
}

std::map<std::string, std::shared_ptr<Clique>> cliques;
thread_local int group_depth = 0;
thread_local std::vector<std::pair<ncclComm_t, Call>> group_calls;
thread_local cudaStream_t group_stream = nullptr;

}  // namespace
}  // namespace parplan

struct ncclComm {
  std::shared_ptr<parplan::Clique> clique;
  int rank = 0;
  int patience = 0;
  int split_count = 0;
  // Place of the new communicator, once all ranks have joined the split.
  ncclComm_t* part = nullptr;
  std::pair<int, int> own;
  // Not over yet.
  parplan::fake::Tokens tokens;
};

namespace {

using parplan::Call;
using parplan::Clique;
using parplan::Kind;
using parplan::TheFakeNccl;

ncclComm_t Join(std::shared_ptr<Clique> clique, int rank, int size) {
  auto* const comm = new ncclComm;
  if (clique->size == 0) {
    clique->size = size;
    clique->launches.resize(size);
  }
  ++clique->joined;
  comm->clique = std::move(clique);
  comm->rank = rank;
  comm->patience = TheFakeNccl().patience;
  ++TheFakeNccl().made;
  return comm;
}

ncclResult_t Put(ncclComm_t comm, const Call& call, cudaStream_t stream) {
  parplan::group_calls.push_back({comm, call});
  parplan::group_stream = stream;
  if (parplan::group_depth > 0) return ncclSuccess;
  return ::ncclGroupEnd();
}

// The part of a split that all have come to.
void Split(ncclComm_t comm) {
  Clique& clique = *comm->clique;
  const int split = comm->split_count - 1;
  const auto& choices = clique.splits[split];
  if (static_cast<int>(choices.size()) < clique.size) return;
  ncclComm_t* const part = std::exchange(comm->part, nullptr);
  if (comm->own.first < 0) return;
  int rank = 0;
  int size = 0;
  for (const auto& [other, choice] : choices) {
    if (choice.first != comm->own.first) continue;
    ++size;
    if (std::pair(choice.second, other) < std::pair(comm->own.second, comm->rank)) ++rank;
  }
  auto& shared = clique.parts[{split, comm->own.first}];
  if (shared == nullptr) shared = std::make_shared<Clique>();
  *part = Join(shared, rank, size);
}

ncclResult_t End(ncclComm_t comm) {
  const std::lock_guard<std::mutex> lock(parplan::fake::mutex);
  comm->clique->is_aborted = true;
  // Running operations end and leave arbitrary data in their buffers.
  for (const auto& token : comm->tokens) token->is_over = true;
  for (auto& queue : comm->clique->launches) queue.clear();
  parplan::fake::changed.notify_all();
  ++TheFakeNccl().ended;
  delete comm;
  return ncclSuccess;
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
  if (config->blocking != 0) return ncclInvalidArgument;
  if (TheFakeNccl().make_result != ncclSuccess) return TheFakeNccl().make_result;
  const std::lock_guard<std::mutex> lock(parplan::fake::mutex);
  auto& clique = parplan::cliques[id.internal];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  *comm = Join(clique, rank, size);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard<std::mutex> lock(parplan::fake::mutex);
  *state = TheFakeNccl().state;
  if (comm->clique->joined < comm->clique->size || comm->patience-- > 0) *state = ncclInProgress;
  if (comm->part != nullptr) {
    Split(comm);
    if (comm->part != nullptr) *state = ncclInProgress;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t*) {
  const std::lock_guard<std::mutex> lock(parplan::fake::mutex);
  comm->own = {color, key};
  comm->part = part;
  comm->clique->splits[comm->split_count++][comm->rank] = comm->own;
  return ncclInProgress;
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
  ++TheFakeNccl().aborted;
  return End(comm);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return End(comm); }
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::lock_guard<std::mutex> lock(parplan::fake::mutex);
  comm->patience = TheFakeNccl().patience;
  return ncclInProgress;
}

ncclResult_t ncclGroupStart() {
  ++parplan::group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (parplan::group_depth > 0) --parplan::group_depth;
  if (parplan::group_depth > 0 || parplan::group_calls.empty()) return ncclSuccess;
  const std::lock_guard<std::mutex> lock(parplan::fake::mutex);
  ncclComm_t const comm = parplan::group_calls.front().first;
  parplan::Launch launch{.calls = {}, .token = std::make_shared<parplan::fake::Token>()};
  for (const auto& [unused, call] : parplan::group_calls) launch.calls.push_back(call);
  parplan::group_calls.clear();
  Clique& clique = *comm->clique;
  comm->patience = TheFakeNccl().patience;
  comm->tokens.push_back(launch.token);
  parplan::fake::StreamOf(parplan::group_stream)->tokens.push_back(launch.token);
  clique.launches[comm->rank].push_back(std::move(launch));
  while (!clique.is_aborted && std::none_of(clique.launches.begin(), clique.launches.end(),
                                            [](const auto& queue) { return queue.empty(); })) {
    parplan::Execute(clique);
    parplan::fake::changed.notify_all();
  }
  return ncclInProgress;
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
