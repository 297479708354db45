// Merges stored profiles into a snapshot; declared in snapshot_builder.h.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
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
#include "proto/wire/part_of_node.h"
#include "proto/wire/profile_selection.h"
#include "proto/wire/snapshot_builder.h"

namespace parplan {
namespace {

// Returns what `read` reads of a field: the member `member` of entry `index` of `list`. It takes
// the name of the field for its error, which is made only after one: a large profile has 100,000
// entries.
template <typename Read>
auto ReadMember(const char* list, int index, const char* member, const Read& read)
    -> decltype(read(std::string())) {
  auto value = read("");
  if (value.ok()) return value;
  return read(JoinPath(JoinPath("", list, index), member));
}

absl::StatusOr<Seconds> ReadSeconds(const char* list, int index, const char* member,
                                    const google::protobuf::Duration& duration) {
  return ReadMember(list, index, member, [&duration](absl::string_view field) {
    return SecondsFromProto(duration, field, Reason::kProfileInvalid);
  });
}

absl::StatusOr<Origin> ReadOrigin(const char* list, int index, v1::Origin origin) {
  if (origin == v1::ORIGIN_UNSPECIFIED) return Origin::kMeasured;
  return ReadMember(list, index, "origin", [origin](absl::string_view field) {
    return EnumFromProto<Origin>(origin, field, Reason::kProfileInvalid);
  });
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
    Definitions definitions;
    for (int i = 0; i < profile.layer_definitions_size(); ++i) {
      const v1::LayerDefinition& message = profile.layer_definitions(i);
      Definition& known = definitions_[absl::StrCat(static_cast<int>(profile.precision()), " ",
                                                    message.SerializeAsString())];
      if (!known.is_read) {
        PARPLAN_ASSIGN_OR_RETURN(
            known.layer, LayerDefinitionFromProto(message, JoinPath("", "layer_definitions", i),
                                                  Reason::kProfileInvalid));
        known.is_read = true;
      }
      definitions.emplace(message.layer_definition_id(), &known);
    }
    found_ = definitions.end();
    if (!profile.layer_timings().empty() || !profile.layer_memories().empty() ||
        !profile.optimizer_timings().empty()) {
      PARPLAN_ASSIGN_OR_RETURN(precision_, PrecisionFromProto(profile.precision(), "precision",
                                                              Reason::kProfileInvalid));
    }
    for (int i = 0; i < profile.layer_timings_size(); ++i) {
      PARPLAN_RETURN_IF_ERROR(AddLayerTiming(profile.layer_timings(i), definitions, i));
    }
    for (int i = 0; i < profile.layer_memories_size(); ++i) {
      PARPLAN_RETURN_IF_ERROR(AddLayerMemory(profile.layer_memories(i), definitions, i));
    }
    PARPLAN_RETURN_IF_ERROR(AddCollectives(profile));
    for (int i = 0; i < profile.optimizer_timings_size(); ++i) {
      PARPLAN_RETURN_IF_ERROR(AddOptimizerTiming(profile.optimizer_timings(i), i));
    }
    if (profile.has_overlap_slowdown() && !overlap_slowdown_.has_value()) {
      overlap_slowdown_ = profile.overlap_slowdown();
    }
    if (profile.has_context_memory_bytes() && !context_memory_.has_value()) {
      context_memory_ = Bytes::Of(profile.context_memory_bytes());
      // One profile's figures: the context of another may have communicators in it.
      if (profile.has_communicator_memory_bytes()) {
        communicator_memory_ = Bytes::Of(profile.communicator_memory_bytes());
      }
    }
    return absl::OkStatus();
  }

  // Adds the collectives of a profile alone.
  absl::Status AddCollectives(const v1::Profile& profile) {
    for (int i = 0; i < profile.collective_timings_size(); ++i) {
      PARPLAN_RETURN_IF_ERROR(AddCollectiveTiming(profile.collective_timings(i), i));
    }
    return absl::OkStatus();
  }

  // Adds the collectives that another merger has and this one has not.
  void TakeCollectivesOf(ProfileMerger& other) { collectives_.merge(other.collectives_); }

