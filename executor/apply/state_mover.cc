#include "executor/apply/state_mover.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "executor/apply/state_map.h"

namespace parplan {
namespace {

using AllRuns = std::vector<std::vector<HeldRun>>;

// [rank]
absl::StatusOr<AllRuns> RunsOfAll(const CheckedPlan& plan, const ParameterNumbers& numbers,
                                  StateKind kind, int64_t element_size) {
  AllRuns all;
  for (int rank = 0; rank < plan.plan().device_count; ++rank) {
    PARPLAN_ASSIGN_OR_RETURN(const RankProgram program, plan.ProgramOf(rank));
    all.push_back(RunsOf(program, plan.model(), numbers, kind, element_size));
  }
  return all;
}

int64_t CountOf(const std::vector<StateTransfer>& transfers, int from_rank) {
  int64_t count = 0;
  for (const StateTransfer& transfer : transfers) {
    if (transfer.from_rank == from_rank) count += transfer.count;
  }
  return count;
}

// Returns zeroed parts of a rank's layers, each as long as its furthest element.
std::vector<std::vector<char>> EmptyParts(const std::vector<HeldRun>& runs, int64_t element_size) {
  std::vector<std::vector<char>> parts;
  for (const HeldRun& run : runs) {
    const auto slot = static_cast<size_t>(run.layer_slot);
    if (parts.size() <= slot) parts.resize(slot + 1);
    const auto end = static_cast<size_t>((run.offset + run.count) * element_size);
    if (parts[slot].size() < end) parts[slot].resize(end);
  }
  return parts;
}

// Moves the state of one kind.
class Exchange {
 public:
  Exchange(const HostState& from, Communicator& everyone, const AllRuns& held,
           const AllRuns& wanted)
      : from_(from), everyone_(everyone), held_(held), wanted_(wanted) {}

  absl::StatusOr<HostState> Run() {
    const int rank = everyone_.rank();
    HostState to = {.element_size = from_.element_size,
                    .parts = EmptyParts(wanted_[rank], from_.element_size)};
    // Receives are started before sends, so that no message waits for a buffer.
    const std::vector<StateTransfer> mine = TransfersTo(rank, wanted_[rank], held_);
    for (int other = 0; other < everyone_.size(); ++other) {
      if (other == rank) continue;
      PARPLAN_RETURN_IF_ERROR(StartReceive(other, CountOf(mine, other)));
    }
    for (int other = 0; other < everyone_.size(); ++other) {
      if (other == rank) continue;
      PARPLAN_RETURN_IF_ERROR(StartSend(other, TransfersTo(other, wanted_[other], held_)));
    }
    for (const std::unique_ptr<PendingWork>& work : works_) PARPLAN_RETURN_IF_ERROR(work->Wait());
    Unpack(mine, to);
    return to;
  }

 private:
  absl::Status StartReceive(int other, int64_t count) {
    if (count == 0) return absl::OkStatus();
    std::vector<char>& message = received_[other];
    message.resize(static_cast<size_t>(count * from_.element_size));
    return Start({.operation = Operation::kReceive,
                  .type = ElementType::kByte,
                  .count = static_cast<int64_t>(message.size()),
                  .receive = message.data(),
                  .peer = other});
  }

  absl::Status StartSend(int other, const std::vector<StateTransfer>& transfers) {
    const int rank = everyone_.rank();
    const int64_t count = CountOf(transfers, rank);
    if (count == 0) return absl::OkStatus();
    std::vector<char>& message = sent_[other];
    message.reserve(static_cast<size_t>(count * from_.element_size));
    for (const StateTransfer& transfer : transfers) {
      if (transfer.from_rank != rank) continue;
      const char* const first =
          from_.parts[transfer.from_slot].data() + transfer.from_offset * from_.element_size;
      message.insert(message.end(), first, first + transfer.count * from_.element_size);
    }
    return Start({.operation = Operation::kSend,
                  .type = ElementType::kByte,
                  .count = static_cast<int64_t>(message.size()),
                  .send = message.data(),
                  .peer = other});
  }

  absl::Status Start(const CollectiveCall& call) {
    PARPLAN_ASSIGN_OR_RETURN(works_.emplace_back(), everyone_.Start(call));
    return absl::OkStatus();
  }

