// Does what MPI does: random collectives, once through MPI and once through our own
// communicators, must leave the same bits on every rank. Started by mpirun.
//
//   mpirun -n RANKS mpi_oracle CALLS SEED [tcp]
//
// Values are small integers, so sums are exact whatever their order.

#include <mpi.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "executor/device/comm/job_fabric.h"
#include "executor/device/comm/rendezvous_server.h"

namespace parplan {
namespace {

constexpr absl::string_view kToken = "of this run";
constexpr Operation kOperations[] = {
    Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter, Operation::kAllToAll,
    Operation::kBroadcast, Operation::kSend,      Operation::kBarrier};

[[noreturn]] void Fail(int rank, const std::string& what) {
  std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// One call as all ranks of a group make it.
struct Draw {
  Operation operation;
  ElementType type;
  int64_t count;
  int root;
  // Receiver of a send; another rank than the root.
  int to;
  Reduction reduction;
};

// The same on every rank that draws from a generator of the same state.
Draw DrawCall(std::mt19937_64& random, int group_size) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  Draw draw;
  draw.operation = kOperations[below(std::size(kOperations))];
  draw.type = below(2) == 0 ? ElementType::kFloat32 : ElementType::kFloat64;
  // Nothing, little, about a ring's buffer, and much.
  constexpr int64_t kLargest[] = {1, 40, 5'000, 90'000};
  draw.count = below(kLargest[below(4)] + 1);
  draw.root = static_cast<int>(below(group_size));
  draw.to = static_cast<int>((draw.root + 1 + below(std::max(group_size - 1, 1))) % group_size);
  draw.reduction = below(3) == 0 ? Reduction::kMax : Reduction::kSum;
  if (group_size == 1 && draw.operation == Operation::kSend) draw.operation = Operation::kBarrier;
  return draw;
}

// `count` elements that differ from rank to rank and call to call.
std::vector<char> MakeValues(ElementType type, int64_t count, uint64_t seed) {
  std::minstd_rand random(static_cast<uint32_t>(seed % 2'147'483'646 + 1));
  std::vector<char> bytes(count * ElementSize(type));
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(static_cast<int64_t>(random() % 2001) - 1000);
    if (type == ElementType::kFloat64) {
      memcpy(bytes.data() + i * 8, &value, 8);
    } else {
      const auto narrow = static_cast<float>(value);
      memcpy(bytes.data() + i * 4, &narrow, 4);
    }
  }
  return bytes;
}

// Number of elements that a rank sends and receives.
struct Sizes {
  int64_t sent = 0;
  int64_t received = 0;
};

Sizes SizesOf(const Draw& draw, int rank, int size) {
  switch (draw.operation) {
    case Operation::kAllReduce:
      return {draw.count, draw.count};
    case Operation::kAllGather:
      return {draw.count, draw.count * size};
    case Operation::kReduceScatter:
      return {draw.count * size, draw.count};
    case Operation::kAllToAll:
      return {draw.count * size, draw.count * size};
    case Operation::kBroadcast:
      // In place, at the root the values and elsewhere room for them.
      return {rank == draw.root ? draw.count : 0, draw.count};
    case Operation::kSend:
      return {rank == draw.root ? draw.count : 0, rank == draw.to ? draw.count : 0};
    default:
      return {};
  }
}

void RunWithMpi(const Draw& draw, MPI_Comm group, const void* send, void* receive, int rank) {
  const MPI_Datatype type = draw.type == ElementType::kFloat64 ? MPI_DOUBLE : MPI_FLOAT;
  const MPI_Op reduction = draw.reduction == Reduction::kMax ? MPI_MAX : MPI_SUM;
  const int count = static_cast<int>(draw.count);
  switch (draw.operation) {
    case Operation::kAllReduce:
      MPI_Allreduce(send, receive, count, type, reduction, group);
      return;
    case Operation::kAllGather:
      MPI_Allgather(send, count, type, receive, count, type, group);
      return;
    case Operation::kReduceScatter:
      MPI_Reduce_scatter_block(send, receive, count, type, reduction, group);
      return;
    case Operation::kAllToAll:
      MPI_Alltoall(send, count, type, receive, count, type, group);
      return;
    case Operation::kBroadcast:
      MPI_Bcast(receive, count, type, draw.root, group);
      return;
    case Operation::kSend:
      if (rank == draw.root) MPI_Send(send, count, type, draw.to, 0, group);
      if (rank == draw.to) MPI_Recv(receive, count, type, draw.root, 0, group, MPI_STATUS_IGNORE);
      return;
    default:
      MPI_Barrier(group);
      return;
  }
}

absl::Status RunWithOurs(const Draw& draw, Communicator& group, const void* send, void* receive) {
  CollectiveCall call = {.operation = draw.operation,
                         .type = draw.type,
                         .count = draw.count,
                         .send = send,
                         .receive = receive,
                         .reduction = draw.reduction};
  if (draw.operation == Operation::kBroadcast) {
    call.send = receive;
    call.peer = draw.root;
  } else if (draw.operation == Operation::kBarrier) {
    call = {};
  } else if (draw.operation == Operation::kSend) {
    if (group.rank() == draw.root) {
      call.peer = draw.to;
    } else if (group.rank() == draw.to) {
      call.operation = Operation::kReceive;
      call.peer = draw.root;
    } else {
      return absl::OkStatus();
    }
  }
  return group.Run(call);
}

// One random call in one group, both ways.
void Compare(std::mt19937_64& random, MPI_Comm theirs, Communicator& ours, int world_rank,
             int call) {
  const int rank = ours.rank();
  const int size = ours.size();
  const Draw draw = DrawCall(random, size);
  const Sizes sizes = SizesOf(draw, rank, size);
  const std::vector<char> sent = MakeValues(draw.type, sizes.sent, call * 1000 + world_rank);
  std::array<std::vector<char>, 2> received;
  for (std::vector<char>& buffer : received) {
    buffer.assign(sizes.received * ElementSize(draw.type), 0);
    if (draw.operation == Operation::kBroadcast && rank == draw.root) buffer = sent;
  }
  RunWithMpi(draw, theirs, sent.data(), received[0].data(), rank);
  const absl::Status status = RunWithOurs(draw, ours, sent.data(), received[1].data());
  const std::string name =
      absl::StrCat("call ", call, ", ", OperationName(draw.operation), " of ", draw.count, " x ",
                   ElementSize(draw.type), " bytes among ", size, " ranks");
  if (!status.ok()) Fail(world_rank, absl::StrCat(name, ": ", status.message()));
  if (received[0] != received[1]) Fail(world_rank, absl::StrCat(name, ": MPI has another result"));
}

std::unique_ptr<JobFabric> JoinAll(int rank, int size, TransportKind transport,
                                   std::unique_ptr<RendezvousServer>& server) {
  std::array<char, 256> address = {};
  if (rank == 0) {
    auto started = RendezvousServer::Start({.token = std::string(kToken), .world_size = size});
    if (!started.ok()) Fail(rank, started.status().ToString());
    server = std::move(*started);
    std::snprintf(address.data(), address.size(), "%s", server->address().c_str());
  }
  MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  auto fabric = JobFabric::Join({.rendezvous = address.data(),
                                 .token = std::string(kToken),
                                 .rank = rank,
                                 .world_size = size,
                                 .transport = transport,
                                 .spin_count = 50});
  if (!fabric.ok()) Fail(rank, fabric.status().ToString());
  return std::move(*fabric);
}

void RunAll(int call_count, uint64_t seed, TransportKind transport) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::unique_ptr<RendezvousServer> server;
  const std::unique_ptr<JobFabric> fabric = JoinAll(rank, size, transport, server);
  std::vector<int> ranks(size);
  for (int r = 0; r < size; ++r) ranks[r] = r;
  auto all = fabric->MakeGroup("all", ranks);
  if (!all.ok()) Fail(rank, all.status().ToString());
  // Two halves, the one in reverse order.
  const int color = rank % 2;
  const int key = color == 0 ? rank : -rank;
  auto half = (*all)->Split(color, key);
  if (!half.ok()) Fail(rank, half.status().ToString());
  MPI_Comm their_half;
  MPI_Comm_split(MPI_COMM_WORLD, color, key, &their_half);

  std::mt19937_64 random(seed);
  std::mt19937_64 half_random(seed + 1 + color);
  for (int call = 0; call < call_count; ++call) {
    if (call % 3 == 2) {
      Compare(half_random, their_half, **half, rank, call);
    } else {
      Compare(random, MPI_COMM_WORLD, **all, rank, call);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::printf("%d calls on %d ranks agree with MPI\n", call_count, size);
  half->reset();
  all->reset();
  MPI_Comm_free(&their_half);
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) {
    std::fprintf(stderr, "usage: mpirun -n RANKS mpi_oracle CALLS SEED [tcp]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const bool over_tcp = argc > 3 && absl::string_view(argv[3]) == "tcp";
  parplan::RunAll(std::atoi(argv[1]), std::strtoull(argv[2], nullptr, 10),
                  over_tcp ? parplan::TransportKind::kTcp : parplan::TransportKind::kAutomatic);
  MPI_Finalize();
  return 0;
}
