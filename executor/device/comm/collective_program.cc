#include "executor/device/comm/collective_program.h"

#include <algorithm>

namespace parplan {
namespace {

// Largest all-reduce that uses recursive doubling: the time of small ones is that of their steps,
// of large ones that of their bytes. Not measured: which value is best depends on the links.
constexpr int64_t kSmallAllReduceBytes = int64_t{8} * 1024;
// Size of the pieces in which a broadcast goes down a chain of ranks. Smaller ones pay more
// headers, larger ones delay the end of the chain by a piece per rank. Not measured.
constexpr int64_t kBroadcastPieceBytes = int64_t{64} * 1024;

constexpr ProgramBuffer kSend = ProgramBuffer::kSend;
constexpr ProgramBuffer kReceive = ProgramBuffer::kReceive;
constexpr ProgramBuffer kScratch = ProgramBuffer::kScratch;

bool IsPowerOfTwo(int value) { return (value & (value - 1)) == 0; }

int Wrapped(int rank, int size) { return ((rank % size) + size) % size; }

// Adds the steps after which every rank has the sum of its own part: after step k it has the sum of
// k + 2 ranks' shares of part rank - 2 - k. `own` and `sum` give the places of this rank's share of
// a part and of the sum of a step, `count` the elements of a part.
template <typename PlaceOfPart, typename CountOfPart, typename PlaceOfSum>
void AddRingReduceScatter(int rank, int size, PlaceOfPart own, CountOfPart count, PlaceOfSum sum,
                          std::vector<ProgramStep>& steps) {
  for (int k = 0; k < size - 1; ++k) {
    const int sent = Wrapped(rank - 1 - k, size);
    const int received = Wrapped(rank - 2 - k, size);
    steps.push_back({.send_to = Wrapped(rank + 1, size),
                     .send_from = k == 0 ? own(sent) : sum(k - 1, sent),
                     .send_count = count(sent),
                     .receive_from = Wrapped(rank - 1, size),
                     .receive_at = sum(k, received),
                     .receive_count = count(received),
                     .reduces = true,
                     .base = own(received)});
  }
}

// Adds the steps that bring all parts of `kReceive` to every rank, each of which has its own.
template <typename BeginOfPart, typename CountOfPart>
void AddRingAllGather(int rank, int size, BeginOfPart begin, CountOfPart count,
                      std::vector<ProgramStep>& steps) {
  for (int k = 0; k < size - 1; ++k) {
    const int sent = Wrapped(rank - k, size);
    const int received = Wrapped(rank - 1 - k, size);
    steps.push_back({.send_to = Wrapped(rank + 1, size),
                     .send_from = {kReceive, begin(sent)},
                     .send_count = count(sent),
                     .receive_from = Wrapped(rank - 1, size),
                     .receive_at = {kReceive, begin(received)},
                     .receive_count = count(received)});
  }
}

CollectiveProgram AllReduce(const CollectiveCall& call, int rank, int size) {
  CollectiveProgram program;
  if (size == 1 ||
      (IsPowerOfTwo(size) && call.count * ElementSize(call.type) <= kSmallAllReduceBytes)) {
    program.copies.push_back({{kSend, 0}, {kReceive, 0}, call.count});
    // A buffer must not change while it is sent, so sums alternate between two buffers.
    program.scratch_count = call.count;
    bool in_scratch = false;
    for (int distance = 1; distance < size; distance *= 2) {
      const ProgramPlace from = {in_scratch ? kScratch : kReceive, 0};
      in_scratch = !in_scratch;
      program.steps.push_back({.send_to = rank ^ distance,
                               .send_from = from,
                               .send_count = call.count,
                               .receive_from = rank ^ distance,
                               .receive_at = {in_scratch ? kScratch : kReceive, 0},
                               .receive_count = call.count,
                               .reduces = true,
                               .base = from});
    }
    if (in_scratch) program.final_copies.push_back({{kScratch, 0}, {kReceive, 0}, call.count});
    return program;
  }
  const auto begin = [&](int part) { return PartBegin(call.count, part, size); };
  const auto count = [&](int part) { return begin(part + 1) - begin(part); };
  AddRingReduceScatter(
      rank, size,
      [&](int part) {
        return ProgramPlace{kSend, begin(part)};
      },
      count,
      [&](int, int part) {
        return ProgramPlace{kReceive, begin(part)};
      },
      program.steps);
  AddRingAllGather(rank, size, begin, count, program.steps);
  return program;
}

CollectiveProgram ReduceScatter(const CollectiveCall& call, int rank, int size) {
  CollectiveProgram program;
  const auto own = [&](int part) { return ProgramPlace{kSend, part * call.count}; };
  if (size == 1) {
    program.copies.push_back({own(0), {kReceive, 0}, call.count});
    return program;
  }
  // Intermediate sums alternate between two halves of scratch memory; the last one is the result.
  program.scratch_count = size > 2 ? 2 * call.count : 0;
  AddRingReduceScatter(
      rank, size, own, [&](int) { return call.count; },
      [&](int k, int) {
        return k == size - 2 ? ProgramPlace{kReceive, 0}
                             : ProgramPlace{kScratch, (k % 2) * call.count};
      },
      program.steps);
  return program;
}

CollectiveProgram AllGather(const CollectiveCall& call, int rank, int size) {
  CollectiveProgram program;
  program.copies.push_back({{kSend, 0}, {kReceive, rank * call.count}, call.count});
  AddRingAllGather(
      rank, size, [&](int part) { return part * call.count; }, [&](int) { return call.count; },
      program.steps);
  return program;
}

CollectiveProgram AllToAll(const CollectiveCall& call, int rank, int size) {
  CollectiveProgram program;
  program.copies.push_back({{kSend, rank * call.count}, {kReceive, rank * call.count}, call.count});
  for (int k = 1; k < size; ++k) {
    const int to = Wrapped(rank + k, size);
    const int from = Wrapped(rank - k, size);
    program.steps.push_back({.send_to = to,
                             .send_from = {kSend, to * call.count},
                             .send_count = call.count,
                             .receive_from = from,
                             .receive_at = {kReceive, from * call.count},
                             .receive_count = call.count});
  }
  return program;
}

CollectiveProgram Broadcast(const CollectiveCall& call, int rank, int size) {
  CollectiveProgram program;
  const int place = Wrapped(rank - call.peer, size);
  if (place == 0) program.copies.push_back({{kSend, 0}, {kReceive, 0}, call.count});
  if (size == 1) return program;
  const int64_t piece = std::max<int64_t>(1, kBroadcastPieceBytes / ElementSize(call.type));
  const int64_t pieces = (call.count + piece - 1) / piece;
  const auto count = [&](int64_t k) { return std::min(piece, call.count - k * piece); };
  // A rank sends a piece while it receives the next one.
  for (int64_t k = 0; k <= pieces; ++k) {
    ProgramStep step;
    if (place < size - 1 && k > 0) {
      step.send_to = Wrapped(rank + 1, size);
      step.send_from = {kReceive, (k - 1) * piece};
      step.send_count = count(k - 1);
    }
    if (place > 0 && k < pieces) {
      step.receive_from = Wrapped(rank - 1, size);
      step.receive_at = {kReceive, k * piece};
      step.receive_count = count(k);
    }
    if (step.send_to >= 0 || step.receive_from >= 0) program.steps.push_back(step);
  }
  return program;
}

CollectiveProgram Barrier(int rank, int size) {
  CollectiveProgram program;
  program.scratch_count = 2;
  for (int distance = 1; distance < size; distance *= 2) {
    program.steps.push_back({.send_to = Wrapped(rank + distance, size),
                             .send_from = {kScratch, 0},
                             .send_count = 1,
                             .receive_from = Wrapped(rank - distance, size),
                             .receive_at = {kScratch, 1},
                             .receive_count = 1});
  }
  return program;
}

}  // namespace

CollectiveProgram ProgramOf(const CollectiveCall& call, int rank, int size) {
  switch (call.operation) {
    case Operation::kAllReduce:
      return AllReduce(call, rank, size);
    case Operation::kReduceScatter:
      return ReduceScatter(call, rank, size);
    case Operation::kAllGather:
      return AllGather(call, rank, size);
    case Operation::kAllToAll:
      return AllToAll(call, rank, size);
    case Operation::kBroadcast:
      return Broadcast(call, rank, size);
    case Operation::kBarrier:
      return Barrier(rank, size);
    case Operation::kSend: {
      CollectiveProgram program;
      program.steps.push_back(
          {.send_to = call.peer, .send_from = {kSend, 0}, .send_count = call.count});
      return program;
    }
    case Operation::kReceive: {
      CollectiveProgram program;
      program.steps.push_back(
          {.receive_from = call.peer, .receive_at = {kReceive, 0}, .receive_count = call.count});
      return program;
    }
  }
  return {};
}

}  // namespace parplan