  void Unpack(const std::vector<StateTransfer>& transfers, HostState& to) {
    const int64_t size = from_.element_size;
    std::map<int, int64_t> taken;
    for (const StateTransfer& transfer : transfers) {
      const char* source = nullptr;
      if (transfer.from_rank == everyone_.rank()) {
        source = from_.parts[transfer.from_slot].data() + transfer.from_offset * size;
      } else {
        int64_t& at = taken[transfer.from_rank];
        source = received_[transfer.from_rank].data() + at;
        at += transfer.count * size;
      }
      std::memcpy(to.parts[transfer.to_slot].data() + transfer.to_offset * size, source,
                  static_cast<size_t>(transfer.count * size));
    }
  }

  const HostState& from_;
  Communicator& everyone_;
  const AllRuns& held_;
  const AllRuns& wanted_;
  // [rank] messages; declared before the works, which read and write them.
  std::map<int, std::vector<char>> sent_;
  std::map<int, std::vector<char>> received_;
  std::vector<std::unique_ptr<PendingWork>> works_;
};

}  // namespace

absl::StatusOr<HostStates> ReadStates(RankTrainer& trainer, Device& device) {
  HostStates states;
  absl::Status status;
  const auto read = [&](int, const ParameterLayout&, const std::vector<StatePart>& parts) {
    for (const StatePart& part : parts) {
      HostState& state = states[part.kind];
      state.element_size = ElementSize(part.type);
      std::vector<char>& copy = state.parts.emplace_back(part.count * state.element_size);
      if (status.ok() && !copy.empty()) {
        status =
            device.CopyToHost(part.data, copy.data(), Bytes::Of(static_cast<int64_t>(copy.size())));
      }
    }
  };
  PARPLAN_RETURN_IF_ERROR(trainer.VisitStates(read));
  if (!status.ok()) return status;
  return states;
}

absl::Status WriteStates(const HostStates& states, RankTrainer& trainer, Device& device) {
  absl::Status status;
  size_t slot = 0;
  PARPLAN_RETURN_IF_ERROR(trainer.VisitStates(
      [&](int layer_index, const ParameterLayout&, const std::vector<StatePart>& parts) {
        for (const StatePart& part : parts) {
          if (!status.ok()) return;
          const auto found = states.find(part.kind);
          const bool is_there = found != states.end() && slot < found->second.parts.size();
          const size_t size = is_there ? found->second.parts[slot].size() : 0;
          if (size != static_cast<size_t>(part.count * ElementSize(part.type))) {
            status = absl::InternalError(absl::StrCat("layer ", layer_index, " needs ", part.count,
                                                      " elements, not ", size, " bytes, of kind ",
                                                      static_cast<int>(part.kind)));
          } else if (size > 0) {
            status = device.CopyFromHost(found->second.parts[slot].data(), part.data,
                                         Bytes::Of(static_cast<int64_t>(size)));
          }
        }
        ++slot;
      }));
  return status;
}

absl::StatusOr<HostStates> MoveStates(const HostStates& states, const CheckedPlan& from,
                                      const CheckedPlan& to, Communicator& everyone) {
  const ParameterNumbers numbers(from.model());
  // Every rank has parameters; their type decides how long shards are.
  const int64_t element_size = states.at(StateKind::kParameters).element_size;
  HostStates moved;
  // Parameters may be sharded in another way than optimizer states, all kinds of which are sharded
  // alike.
  for (const bool is_parameters : {true, false}) {
    const StateKind example = is_parameters ? StateKind::kParameters : StateKind::kFirstMoments;
    PARPLAN_ASSIGN_OR_RETURN(const AllRuns held, RunsOfAll(from, numbers, example, element_size));
    PARPLAN_ASSIGN_OR_RETURN(const AllRuns wanted, RunsOfAll(to, numbers, example, element_size));
    for (const auto& [kind, state] : states) {
      if ((kind == StateKind::kParameters) != is_parameters) continue;
      PARPLAN_ASSIGN_OR_RETURN(moved[kind], Exchange(state, everyone, held, wanted).Run());
    }
  }
  return moved;
}

}  // namespace parplan
