// Merges stored profiles into a snapshot; declared in profile_wire.h.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/enum_wire.h"
#include "proto/wire/field_path.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/profile_wire.h"

namespace parplan {
namespace {

absl::StatusOr<Origin> OriginFromProto(v1::Origin origin, const std::string& field) {
  if (origin == v1::ORIGIN_UNSPECIFIED) return Origin::kMeasured;
  return EnumFromProto<Origin>(origin, field, Reason::kProfileInvalid);
}

// The points of one layer; the first value of a key is kept.
struct LayerPoints {
  LayerDefinition definition;
  Precision precision = Precision::kBf16;
  std::map<std::tuple<int, int, int>, LayerTimingPoint> timings;
  std::map<std::tuple<int, bool, int>, LayerMemoryPoint> memories;
};

// Adds profiles, newest first, and keeps the first value of every key.
class ProfileMerger {
 public:
  absl::Status Add(const v1::Profile& profile) {
    std::map<std::string, LayerDefinition> definitions;
    for (int i = 0; i < profile.layer_definitions_size(); ++i) {
      PARPLAN_ASSIGN_OR_RETURN(
          LayerDefinition definition,
          LayerDefinitionFromProto(profile.layer_definitions(i),
                                   JoinPath("", "layer_definitions", i), Reason::kProfileInvalid));
      definitions.emplace(profile.layer_definitions(i).layer_definition_id(),
                          std::move(definition));
    }
    if (!profile.layer_timings().empty() || !profile.layer_memories().empty() ||
        !profile.optimizer_timings().empty()) {
      PARPLAN_ASSIGN_OR_RETURN(precision_, PrecisionFromProto(profile.precision(), "precision",
                                                              Reason::kProfileInvalid));
    }
    for (int i = 0; i < profile.layer_timings_size(); ++i) {
      PARPLAN_RETURN_IF_ERROR(
          AddLayerTiming(profile.layer_timings(i), definitions, JoinPath("", "layer_timings", i)));
    }
    for (int i = 0; i < profile.layer_memories_size(); ++i) {
      PARPLAN_RETURN_IF_ERROR(AddLayerMemory(profile.layer_memories(i), definitions,
                                             JoinPath("", "layer_memories", i)));
    }
    for (int i = 0; i < profile.collective_timings_size(); ++i) {
      PARPLAN_RETURN_IF_ERROR(AddCollectiveTiming(profile.collective_timings(i),
                                                  JoinPath("", "collective_timings", i)));
    }
    for (int i = 0; i < profile.optimizer_timings_size(); ++i) {
      PARPLAN_RETURN_IF_ERROR(
          AddOptimizerTiming(profile.optimizer_timings(i), JoinPath("", "optimizer_timings", i)));
    }
    if (profile.has_overlap_slowdown() && !overlap_slowdown_.has_value()) {
      overlap_slowdown_ = profile.overlap_slowdown();
    }
    if (profile.has_context_memory_bytes() && !context_memory_.has_value()) {
      context_memory_ = Bytes::Of(profile.context_memory_bytes());
    }
    return absl::OkStatus();
  }

  // Returns the content, except for kind and size of the nodes and the digest.
  ProfileSnapshot::Content TakeContent() {
    ProfileSnapshot::Content content;
    for (auto& [digest, points] : layers_) {
      MeasuredLayer layer;
      layer.definition = std::move(points.definition);
      layer.precision = points.precision;
      for (auto& [key, point] : points.timings) layer.timings.push_back(point);
      for (auto& [key, point] : points.memories) layer.memories.push_back(point);
      content.layers.push_back(std::move(layer));
    }
    for (auto& [key, point] : collectives_) content.collectives.push_back(point);
    for (auto& [key, point] : optimizers_) content.optimizers.push_back(point);
    content.overlap_slowdown = overlap_slowdown_;
    content.context_memory = context_memory_;
    return content;
  }

 private:
  using Definitions = std::map<std::string, LayerDefinition>;

  absl::StatusOr<const LayerDefinition*> FindDefinition(const Definitions& definitions,
                                                        const std::string& id,
                                                        const std::string& path) const {
    const auto found = definitions.find(id);
    if (found != definitions.end()) return &found->second;
    return FieldError(Reason::kProfileInvalid, JoinPath(path, "layer_definition_id"),
                      absl::StrCat("no entry of layer_definitions has the id `", id, "`"));
  }

  LayerPoints& PointsOf(const LayerDefinition& definition) {
    const auto [entry, is_new] = layers_.try_emplace(LayerDigest(definition, precision_));
    if (is_new) {
      entry->second.definition = definition;
      entry->second.precision = precision_;
    }
    return entry->second;
  }

  absl::Status AddLayerTiming(const v1::LayerTiming& timing, const Definitions& definitions,
                              const std::string& path) {
    PARPLAN_ASSIGN_OR_RETURN(const LayerDefinition* definition,
                             FindDefinition(definitions, timing.layer_definition_id(), path));
    LayerTimingPoint point;
    point.tensor_parallel_degree = timing.tensor_parallel_degree();
    point.micro_batch_size = timing.micro_batch_size();
    point.sequence_length =
        timing.sequence_length() == 0 ? definition->sequence_length : timing.sequence_length();
    PARPLAN_ASSIGN_OR_RETURN(point.forward, SecondsFromProto(timing.forward_duration(),
                                                             JoinPath(path, "forward_duration"),
                                                             Reason::kProfileInvalid));
    if (timing.has_backward_duration()) {
      PARPLAN_ASSIGN_OR_RETURN(point.backward, SecondsFromProto(timing.backward_duration(),
                                                                JoinPath(path, "backward_duration"),
                                                                Reason::kProfileInvalid));
    }
    PARPLAN_ASSIGN_OR_RETURN(point.origin,
                             OriginFromProto(timing.origin(), JoinPath(path, "origin")));
    PointsOf(*definition)
        .timings.try_emplace(std::make_tuple(point.tensor_parallel_degree, point.sequence_length,
                                             point.micro_batch_size),
                             point);
    return absl::OkStatus();
  }

