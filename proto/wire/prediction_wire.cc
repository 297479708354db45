// Predictions and search summaries; declared in plan_wire.h.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/enum_wire.h"
#include "proto/wire/field_path.h"
#include "proto/wire/payload_error.h"
#include "proto/wire/plan_wire.h"

namespace parplan {
namespace {

// The planner numbers kinds of items from 0, the contract from 1.
static_assert(v1::MemoryItemKind_MAX == kMemoryItemKindCount);
static_assert(v1::TimeItemKind_MAX == kTimeItemKindCount);
static_assert(v1::Bottleneck_MAX == static_cast<int>(Bottleneck::kPipelineBubble));
static_assert(v1::Confidence_MAX == static_cast<int>(Confidence::kEstimated));
static_assert(v1::Termination_MAX == static_cast<int>(Termination::kFeasible));
static_assert(v1::SearchLimit_MAX == static_cast<int>(SearchLimit::kMemory));

absl::StatusOr<Seconds> TimeFromProto(const google::protobuf::Duration& duration,
                                      const std::string& field) {
  PARPLAN_ASSIGN_OR_RETURN(const Seconds seconds, SecondsFromProto(duration, field, kMalformed));
  if (seconds < Seconds()) return Malformed(field, "must not be negative");
  return seconds;
}

// Returns the time that a Duration gives in nanoseconds and `exact_seconds` with all digits, unless
// that is 0, as in messages of older releases.
absl::StatusOr<Seconds> ExactTimeFromProto(const google::protobuf::Duration& duration,
                                           double exact_seconds, const std::string& field,
                                           const std::string& exact_field) {
  PARPLAN_ASSIGN_OR_RETURN(const Seconds rounded, TimeFromProto(duration, field));
  if (exact_seconds == 0.0) return rounded;
  // The difference of rounding to nanoseconds, and of a double of many seconds.
  const double tolerance = 1.5e-9 + 1e-12 * rounded.value();
  if (!(std::abs(exact_seconds - rounded.value()) <= tolerance) || exact_seconds < 0.0) {
    return Malformed(exact_field, "must be 0 or the same time as the Duration beside it");
  }
  return Seconds::Of(exact_seconds);
}

absl::StatusOr<int64_t> NotNegative(int64_t value, const std::string& field) {
  if (value < 0) return Malformed(field, "must not be negative");
  return value;
}

absl::StatusOr<double> FiniteRatio(double value, const std::string& field) {
  if (!std::isfinite(value)) return Malformed(field, "must be a finite number");
  return value;
}

absl::StatusOr<MemoryItems> MemoryItemsFromProto(const v1::StagePrediction& message,
                                                 absl::string_view field) {
  MemoryItems items;
  std::array<bool, kMemoryItemKindCount> seen = {};
  int64_t total = 0;
  for (int i = 0; i < message.memory_items_size(); ++i) {
    const v1::MemoryItem& item = message.memory_items(i);
    const std::string path = JoinPath(field, "memory_items", i);
    PARPLAN_ASSIGN_OR_RETURN(const int number,
                             EnumFromProto<int>(item.kind(), JoinPath(path, "kind"), kMalformed));
    if (std::exchange(seen[number - 1], true)) return Malformed(path, "its kind is there already");
    PARPLAN_ASSIGN_OR_RETURN(const int64_t size,
                             NotNegative(item.size_bytes(), JoinPath(path, "size_bytes")));
    if (size > std::numeric_limits<int64_t>::max() - total) {
      return Malformed(path, "the sum of the items does not fit 64 bits");
    }
    total += size;
    items.size[number - 1] = Bytes::Of(size);
  }
  if (total != message.peak_memory_bytes()) {
    return Malformed(JoinPath(field, "peak_memory_bytes"), "must be the sum of memory_items");
  }
  return items;
}

absl::StatusOr<TimeItems> TimeItemsFromProto(const v1::StagePrediction& message,
                                             absl::string_view field) {
  TimeItems items;
  std::array<bool, kTimeItemKindCount> seen = {};
  for (int i = 0; i < message.time_items_size(); ++i) {
    const v1::TimeItem& item = message.time_items(i);
    const std::string path = JoinPath(field, "time_items", i);
    PARPLAN_ASSIGN_OR_RETURN(const int number,
                             EnumFromProto<int>(item.kind(), JoinPath(path, "kind"), kMalformed));
    if (std::exchange(seen[number - 1], true)) return Malformed(path, "its kind is there already");
    PARPLAN_ASSIGN_OR_RETURN(items.duration[number - 1],
                             TimeFromProto(item.duration(), JoinPath(path, "duration")));
  }
  return items;
}

absl::StatusOr<StagePrediction> StageFromProto(const v1::StagePrediction& message,
                                               const std::string& field) {
  StagePrediction stage;
  PARPLAN_ASSIGN_OR_RETURN(stage.forward, TimeFromProto(message.forward_duration(),
                                                        JoinPath(field, "forward_duration")));
  PARPLAN_ASSIGN_OR_RETURN(stage.backward, TimeFromProto(message.backward_duration(),
                                                         JoinPath(field, "backward_duration")));
  PARPLAN_ASSIGN_OR_RETURN(
      stage.gradient_sync,
      TimeFromProto(message.gradient_sync_duration(), JoinPath(field, "gradient_sync_duration")));
  PARPLAN_ASSIGN_OR_RETURN(
      stage.send, TimeFromProto(message.send_duration(), JoinPath(field, "send_duration")));
  PARPLAN_ASSIGN_OR_RETURN(stage.idle_ratio,
                           FiniteRatio(message.idle_ratio(), JoinPath(field, "idle_ratio")));
  PARPLAN_ASSIGN_OR_RETURN(stage.in_flight_micro_batch_count,
                           NotNegative(message.in_flight_micro_batch_count(),
                                       JoinPath(field, "in_flight_micro_batch_count")));
  PARPLAN_ASSIGN_OR_RETURN(
      stage.optimizer_step,
      TimeFromProto(message.optimizer_step_duration(), JoinPath(field, "optimizer_step_duration")));
  if (message.has_backward_weights_duration()) {
    const std::string path = JoinPath(field, "backward_weights_duration");
    PARPLAN_ASSIGN_OR_RETURN(stage.backward_weights,
                             TimeFromProto(message.backward_weights_duration(), path));
    if (stage.backward_weights > stage.backward) {
      return Malformed(path, "must be at most backward_duration");
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(stage.memory, MemoryItemsFromProto(message, field));
  PARPLAN_ASSIGN_OR_RETURN(stage.time, TimeItemsFromProto(message, field));
  return stage;
}

v1::StagePrediction StageToProto(const StagePrediction& stage) {
  v1::StagePrediction message;
  *message.mutable_forward_duration() = DurationToProto(stage.forward);
  *message.mutable_backward_duration() = DurationToProto(stage.backward);
  *message.mutable_gradient_sync_duration() = DurationToProto(stage.gradient_sync);
  *message.mutable_send_duration() = DurationToProto(stage.send);
  message.set_idle_ratio(stage.idle_ratio);
  message.set_in_flight_micro_batch_count(stage.in_flight_micro_batch_count);
  for (int i = 0; i < kMemoryItemKindCount; ++i) {
    v1::MemoryItem& item = *message.add_memory_items();
    item.set_kind(static_cast<v1::MemoryItemKind>(i + 1));
    item.set_size_bytes(stage.memory.size[i].count());
  }
  message.set_peak_memory_bytes(stage.peak_memory().count());
  for (int i = 0; i < kTimeItemKindCount; ++i) {
    v1::TimeItem& item = *message.add_time_items();
    item.set_kind(static_cast<v1::TimeItemKind>(i + 1));
    *item.mutable_duration() = DurationToProto(stage.time.duration[i]);
  }
  *message.mutable_optimizer_step_duration() = DurationToProto(stage.optimizer_step);
  if (stage.backward_weights > Seconds()) {
    *message.mutable_backward_weights_duration() = DurationToProto(stage.backward_weights);
  }
  return message;
}

// Plans of releases without ranges have none; both ends are then the prediction.
absl::Status RangesFromProto(const v1::Prediction& message, absl::string_view field,
                             Prediction& prediction) {
  prediction.step_lower = prediction.step_upper = prediction.step;
  prediction.peak_memory_lower = prediction.peak_memory_upper = prediction.peak_memory;
  prediction.range_basis = message.range_basis();
  if (message.has_step_duration_range()) {
    const std::string path = JoinPath(field, "step_duration_range");
    const v1::DurationRange& range = message.step_duration_range();
    PARPLAN_ASSIGN_OR_RETURN(
        prediction.step_lower,
        TimeFromProto(range.lower_duration(), JoinPath(path, "lower_duration")));
    PARPLAN_ASSIGN_OR_RETURN(
        prediction.step_upper,
        TimeFromProto(range.upper_duration(), JoinPath(path, "upper_duration")));
    if (prediction.step_upper < prediction.step_lower) {
      return Malformed(path, "must not end before it begins");
    }
    // The ends are rounded to nanoseconds, the step is not.
    constexpr Seconds kRounding = Seconds::Of(1e-9);
    if (prediction.step_lower <= prediction.step + kRounding) {
      prediction.step_lower = std::min(prediction.step_lower, prediction.step);
    }
    if (prediction.step_upper + kRounding >= prediction.step) {
      prediction.step_upper = std::max(prediction.step_upper, prediction.step);
    }
  }
  if (message.has_peak_memory_range()) {
    const std::string path = JoinPath(field, "peak_memory_range");
    const v1::MemoryRange& range = message.peak_memory_range();
    PARPLAN_ASSIGN_OR_RETURN(const int64_t lower,
                             NotNegative(range.lower_bytes(), JoinPath(path, "lower_bytes")));
    PARPLAN_ASSIGN_OR_RETURN(const int64_t upper,
                             NotNegative(range.upper_bytes(), JoinPath(path, "upper_bytes")));
    if (upper < lower) return Malformed(path, "must not end before it begins");
    prediction.peak_memory_lower = Bytes::Of(lower);
    prediction.peak_memory_upper = Bytes::Of(upper);
  }
  return absl::OkStatus();
}

}  // namespace

v1::Prediction PredictionToProto(const Prediction& prediction) {
  v1::Prediction message;
  *message.mutable_step_duration() = DurationToProto(prediction.step);
  message.set_step_seconds(prediction.step.value());
  message.set_samples_per_second(prediction.samples_per_second);
  message.set_peak_memory_bytes(prediction.peak_memory.count());
  message.set_usable_memory_bytes(prediction.usable_memory.count());
  for (const StagePrediction& stage : prediction.stages) {
    *message.add_stages() = StageToProto(stage);
  }
  message.set_bottleneck(static_cast<v1::Bottleneck>(prediction.bottleneck));
  message.set_bottleneck_text(prediction.bottleneck_text);
  message.set_confidence(static_cast<v1::Confidence>(prediction.confidence));
  for (const std::string& item : prediction.estimated_items) message.add_estimated_items(item);
  *message.mutable_step_duration_range()->mutable_lower_duration() =
      DurationToProto(prediction.step_lower);
  *message.mutable_step_duration_range()->mutable_upper_duration() =
      DurationToProto(prediction.step_upper);
  message.mutable_peak_memory_range()->set_lower_bytes(prediction.peak_memory_lower.count());
  message.mutable_peak_memory_range()->set_upper_bytes(prediction.peak_memory_upper.count());
  message.set_range_basis(prediction.range_basis);
  return message;
}

absl::StatusOr<Prediction> PredictionFromProto(const v1::Prediction& message,
                                               absl::string_view field) {
  Prediction prediction;
  PARPLAN_ASSIGN_OR_RETURN(
      prediction.step,
      ExactTimeFromProto(message.step_duration(), message.step_seconds(),
                         JoinPath(field, "step_duration"), JoinPath(field, "step_seconds")));
  PARPLAN_ASSIGN_OR_RETURN(
      prediction.samples_per_second,
      FiniteRatio(message.samples_per_second(), JoinPath(field, "samples_per_second")));
  PARPLAN_ASSIGN_OR_RETURN(const int64_t peak, NotNegative(message.peak_memory_bytes(),
                                                           JoinPath(field, "peak_memory_bytes")));
  PARPLAN_ASSIGN_OR_RETURN(
      const int64_t usable,
      NotNegative(message.usable_memory_bytes(), JoinPath(field, "usable_memory_bytes")));
  prediction.peak_memory = Bytes::Of(peak);
  prediction.usable_memory = Bytes::Of(usable);
  for (int i = 0; i < message.stages_size(); ++i) {
    PARPLAN_ASSIGN_OR_RETURN(const StagePrediction stage,
                             StageFromProto(message.stages(i), JoinPath(field, "stages", i)));
    prediction.stages.push_back(stage);
  }
  PARPLAN_ASSIGN_OR_RETURN(
      prediction.bottleneck,
      EnumFromProto<Bottleneck>(message.bottleneck(), JoinPath(field, "bottleneck"), kMalformed));
  prediction.bottleneck_text = message.bottleneck_text();
  PARPLAN_ASSIGN_OR_RETURN(
      prediction.confidence,
      EnumFromProto<Confidence>(message.confidence(), JoinPath(field, "confidence"), kMalformed));
  prediction.estimated_items.assign(message.estimated_items().begin(),
                                    message.estimated_items().end());
  PARPLAN_RETURN_IF_ERROR(RangesFromProto(message, field, prediction));
  return prediction;
}

v1::SearchSummary SearchSummaryToProto(const SearchSummary& summary, Seconds cpu, Seconds wall) {
  v1::SearchSummary message;
  message.set_termination(static_cast<v1::Termination>(summary.termination));
  message.set_limit(static_cast<v1::SearchLimit>(summary.limit));
  *message.mutable_step_duration_bound() = DurationToProto(summary.bound);
  message.set_step_seconds_bound(summary.bound.value());
  message.set_gap_ratio(summary.gap_ratio);
  message.set_expanded_state_count(summary.expanded_state_count);
  message.set_pruned_state_count(summary.pruned_state_count);
  message.set_candidate_count(summary.candidate_count);
  *message.mutable_cpu_duration() = DurationToProto(cpu);
  *message.mutable_wall_duration() = DurationToProto(wall);
  return message;
}

absl::StatusOr<SearchSummary> SearchSummaryFromProto(const v1::SearchSummary& message,
                                                     absl::string_view field) {
  SearchSummary summary;
  PARPLAN_ASSIGN_OR_RETURN(summary.termination,
                           EnumFromProto<Termination>(message.termination(),
                                                      JoinPath(field, "termination"), kMalformed));
  summary.limit = SearchLimit::kNone;
  if (message.limit() != v1::SEARCH_LIMIT_UNSPECIFIED) {
    PARPLAN_ASSIGN_OR_RETURN(
        summary.limit,
        EnumFromProto<SearchLimit>(message.limit(), JoinPath(field, "limit"), kMalformed));
  }
  PARPLAN_ASSIGN_OR_RETURN(
      summary.bound, ExactTimeFromProto(message.step_duration_bound(), message.step_seconds_bound(),
                                        JoinPath(field, "step_duration_bound"),
                                        JoinPath(field, "step_seconds_bound")));
  PARPLAN_ASSIGN_OR_RETURN(summary.gap_ratio,
                           FiniteRatio(message.gap_ratio(), JoinPath(field, "gap_ratio")));
  PARPLAN_ASSIGN_OR_RETURN(
      summary.expanded_state_count,
      NotNegative(message.expanded_state_count(), JoinPath(field, "expanded_state_count")));
  PARPLAN_ASSIGN_OR_RETURN(
      summary.pruned_state_count,
      NotNegative(message.pruned_state_count(), JoinPath(field, "pruned_state_count")));
  PARPLAN_ASSIGN_OR_RETURN(
      summary.candidate_count,
      NotNegative(message.candidate_count(), JoinPath(field, "candidate_count")));
  return summary;
}

}  // namespace parplan
