#include "planner/model/profile_snapshot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

absl::Status ProfileError(const std::string& field, const std::string& rule) {
  return FieldError(Reason::kProfileInvalid, field, rule);
}

bool IsTime(Seconds seconds) { return seconds.is_finite() && seconds > Seconds(); }

auto KeyOf(const LayerTimingPoint& point) {
  return std::make_tuple(point.tensor_parallel_degree, point.sequence_length,
                         point.micro_batch_size);
}

auto KeyOf(const LayerMemoryPoint& point) {
  return std::make_tuple(point.tensor_parallel_degree, point.sequence_parallel,
                         point.sequence_length);
}

auto KeyOf(const CollectivePoint& point) {
  return std::make_tuple(point.collective, point.participant_count, point.rank_stride,
                         point.message_size);
}

auto KeyOf(const OptimizerPoint& point) {
  return std::make_tuple(point.optimizer, point.precision, point.parameter_count);
}

// Returns fields in which most layers differ that are not the same. Layers with different keys are
// different layers; those with equal ones may be too.
auto RoughKeyOf(const MeasuredLayer& layer) {
  const LayerDefinition& definition = layer.definition;
  return std::make_tuple(
      layer.precision, definition.kind, definition.hidden_size, definition.attention_head_count,
      definition.key_value_head_count, definition.feed_forward_size, definition.vocabulary_size,
      definition.parameter_count, definition.expert_count, definition.attention_window,
      definition.opaque.has_value() ? definition.opaque->kept_bytes_per_sample : 0,
      definition.state_space.has_value() ? definition.state_space->inner_size : 0);
}

// Sorts by key. Returns false if two points have the same key.
template <typename Point>
bool SortByKey(std::vector<Point>& points) {
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return KeyOf(a) < KeyOf(b); });
  return std::adjacent_find(points.begin(), points.end(), [](const Point& a, const Point& b) {
           return KeyOf(a) == KeyOf(b);
         }) == points.end();
}

// The name of a point in errors: entry `index` of the list `list` of a layer. Most points have no
// error, so the text is made only for one that has.
struct PointName {
  std::string operator+(const char* member) const {
    return absl::StrCat(layer, ".", list, "[", index, "]", member);
  }

  const std::string& layer;
  const char* list;
  size_t index;
};

absl::Status CheckTiming(const LayerTimingPoint& point, const PointName& field) {
  if (point.tensor_parallel_degree < 1) {
    return ProfileError(field + ".tensor_parallel_degree", "must be at least 1");
  }
  if (point.micro_batch_size < 1)
    return ProfileError(field + ".micro_batch_size", "must be at least 1");
  if (point.sequence_length < 1)
    return ProfileError(field + ".sequence_length", "must be at least 1");
  if (!IsTime(point.forward)) return ProfileError(field + ".forward_duration", "must be above 0");
  if (point.backward.has_value() && !IsTime(*point.backward)) {
    return ProfileError(field + ".backward_duration", "must be above 0");
  }
  return absl::OkStatus();
}

absl::Status CheckMemory(const LayerMemoryPoint& point, const PointName& field) {
  if (point.tensor_parallel_degree < 1) {
    return ProfileError(field + ".tensor_parallel_degree", "must be at least 1");
  }
  if (point.sequence_length < 1)
    return ProfileError(field + ".sequence_length", "must be at least 1");
  if (point.parameter_count < 0)
    return ProfileError(field + ".parameter_count", "must not be negative");
  if (point.activation_per_sample < Bytes()) {
    return ProfileError(field + ".activation_bytes_per_sample", "must not be negative");
  }
  if (point.checkpoint_per_sample.has_value() && *point.checkpoint_per_sample < Bytes()) {
    return ProfileError(field + ".checkpoint_bytes_per_sample", "must not be negative");
  }
  return absl::OkStatus();
}

absl::Status CheckCollective(const CollectivePoint& point, const std::string& field) {
  if (point.participant_count < 2) {
    return ProfileError(field + ".participant_count", "must be at least 2");
  }
  if (point.collective == Collective::kSendReceive && point.participant_count != 2) {
    return ProfileError(field + ".participant_count", "must be 2 for send-receive");
  }
  if (point.rank_stride < 1) return ProfileError(field + ".rank_stride", "must be at least 1");
  if (point.message_size <= Bytes()) {
    return ProfileError(field + ".message_size_bytes", "must be above 0");
  }
  if (!IsTime(point.duration)) return ProfileError(field + ".median_duration", "must be above 0");
  return absl::OkStatus();
}

}  // namespace