  absl::Status AddLayerMemory(const v1::LayerMemory& memory, const Definitions& definitions,
                              const std::string& path) {
    PARPLAN_ASSIGN_OR_RETURN(const LayerDefinition* definition,
                             FindDefinition(definitions, memory.layer_definition_id(), path));
    LayerMemoryPoint point;
    point.tensor_parallel_degree = memory.tensor_parallel_degree();
    point.sequence_parallel = memory.sequence_parallel();
    point.sequence_length =
        memory.sequence_length() == 0 ? definition->sequence_length : memory.sequence_length();
    point.parameter_count = memory.parameter_count();
    point.activation_per_sample = Bytes::Of(memory.activation_bytes_per_sample());
    if (memory.has_checkpoint_bytes_per_sample()) {
      point.checkpoint_per_sample = Bytes::Of(memory.checkpoint_bytes_per_sample());
    }
    PARPLAN_ASSIGN_OR_RETURN(point.origin,
                             OriginFromProto(memory.origin(), JoinPath(path, "origin")));
    PointsOf(*definition)
        .memories.try_emplace(std::make_tuple(point.tensor_parallel_degree, point.sequence_parallel,
                                              point.sequence_length),
                              point);
    return absl::OkStatus();
  }

  absl::Status AddCollectiveTiming(const v1::CollectiveTiming& timing, const std::string& path) {
    CollectivePoint point;
    PARPLAN_ASSIGN_OR_RETURN(
        point.collective,
        EnumFromProto<Collective>(timing.collective(), JoinPath(path, "collective"),
                                  Reason::kProfileInvalid));
    point.participant_count = timing.participant_count();
    point.rank_stride = timing.rank_stride();
    point.message_size = Bytes::Of(timing.message_size_bytes());
    PARPLAN_ASSIGN_OR_RETURN(point.duration, SecondsFromProto(timing.median_duration(),
                                                              JoinPath(path, "median_duration"),
                                                              Reason::kProfileInvalid));
    PARPLAN_ASSIGN_OR_RETURN(point.origin,
                             OriginFromProto(timing.origin(), JoinPath(path, "origin")));
    collectives_.try_emplace(
        std::make_tuple(static_cast<int>(point.collective), point.participant_count,
                        point.rank_stride, point.message_size.count()),
        point);
    return absl::OkStatus();
  }

  absl::Status AddOptimizerTiming(const v1::OptimizerTiming& timing, const std::string& path) {
    OptimizerPoint point;
    PARPLAN_ASSIGN_OR_RETURN(
        point.optimizer, EnumFromProto<Optimizer>(timing.optimizer(), JoinPath(path, "optimizer"),
                                                  Reason::kProfileInvalid));
    point.precision = precision_;
    point.parameter_count = timing.parameter_count();
    PARPLAN_ASSIGN_OR_RETURN(point.duration, SecondsFromProto(timing.median_duration(),
                                                              JoinPath(path, "median_duration"),
                                                              Reason::kProfileInvalid));
    PARPLAN_ASSIGN_OR_RETURN(point.origin,
                             OriginFromProto(timing.origin(), JoinPath(path, "origin")));
    optimizers_.try_emplace(
        std::make_tuple(static_cast<int>(point.optimizer), static_cast<int>(point.precision),
                        point.parameter_count),
        point);
    return absl::OkStatus();
  }

  // Layers of the profile that is being added.
  Precision precision_ = Precision::kBf16;
  // Keyed by layer digest, so that the order of profiles does not matter.
  std::map<std::string, LayerPoints> layers_;
  std::map<std::tuple<int, int, int, int64_t>, CollectivePoint> collectives_;
  std::map<std::tuple<int, int, int64_t>, OptimizerPoint> optimizers_;
  std::optional<double> overlap_slowdown_;
  std::optional<Bytes> context_memory_;
};

std::string NodeKind(absl::string_view device_kind, int devices_per_node) {
  return absl::StrCat("`", device_kind, "` with ", devices_per_node, " devices a node");
}

}  // namespace

absl::StatusOr<ProfileSnapshot> MergeProfiles(absl::Span<const v1::Profile* const> newest_first,
                                              absl::string_view device_kind, int devices_per_node) {
  ProfileMerger merger;
  std::set<std::string> other_kinds;
  bool any = false;
  for (const v1::Profile* profile : newest_first) {
    if (profile->device_kind() != device_kind || profile->devices_per_node() != devices_per_node) {
      other_kinds.insert(NodeKind(profile->device_kind(), profile->devices_per_node()));
      continue;
    }
    any = true;
    PARPLAN_RETURN_IF_ERROR(merger.Add(*profile));
  }
  if (!any) {
    const std::string missing = NodeKind(device_kind, devices_per_node);
    return MakeError(
        absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing,
        absl::StrCat("no profile of ", missing, "; there are ",
                     other_kinds.empty() ? "none at all" : absl::StrJoin(other_kinds, ", "),
                     ". Measure such a node and upload its profile"),
        {{"count", "1"}, {"missing0", absl::StrCat("a profile of ", missing)}});
  }
  ProfileSnapshot::Content content = merger.TakeContent();
  content.device_kind = std::string(device_kind);
  content.devices_per_node = devices_per_node;
  content.digest = SnapshotDigest(content);
  return ProfileSnapshot::Create(std::move(content));
}

}  // namespace parplan