  // Returns the content, except for kind and size of the nodes and the digest. Appends the digest
  // of each of its layers to `layer_digests`.
  ProfileSnapshot::Content TakeContent(std::vector<std::string>& layer_digests) {
    ProfileSnapshot::Content content;
    content.layers.reserve(layers_.size());
    for (auto& [digest, points] : layers_) {
      layer_digests.push_back(digest);
      MeasuredLayer layer;
      layer.definition = std::move(points.definition);
      layer.precision = points.precision;
      layer.timings.reserve(points.timings.size());
      for (auto& [key, point] : points.timings) layer.timings.push_back(point);
      layer.memories.reserve(points.memories.size());
      for (auto& [key, point] : points.memories) layer.memories.push_back(point);
      content.layers.push_back(std::move(layer));
    }
    for (auto& [key, point] : collectives_) content.collectives.push_back(point);
    for (auto& [key, point] : optimizers_) content.optimizers.push_back(point);
    content.overlap_slowdown = overlap_slowdown_;
    content.context_memory = context_memory_;
    content.communicator_memory = communicator_memory_;
    return content;
  }

 private:
  struct Definition {
    bool is_read = false;
    LayerDefinition layer;
    LayerPoints* points = nullptr;  // Null until its first point.
  };
  // The definitions of a profile, by id.
  using Definitions = std::map<std::string, Definition*>;

  absl::StatusOr<Definition*> FindDefinition(const Definitions& definitions, const std::string& id,
                                             const char* list, int index) {
    // Points of one definition mostly come together.
    if (found_ != definitions.end() && found_->first == id) return found_->second;
    found_ = definitions.find(id);
    if (found_ != definitions.end()) return found_->second;
    return FieldError(Reason::kProfileInvalid,
                      JoinPath(JoinPath("", list, index), "layer_definition_id"),
                      absl::StrCat("no entry of layer_definitions has the id `", id, "`"));
  }

  LayerPoints& PointsOf(Definition& definition) {
    if (definition.points != nullptr) return *definition.points;
    // Once for all points of the definition: the digest takes longer than they do.
    const auto [entry, is_new] = layers_.try_emplace(LayerDigest(definition.layer, precision_));
    if (is_new) {
      entry->second.definition = definition.layer;
      entry->second.precision = precision_;
    }
    definition.points = &entry->second;
    return entry->second;
  }

  // Keys that are known are not read any further: of many nodes that are alike only the newest is.
  absl::Status AddLayerTiming(const v1::LayerTiming& timing, const Definitions& definitions,
                              int index) {
    PARPLAN_ASSIGN_OR_RETURN(
        Definition* const definition,
        FindDefinition(definitions, timing.layer_definition_id(), "layer_timings", index));
    LayerTimingPoint point;
    point.tensor_parallel_degree = timing.tensor_parallel_degree();
    point.micro_batch_size = timing.micro_batch_size();
    point.sequence_length = timing.sequence_length() == 0 ? definition->layer.sequence_length
                                                          : timing.sequence_length();
    const auto [entry, is_new] =
        PointsOf(*definition)
            .timings.try_emplace(std::make_tuple(point.tensor_parallel_degree,
                                                 point.sequence_length, point.micro_batch_size));
    if (!is_new) return absl::OkStatus();
    PARPLAN_ASSIGN_OR_RETURN(point.forward, ReadSeconds("layer_timings", index, "forward_duration",
                                                        timing.forward_duration()));
    if (timing.has_backward_duration()) {
      PARPLAN_ASSIGN_OR_RETURN(
          point.backward,
          ReadSeconds("layer_timings", index, "backward_duration", timing.backward_duration()));
    }
    PARPLAN_ASSIGN_OR_RETURN(point.origin, ReadOrigin("layer_timings", index, timing.origin()));
    entry->second = point;
    return absl::OkStatus();
  }

