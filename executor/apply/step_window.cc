#include "executor/apply/step_window.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace parplan {
namespace {

v1::MemoryItemKind ItemOf(ArrayUse use) {
  switch (use) {
    case ArrayUse::kParameters:
      return v1::MEMORY_ITEM_KIND_PARAMETERS;
    case ArrayUse::kGradients:
      return v1::MEMORY_ITEM_KIND_GRADIENTS;
    case ArrayUse::kOptimizerStates:
      return v1::MEMORY_ITEM_KIND_OPTIMIZER_STATES;
    case ArrayUse::kActivations:
      return v1::MEMORY_ITEM_KIND_ACTIVATIONS;
    case ArrayUse::kCheckpoints:
      return v1::MEMORY_ITEM_KIND_CHECKPOINTS;
    case ArrayUse::kGatheredParameters:
      return v1::MEMORY_ITEM_KIND_GATHERED_PARAMETERS;
    case ArrayUse::kLogits:
      return v1::MEMORY_ITEM_KIND_LOGITS;
    case ArrayUse::kTransient:
      return v1::MEMORY_ITEM_KIND_TRANSIENT;
    case ArrayUse::kMasterParameters:
      return v1::MEMORY_ITEM_KIND_MASTER_PARAMETERS;
  }
  return v1::MEMORY_ITEM_KIND_UNSPECIFIED;
}

std::optional<v1::Collective> CollectiveOf(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return v1::COLLECTIVE_ALL_REDUCE;
    case Operation::kAllGather:
      return v1::COLLECTIVE_ALL_GATHER;
    case Operation::kReduceScatter:
      return v1::COLLECTIVE_REDUCE_SCATTER;
    case Operation::kAllToAll:
      return v1::COLLECTIVE_ALL_TO_ALL;
    case Operation::kBroadcast:
      return v1::COLLECTIVE_BROADCAST;
    case Operation::kSend:
    case Operation::kReceive:
    case Operation::kBarrier:
      break;
  }
  return std::nullopt;
}

void SetDuration(absl::Duration from, google::protobuf::Duration* to) {
  absl::Duration rest;
  to->set_seconds(absl::IDivDuration(from, absl::Seconds(1), &rest));
  to->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

v1::Phase PhaseOf(StepPhase phase) { return static_cast<v1::Phase>(static_cast<int>(phase) + 1); }

}  // namespace

std::string StepPhaseName(StepPhase phase) {
  return absl::AsciiStrToLower(
      std::string(absl::StripPrefix(v1::Phase_Name(PhaseOf(phase)), "PHASE_")));
}

v1::MeasuredWindow WindowToProto(const StepWindow& window) {
  v1::MeasuredWindow message;
  message.set_rank(window.rank);
  message.set_first_step(window.first_step);
  message.set_step_count(window.step_count);
  SetDuration(window.median_step, message.mutable_median_step_duration());
  message.set_peak_memory_bytes(window.peak_memory().count());
  for (int phase = 0; phase < kStepPhaseCount; ++phase) {
    if (window.phases[phase] <= absl::ZeroDuration()) continue;
    v1::PhaseDuration& entry = *message.add_phase_durations();
    entry.set_phase(PhaseOf(static_cast<StepPhase>(phase)));
    SetDuration(window.phases[phase], entry.mutable_duration());
  }
  for (int use = 0; use < kArrayUseCount; ++use) {
    if (window.memory_at_peak.bytes[use] == Bytes()) continue;
    v1::MemoryItem& item = *message.add_memory_items();
    item.set_kind(ItemOf(static_cast<ArrayUse>(use)));
    item.set_size_bytes(window.memory_at_peak.bytes[use].count());
  }
  if (window.context_memory > Bytes()) {
    v1::MemoryItem& item = *message.add_memory_items();
    item.set_kind(v1::MEMORY_ITEM_KIND_CONTEXT);
    item.set_size_bytes(window.context_memory.count());
  }
  for (const CollectiveSamples& samples : window.collectives) {
    const std::optional<v1::Collective> collective = CollectiveOf(samples.operation);
    if (!collective.has_value()) continue;
    v1::CollectiveTiming& timing = *message.add_collective_timings();
    timing.set_collective(*collective);
    timing.set_participant_count(samples.participant_count);
    timing.set_rank_stride(samples.rank_stride);
    timing.set_message_size_bytes(samples.message_size);
    SetDuration(samples.median, timing.mutable_median_duration());
    SetDuration(samples.p90, timing.mutable_p90_duration());
    timing.set_sample_count(samples.sample_count);
    timing.set_origin(v1::ORIGIN_MEASURED);
  }
  return message;
}

}  // namespace parplan
