#include "server/core/execution_figures.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "proto/wire/duration_wire.h"
#include "server/core/stored_message.h"

namespace parplan {
namespace {

using google::protobuf::Duration;

// Times by number of the phase.
using PhaseTimes = std::array<absl::Duration, v1::Phase_ARRAYSIZE>;

// Returns the middle value, or the mean of the two in the middle. REQUIRES: not empty.
absl::Duration Median(std::vector<absl::Duration> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + middle, values.end());
  const absl::Duration upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  const absl::Duration lower = *std::max_element(values.begin(), values.begin() + middle);
  return lower + (upper - lower) / 2;
}

// Converts a duration of a message that was checked on arrival; a damaged one counts as 0.
absl::Duration TimeOf(const Duration& duration) {
  return DurationFromProto(duration, "").value_or(absl::ZeroDuration());
}

v1::Phase PhaseOf(v1::TimeItemKind kind) {
  switch (kind) {
    case v1::TIME_ITEM_KIND_FORWARD_COMPUTE:
      return v1::PHASE_FORWARD;
    case v1::TIME_ITEM_KIND_BACKWARD_COMPUTE:
      return v1::PHASE_BACKWARD;
    case v1::TIME_ITEM_KIND_RECOMPUTE:
      return v1::PHASE_RECOMPUTE;
    case v1::TIME_ITEM_KIND_TENSOR_PARALLEL:
      return v1::PHASE_TENSOR_PARALLEL;
    case v1::TIME_ITEM_KIND_SHARDED_DATA_PARALLEL:
      return v1::PHASE_SHARDED_DATA_PARALLEL;
    case v1::TIME_ITEM_KIND_RESHARDING:
      return v1::PHASE_RESHARDING;
    case v1::TIME_ITEM_KIND_CONTEXT_PARALLEL:
      return v1::PHASE_CONTEXT_PARALLEL;
    case v1::TIME_ITEM_KIND_EXPERT_PARALLEL:
      return v1::PHASE_EXPERT_PARALLEL;
    default:
      return v1::PHASE_IDLE;  // Launches, and kinds of later releases.
  }
}

PhaseTimes PredictedPhases(const v1::StagePrediction& stage, int64_t micro_batch_count,
                           absl::Duration step) {
  PhaseTimes times = {};
  for (const v1::TimeItem& item : stage.time_items()) {
    times[PhaseOf(item.kind())] += TimeOf(item.duration()) * micro_batch_count;
  }
  times[v1::PHASE_GRADIENT_SYNC] += TimeOf(stage.gradient_sync_duration());
  times[v1::PHASE_OPTIMIZER] += TimeOf(stage.optimizer_step_duration());
  times[v1::PHASE_PIPELINE] += step * stage.idle_ratio();
  absl::Duration rest = step;
  for (const absl::Duration time : times) rest -= time;
  times[v1::PHASE_IDLE] += std::max(rest, absl::ZeroDuration());
  return times;
}

void AddPhases(const PhaseTimes& times,
               google::protobuf::RepeatedPtrField<v1::PhaseDuration>* phases) {
  for (int i = 1; i < v1::Phase_ARRAYSIZE; ++i) {
    if (times[i] <= absl::ZeroDuration()) continue;
    v1::PhaseDuration& phase = *phases->Add();
    phase.set_phase(static_cast<v1::Phase>(i));
    *phase.mutable_duration() = DurationToProto(times[i]);
  }
}

// Copies the items. Leaves out those of later releases, which a newer server may have stored.
void AddItems(const google::protobuf::RepeatedPtrField<v1::MemoryItem>& items,
              google::protobuf::RepeatedPtrField<v1::MemoryItem>* list) {
  for (const v1::MemoryItem& item : items) {
    if (item.size_bytes() > 0 && v1::MemoryItemKind_IsValid(item.kind())) *list->Add() = item;
  }
}

// Sums over the windows of one stage.
struct StageWindows {
  // By number of the phase: one entry for every window that reports phases.
  std::array<std::vector<absl::Duration>, v1::Phase_ARRAYSIZE> phases;
  int64_t peak_bytes = 0;
  // The window with the highest peak among those that report items, and its peak.
  int64_t items_peak_bytes = 0;
  v1::MeasuredWindow items;

  absl::Status Add(const WindowRecord& window) {
    peak_bytes = std::max(peak_bytes, window.peak_memory_bytes);
    if (window.items.empty()) return absl::OkStatus();
    PARPLAN_ASSIGN_OR_RETURN(v1::MeasuredWindow reported,
                             ParseStored<v1::MeasuredWindow>(window.items, "a window"));
    if (reported.phase_durations_size() > 0) {
      PhaseTimes times = {};
      for (const v1::PhaseDuration& phase : reported.phase_durations()) {
        // Phases of later releases are ignored.
        if (v1::Phase_IsValid(phase.phase())) times[phase.phase()] = TimeOf(phase.duration());
      }
      for (int i = 1; i < v1::Phase_ARRAYSIZE; ++i) phases[i].push_back(times[i]);
    }
    if (reported.memory_items_size() > 0 && window.peak_memory_bytes > items_peak_bytes) {
      items_peak_bytes = window.peak_memory_bytes;
      items = std::move(reported);
    }
    return absl::OkStatus();
  }