  absl::Status AddLayerMemory(const v1::LayerMemory& memory, const Definitions& definitions,
                              int index) {
    PARPLAN_ASSIGN_OR_RETURN(
        Definition* const definition,
        FindDefinition(definitions, memory.layer_definition_id(), "layer_memories", index));
    LayerMemoryPoint point;
    point.tensor_parallel_degree = memory.tensor_parallel_degree();
    point.sequence_parallel = memory.sequence_parallel();
    point.sequence_length = memory.sequence_length() == 0 ? definition->layer.sequence_length
                                                          : memory.sequence_length();
    const auto [entry, is_new] =
        PointsOf(*definition)
            .memories.try_emplace(std::make_tuple(point.tensor_parallel_degree,
                                                  point.sequence_parallel, point.sequence_length));
    if (!is_new) return absl::OkStatus();
    point.parameter_count = memory.parameter_count();
    point.activation_per_sample = Bytes::Of(memory.activation_bytes_per_sample());
    if (memory.has_checkpoint_bytes_per_sample()) {
      point.checkpoint_per_sample = Bytes::Of(memory.checkpoint_bytes_per_sample());
    }
    PARPLAN_ASSIGN_OR_RETURN(point.origin, ReadOrigin("layer_memories", index, memory.origin()));
    entry->second = point;
    return absl::OkStatus();
  }

  absl::Status AddCollectiveTiming(const v1::CollectiveTiming& timing, int index) {
    const auto [entry, is_new] = collectives_.try_emplace(
        std::make_tuple(static_cast<int>(timing.collective()), timing.participant_count(),
                        timing.rank_stride(), timing.message_size_bytes()));
    if (!is_new) return absl::OkStatus();
    CollectivePoint point;
    PARPLAN_ASSIGN_OR_RETURN(
        point.collective,
        ReadMember("collective_timings", index, "collective", [&timing](absl::string_view field) {
          return EnumFromProto<Collective>(timing.collective(), field, Reason::kProfileInvalid);
        }));
    point.participant_count = timing.participant_count();
    point.rank_stride = timing.rank_stride();
    point.message_size = Bytes::Of(timing.message_size_bytes());
    PARPLAN_ASSIGN_OR_RETURN(
        point.duration,
        ReadSeconds("collective_timings", index, "median_duration", timing.median_duration()));
    PARPLAN_ASSIGN_OR_RETURN(point.origin,
                             ReadOrigin("collective_timings", index, timing.origin()));
    entry->second = point;
    return absl::OkStatus();
  }

  absl::Status AddOptimizerTiming(const v1::OptimizerTiming& timing, int index) {
    const auto [entry, is_new] = optimizers_.try_emplace(
        std::make_tuple(static_cast<int>(timing.optimizer()), static_cast<int>(precision_),
                        timing.parameter_count()));
    if (!is_new) return absl::OkStatus();
    OptimizerPoint point;
    PARPLAN_ASSIGN_OR_RETURN(
        point.optimizer,
        ReadMember("optimizer_timings", index, "optimizer", [&timing](absl::string_view field) {
          return EnumFromProto<Optimizer>(timing.optimizer(), field, Reason::kProfileInvalid);
        }));
    point.precision = precision_;
    point.parameter_count = timing.parameter_count();
    PARPLAN_ASSIGN_OR_RETURN(
        point.duration,
        ReadSeconds("optimizer_timings", index, "median_duration", timing.median_duration()));
    PARPLAN_ASSIGN_OR_RETURN(point.origin, ReadOrigin("optimizer_timings", index, timing.origin()));
    entry->second = point;
    return absl::OkStatus();
  }