const char* CollectiveName(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all-reduce";
    case Collective::kAllGather:
      return "all-gather";
    case Collective::kReduceScatter:
      return "reduce-scatter";
    case Collective::kAllToAll:
      return "all-to-all";
    case Collective::kSendReceive:
      return "send-receive";
    case Collective::kBroadcast:
      return "broadcast";
  }
  return "collective";
}

absl::StatusOr<ProfileSnapshot> ProfileSnapshot::Create(Content content) {
  if (content.device_kind.empty()) return ProfileError("device_kind", "must not be empty");
  if (content.devices_per_node < 1) return ProfileError("devices_per_node", "must be at least 1");
  if (content.overlap_slowdown.has_value() &&
      !(std::isfinite(*content.overlap_slowdown) && *content.overlap_slowdown >= 1.0)) {
    return ProfileError("overlap_slowdown", "must be at least 1");
  }
  if (content.context_memory.has_value() && *content.context_memory < Bytes()) {
    return ProfileError("context_memory_bytes", "must not be negative");
  }
  if (content.communicator_memory.has_value()) {
    if (*content.communicator_memory < Bytes()) {
      return ProfileError("communicator_memory_bytes", "must not be negative");
    }
    if (!content.context_memory.has_value()) {
      return ProfileError("communicator_memory_bytes", "needs context_memory_bytes");
    }
  }
  // Comparing each layer with all before it took three quarters of the first question about a
  // profile of 10,000 layers.
  std::map<decltype(RoughKeyOf(MeasuredLayer())), std::vector<const MeasuredLayer*>> alike;
  for (MeasuredLayer& layer : content.layers) {
    const std::string field = absl::StrCat("layer `", layer.definition.layer_definition_id, "`");
    std::vector<const MeasuredLayer*>& earlier = alike[RoughKeyOf(layer)];
    for (const MeasuredLayer* const other : earlier) {
      if (SameLayer(other->definition, layer.definition)) {
        return ProfileError(
            field, absl::StrCat("is the same as `", other->definition.layer_definition_id, "`"));
      }
    }
    earlier.push_back(&layer);
    for (size_t k = 0; k < layer.timings.size(); ++k) {
      PARPLAN_RETURN_IF_ERROR(CheckTiming(layer.timings[k], {field, "layer_timings", k}));
    }
    for (size_t k = 0; k < layer.memories.size(); ++k) {
      PARPLAN_RETURN_IF_ERROR(CheckMemory(layer.memories[k], {field, "layer_memories", k}));
    }
    if (!SortByKey(layer.timings)) return ProfileError(field, "has two timings of the same key");
    if (!SortByKey(layer.memories)) return ProfileError(field, "has two memories of the same key");
  }
  for (size_t k = 0; k < content.collectives.size(); ++k) {
    PARPLAN_RETURN_IF_ERROR(
        CheckCollective(content.collectives[k], absl::StrCat("collective_timings[", k, "]")));
  }
  if (!SortByKey(content.collectives)) {
    return ProfileError("collective_timings", "has two of the same key");
  }
  for (size_t k = 0; k < content.optimizers.size(); ++k) {
    const OptimizerPoint& point = content.optimizers[k];
    const std::string field = absl::StrCat("optimizer_timings[", k, "]");
    if (point.parameter_count < 1)
      return ProfileError(field + ".parameter_count", "must be at least 1");
    if (!IsTime(point.duration)) return ProfileError(field + ".median_duration", "must be above 0");
  }
  if (!SortByKey(content.optimizers)) {
    return ProfileError("optimizer_timings", "has two of the same key");
  }
  ProfileSnapshot snapshot;
  snapshot.content_ = std::move(content);
  return snapshot;
}

const MeasuredLayer* ProfileSnapshot::FindLayer(const LayerDefinition& definition,
                                                Precision precision) const {
  for (const MeasuredLayer& layer : content_.layers) {
    if (layer.precision == precision && SameLayer(layer.definition, definition)) return &layer;
  }
  return nullptr;
}

}  // namespace parplan