  v1::ExecutionStage ToMessage() && {
    v1::ExecutionStage stage;
    PhaseTimes times = {};
    for (int i = 1; i < v1::Phase_ARRAYSIZE; ++i) {
      if (!phases[i].empty()) times[i] = Median(std::move(phases[i]));
    }
    AddPhases(times, stage.mutable_measured_phase_durations());
    AddItems(items.memory_items(), stage.mutable_measured_memory_items());
    if (peak_bytes > 0) stage.set_measured_peak_memory_bytes(peak_bytes);
    return stage;
  }
};

// Returns the stage of `rank`, or the number of stages if it is in none.
size_t StageOf(int rank, const v1::Execution& execution) {
  const auto& stages = execution.stages();
  const auto after = std::upper_bound(
      stages.begin(), stages.end(), rank,
      [](int value, const v1::ExecutionStage& stage) { return value < stage.first_rank(); });
  if (after == stages.begin()) return stages.size();
  const v1::ExecutionStage& stage = *(after - 1);
  if (rank - stage.first_rank() >= stage.rank_count()) return stages.size();
  return static_cast<size_t>(after - stages.begin() - 1);
}

}  // namespace

std::vector<v1::ExecutionStage> PredictedStages(const v1::PlanPayload& payload) {
  const v1::Prediction& prediction = payload.prediction();
  const absl::Duration step = TimeOf(prediction.step_duration());
  std::vector<v1::ExecutionStage> stages;
  for (int i = 0; i < prediction.stages_size() && i < payload.stages_size(); ++i) {
    const v1::StagePrediction& predicted = prediction.stages(i);
    v1::ExecutionStage& stage = stages.emplace_back();
    stage.set_first_rank(payload.stages(i).first_rank());
    stage.set_rank_count(payload.stages(i).rank_count());
    AddPhases(PredictedPhases(predicted, payload.micro_batch_count(), step),
              stage.mutable_predicted_phase_durations());
    AddItems(predicted.memory_items(), stage.mutable_predicted_memory_items());
    stage.set_predicted_peak_memory_bytes(predicted.peak_memory_bytes());
  }
  return stages;
}

size_t ExecutionFigures::SizeBytes() const {
  size_t size = sizeof(ExecutionFigures);
  for (const v1::ExecutionStage& stage : stages) size += stage.SpaceUsedLong();
  return size;
}

absl::StatusOr<ExecutionFigures> FiguresOfWindows(absl::Span<const WindowRecord> windows,
                                                  const v1::Execution& execution) {
  ExecutionFigures figures;
  if (windows.empty()) return figures;
  std::vector<absl::Duration> steps;
  steps.reserve(windows.size());
  std::vector<StageWindows> stages(execution.stages_size());
  for (const WindowRecord& window : windows) {
    steps.push_back(window.median_step_duration);
    if (window.peak_memory_bytes > 0) {
      figures.peak_memory_bytes =
          std::max(figures.peak_memory_bytes.value_or(0), window.peak_memory_bytes);
    }
    const size_t stage = StageOf(window.rank, execution);
    if (stage < stages.size()) PARPLAN_RETURN_IF_ERROR(stages[stage].Add(window));
  }
  figures.median_step = Median(std::move(steps));
  for (StageWindows& stage : stages) figures.stages.push_back(std::move(stage).ToMessage());
  return figures;
}

void ReportRatios(const v1::Execution& execution, absl::string_view cluster, Observer& observer) {
  constexpr double kLeastShare = 0.01;
  if (execution.has_measured_peak_memory_bytes() && execution.predicted_peak_memory_bytes() > 0) {
    observer.PeakMemoryMeasured(cluster,
                                static_cast<double>(execution.measured_peak_memory_bytes()) /
                                    static_cast<double>(execution.predicted_peak_memory_bytes()));
  }
  const absl::Duration least = TimeOf(execution.predicted_step_duration()) * kLeastShare;
  for (const v1::ExecutionStage& stage : execution.stages()) {
    PhaseTimes measured = {};
    for (const v1::PhaseDuration& phase : stage.measured_phase_durations()) {
      measured[phase.phase()] = TimeOf(phase.duration());
    }
    for (const v1::PhaseDuration& phase : stage.predicted_phase_durations()) {
      const absl::Duration predicted = TimeOf(phase.duration());
      if (stage.measured_phase_durations().empty() || predicted <= least) continue;
      observer.PhaseMeasured(phase.phase(), absl::FDivDuration(measured[phase.phase()], predicted));
    }
    std::array<double, v1::MemoryItemKind_ARRAYSIZE> sizes = {};
    for (const v1::MemoryItem& item : stage.measured_memory_items()) {
      sizes[item.kind()] = static_cast<double>(item.size_bytes());
    }
    for (const v1::MemoryItem& item : stage.predicted_memory_items()) {
      const double predicted = static_cast<double>(item.size_bytes());
      const double peak = static_cast<double>(stage.predicted_peak_memory_bytes());
      if (stage.measured_memory_items().empty() || predicted <= kLeastShare * peak) continue;
      observer.MemoryItemMeasured(item.kind(), sizes[item.kind()] / predicted);
    }
  }
}

void AddFigures(const ExecutionFigures& figures, v1::Execution* execution) {
  if (figures.median_step.has_value()) {
    *execution->mutable_measured_step_duration() = DurationToProto(*figures.median_step);
    const absl::Duration predicted = TimeOf(execution->predicted_step_duration());
    if (predicted > absl::ZeroDuration()) {
      execution->set_step_duration_ratio(absl::FDivDuration(*figures.median_step, predicted));
    }
  }
  if (figures.peak_memory_bytes.has_value()) {
    execution->set_measured_peak_memory_bytes(*figures.peak_memory_bytes);
  }
  const int count = std::min(execution->stages_size(), static_cast<int>(figures.stages.size()));
  for (int i = 0; i < count; ++i) execution->mutable_stages(i)->MergeFrom(figures.stages[i]);
}

}  // namespace parplan