  // Layers of the profile that is being added, and the definition that was looked up last.
  Definitions::const_iterator found_;
  Precision precision_ = Precision::kBf16;
  // By precision and bytes, so that those of many nodes that are alike are read once.
  std::unordered_map<std::string, Definition> definitions_;
  // Keyed by layer digest, so that the order of profiles does not matter.
  std::map<std::string, LayerPoints> layers_;
  std::map<std::tuple<int, int, int, int64_t>, CollectivePoint> collectives_;
  std::map<std::tuple<int, int, int64_t>, OptimizerPoint> optimizers_;
  std::optional<double> overlap_slowdown_;
  std::optional<Bytes> context_memory_;
  std::optional<Bytes> communicator_memory_;
};

std::string NodeKind(absl::string_view device_kind, int devices_per_node) {
  return absl::StrCat("`", device_kind, "` with ", devices_per_node, " devices a node");
}

// PROFILE_MISSING with the other kinds of nodes that were measured.
absl::Status NoSuchNodeError(absl::string_view device_kind, int devices_per_node,
                             const std::set<std::string>& other_kinds) {
  const std::string missing = NodeKind(device_kind, devices_per_node);
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing,
      absl::StrCat("no profile of ", missing, "; there are ",
                   other_kinds.empty() ? "none at all" : absl::StrJoin(other_kinds, ", "),
                   ". Measure such a node and upload its profile"),
      {{"count", "1"}, {"missing0", absl::StrCat("a profile of ", missing)}});
}

absl::StatusOr<ProfileSnapshot> SnapshotOf(ProfileMerger& merger, absl::string_view device_kind,
                                           int devices_per_node) {
  std::vector<std::string> layer_digests;
  ProfileSnapshot::Content content = merger.TakeContent(layer_digests);
  content.device_kind = std::string(device_kind);
  content.devices_per_node = devices_per_node;
  content.digest = SnapshotDigest(content, layer_digests);
  return ProfileSnapshot::Create(std::move(content));
}

}  // namespace

struct SnapshotBuilder::State {
  // The measurements of nodes of one size.
  struct Nodes {
    ProfileMerger own;
    ProfileMerger of_other_runtimes;  // Collectives alone; older than all of `own`.
  };

  std::string device_kind;
  int devices_per_node = 0;
  RuntimeSelection selection;
  std::map<int, Nodes> nodes;  // By devices per node.
  std::set<std::string> other_kinds;
};

SnapshotBuilder::SnapshotBuilder(absl::string_view device_kind, int devices_per_node,
                                 absl::string_view runtime_id)
    : state_(new State{.device_kind = std::string(device_kind),
                       .devices_per_node = devices_per_node,
                       .selection = RuntimeSelection(device_kind, runtime_id),
                       .nodes = {},
                       .other_kinds = {}}) {}

SnapshotBuilder::~SnapshotBuilder() = default;

absl::StatusOr<bool> SnapshotBuilder::Add(const v1::Profile& profile) {
  const int size = profile.devices_per_node();
  if (profile.device_kind() != state_->device_kind) {
    state_->other_kinds.insert(NodeKind(profile.device_kind(), size));
    return false;
  }
  switch (state_->selection.Next(profile)) {
    case RuntimeSelection::Part::kNone:
      return false;
    case RuntimeSelection::Part::kWhole:
      PARPLAN_RETURN_IF_ERROR(state_->nodes[size].own.Add(profile));
      return true;
    case RuntimeSelection::Part::kCollectives:
      PARPLAN_RETURN_IF_ERROR(state_->nodes[size].of_other_runtimes.AddCollectives(profile));
      return true;
  }
  return false;
}

int SnapshotBuilder::measured_size() const {
  const int asked = state_->devices_per_node;
  for (auto size = state_->nodes.lower_bound(asked); size != state_->nodes.end(); ++size) {
    if (asked > 0 && size->first % asked == 0) return size->first;
  }
  return asked;
}

absl::StatusOr<ProfileSnapshot> SnapshotBuilder::Finish() {
  PARPLAN_RETURN_IF_ERROR(state_->selection.Check());
  const int size = measured_size();
  const auto found = state_->nodes.find(size);
  if (found == state_->nodes.end()) {
    for (const auto& [other_size, nodes] : state_->nodes) {
      state_->other_kinds.insert(NodeKind(state_->device_kind, other_size));
    }
    return NoSuchNodeError(state_->device_kind, size, state_->other_kinds);
  }
  found->second.own.TakeCollectivesOf(found->second.of_other_runtimes);
  PARPLAN_ASSIGN_OR_RETURN(ProfileSnapshot snapshot,
                           SnapshotOf(found->second.own, state_->device_kind, size));
  if (size == state_->devices_per_node) return snapshot;
  return PartOfNode(snapshot, state_->devices_per_node);
}

}  // namespace parplan
