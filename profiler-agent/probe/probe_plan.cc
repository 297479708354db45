#include "profiler-agent/probe/probe_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "profiler-agent/probe/float_bytes.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/model_wire.h"

namespace parplan {
namespace {

using agent::v1::CollectiveKey;
using agent::v1::LayerKey;
using agent::v1::ProbePlan;

// Time for one size of one collective. Sizes are four times as far apart instead of twice if all of
// them would take more than half of the budget (`WholeProbe`). Not measured for other values.
constexpr absl::Duration kCollectiveTimeLimit = absl::Milliseconds(200);
// Bounds of the time for one layer, of which each gets an equal part of what collectives leave. Not
// measured for other values.
constexpr absl::Duration kLongestLayerTime = absl::Seconds(20);
constexpr absl::Duration kShortestLayerTime = absl::Seconds(1);
// Uncertainty of a median (`ProbePlan.precision`) at which a measurement ends before its time. Not
// measured for other values.
constexpr double kPrecision = 0.02;

constexpr Collective kCollectives[] = {
    Collective::kAllReduce, Collective::kAllGather,   Collective::kReduceScatter,
    Collective::kAllToAll,  Collective::kSendReceive, Collective::kBroadcast,
};

// Returns every shape (participant count, stride) whose side-by-side groups use all ranks.
std::vector<std::pair<int, int>> ShapesOf(int rank_count) {
  std::vector<std::pair<int, int>> shapes;
  for (int participants = 2; participants <= rank_count; ++participants) {
    for (int stride = 1; participants * stride <= rank_count; ++stride) {
      if (rank_count % (participants * stride) == 0) shapes.emplace_back(participants, stride);
    }
  }
  return shapes;
}

// Kind, participants, stride and bytes of a `CollectiveKey` or a `CollectiveTiming`.
using CollectivePlace = std::tuple<v1::Collective, int, int, int64_t>;

template <typename Message>
CollectivePlace PlaceOf(const Message& message) {
  return {message.collective(), message.participant_count(), message.rank_stride(),
          message.message_size_bytes()};
}

// Lists small messages of all groups first: they are useful on their own if time runs out.
std::vector<CollectiveKey> CollectivesOf(const ProbeRequest& request, int64_t growth) {
  std::vector<CollectiveKey> keys;
  std::set<CollectivePlace> places;
  const std::vector<std::pair<int, int>> shapes = ShapesOf(request.rank_count);
  for (int64_t bytes = request.smallest_message_bytes; bytes <= request.largest_message_bytes;
       bytes *= growth) {
    for (const auto& [participants, stride] : shapes) {
      for (const Collective collective : kCollectives) {
        if (collective == Collective::kSendReceive && participants != 2) continue;
        // parplan-torch measures no broadcasts, and names a message by the size it is asked for.
        if (request.torch.has_value() && collective == Collective::kBroadcast) continue;
        CollectiveKey& key = keys.emplace_back();
        // Enums of both sides have the same numbers (proto/wire/profile_rules.cc).
        key.set_collective(static_cast<v1::Collective>(collective));
        key.set_participant_count(participants);
        key.set_rank_stride(stride);
        key.set_message_size_bytes(
            request.torch.has_value() ? bytes : WholeMessageBytes(collective, participants, bytes));
        // The smallest sizes of a large group round to one.
        if (!places.insert(PlaceOf(key)).second) keys.pop_back();
      }
    }
  }
  return keys;
}

// Returns whether `degree` divides everything that tensor parallelism splits in a layer.
bool Divides(int degree, const LayerDefinition& layer) {
  if (!IsTransformer(layer.kind)) return true;
  return SplitsOverTensorRanks(layer, degree) && layer.feed_forward_size % degree == 0;
}

// Lists small micro-batches of all degrees first, for the same reason.
std::vector<LayerKey> LayersOf(const ProbeRequest& request) {
  std::vector<LayerKey> keys;
  const auto add = [&](size_t model, int degree, int size) {
    const std::vector<LayerDefinition>& layers = request.models[model].layer_definitions();
    if (request.rank_count % degree != 0 ||
        !std::all_of(layers.begin(), layers.end(),
                     [degree](const LayerDefinition& layer) { return Divides(degree, layer); })) {
      return;
    }
    LayerKey& key = keys.emplace_back();
    key.set_model_index(static_cast<int>(model));
    key.set_tensor_parallel_degree(degree);
    key.set_micro_batch_size(size);
  };
  for (const int size : request.micro_batch_sizes) {
    for (size_t model = 0; model < request.models.size(); ++model) {
      for (int degree = 1; degree <= request.rank_count; ++degree) add(model, degree, size);
    }
  }
  return keys;
}

CollectiveShape ShapeOf(const CollectiveKey& key) {
  return {key.collective(), key.participant_count(), key.rank_stride()};
}

// Returns the digests of a profile's layers by id. They ignore precision, which is the profile's.
std::map<std::string, std::string> DigestsById(const v1::Profile& profile) {
  std::map<std::string, std::string> digests;
  for (const v1::LayerDefinition& message : profile.layer_definitions()) {
    const auto layer = LayerDefinitionFromProto(message, "layer_definitions");
    if (layer.ok()) {
      digests[message.layer_definition_id()] = LayerDigest(*layer, Precision::kFp32);
    }
  }
  return digests;
}

using LayerPlace = std::tuple<std::string, int, int, int>;
std::set<LayerPlace> LayerPlacesOf(const v1::Profile& profile) {
  std::set<LayerPlace> places;
  const std::map<std::string, std::string> digests = DigestsById(profile);
  std::map<std::string, int> lengths;
  for (const v1::LayerDefinition& layer : profile.layer_definitions()) {
    lengths[layer.layer_definition_id()] = layer.sequence_length();
  }
  for (const v1::LayerTiming& timing : profile.layer_timings()) {
    const auto digest = digests.find(timing.layer_definition_id());
    if (digest == digests.end()) continue;
    const int length = timing.sequence_length() == 0 ? lengths[timing.layer_definition_id()]
                                                     : timing.sequence_length();
    places.insert(
        {digest->second, timing.tensor_parallel_degree(), length, timing.micro_batch_size()});
  }
  return places;
}

// Returns the same for memory entries. These hold for one sample and for tokens that are not
// shared; entries for shared tokens are measured together with them.
std::set<LayerPlace> MemoryPlacesOf(const v1::Profile& profile) {
  std::set<LayerPlace> places;
  const std::map<std::string, std::string> digests = DigestsById(profile);
  std::map<std::string, int> lengths;
  for (const v1::LayerDefinition& layer : profile.layer_definitions()) {
    lengths[layer.layer_definition_id()] = layer.sequence_length();
  }
  for (const v1::LayerMemory& memory : profile.layer_memories()) {
    const auto digest = digests.find(memory.layer_definition_id());
    if (digest == digests.end() || memory.sequence_parallel()) continue;
    const int length = memory.sequence_length() == 0 ? lengths[memory.layer_definition_id()]
                                                     : memory.sequence_length();
    places.insert({digest->second, memory.tensor_parallel_degree(), length, 1});
  }
  return places;
}

// Returns whether `known` has every layer of the model at the key's degree and at `samples`
// samples.
bool IsKnown(const LayerKey& key, int samples, const v1::ModelSpec& model, v1::Precision precision,
             const std::set<LayerPlace>& known) {
  if (model.precision() != precision) return false;
  return std::all_of(model.layer_definitions().begin(), model.layer_definitions().end(),
                     [&](const v1::LayerDefinition& message) {
                       const auto layer = LayerDefinitionFromProto(message, "layer_definitions");
                       return layer.ok() && known.contains({LayerDigest(*layer, Precision::kFp32),
                                                            key.tensor_parallel_degree(),
                                                            layer->sequence_length, samples});
                     });
}

}  // namespace

int64_t WholeMessageBytes(Collective collective, int participant_count, int64_t message_bytes) {
  const bool has_shares = collective == Collective::kAllGather ||
                          collective == Collective::kReduceScatter ||
                          collective == Collective::kAllToAll;
  const int64_t granule = has_shares ? kFloatBytes * participant_count : kFloatBytes;
  return std::max(message_bytes / granule, int64_t{1}) * granule;
}

absl::StatusOr<ProbePlan> WholeProbe(const ProbeRequest& request) {
  const auto refuse = [](const char* field, absl::string_view rule) {
    return FieldError(Reason::kSpecInvalid, field, rule);
  };
  if (request.rank_count < 1) return refuse("ranks", "must be at least 1");
  if (request.micro_batch_sizes.empty()) return refuse("micro_batch_sizes", "must have an entry");
  if (request.smallest_message_bytes < 1 ||
      request.largest_message_bytes < request.smallest_message_bytes) {
    return refuse("message sizes", "must be at least 1 byte, the largest not below the smallest");
  }
  for (const ModelSpec& model : request.models) {
    if (model.precision() != request.models.front().precision()) {
      return refuse(
          "model",
          "must have one precision for all models of a profile; measure the others separately");
    }
  }
  if (request.torch.has_value() &&
      (request.models.empty() ||
       request.torch->models_size() != static_cast<int>(request.models.size()))) {
    return refuse("torch_model",
                  "must be given once for each model file, of which PyTorch needs at least one");
  }
  ProbePlan plan;
  plan.set_backend(request.backend);
  plan.set_rank_count(request.rank_count);
  std::vector<CollectiveKey> collectives = CollectivesOf(request, 2);
  if (collectives.size() * kCollectiveTimeLimit > request.time_budget / 2) {
    collectives = CollectivesOf(request, 4);
  }
  plan.mutable_collectives()->Assign(collectives.begin(), collectives.end());
  const std::vector<LayerKey> layers = LayersOf(request);
  plan.mutable_layers()->Assign(layers.begin(), layers.end());
  for (const ModelSpec& model : request.models) *plan.add_models() = ModelToProto(model);
  plan.set_measures_overlap(request.rank_count > 1);
  plan.set_measures_context_memory(true);
  plan.set_measures_copies(!request.torch.has_value());
  if (request.torch.has_value()) *plan.mutable_torch() = *request.torch;
  SetTimeBudget(request.time_budget, plan);
  plan.set_precision(kPrecision);
  return plan;
}

void SetTimeBudget(absl::Duration budget, ProbePlan& plan) {
  *plan.mutable_time_budget() = DurationToProto(budget);
  *plan.mutable_collective_time_limit() = DurationToProto(kCollectiveTimeLimit);
  const absl::Duration rest = budget - plan.collectives_size() * kCollectiveTimeLimit;
  *plan.mutable_layer_time_limit() = DurationToProto(
      std::clamp(rest / std::max(1, plan.layers_size()), kShortestLayerTime, kLongestLayerTime));
}

int DevicesPerNode(const ProbePlan& plan) {
  return plan.devices_per_node() > 0 ? plan.devices_per_node() : plan.rank_count();
}

ProbePlan IncrementalProbe(const ProbePlan& whole, const v1::Profile& stored,
                           const std::set<CollectiveShape>& drifted) {
  ProbePlan plan = whole;
  std::set<CollectivePlace> known;
  for (const v1::CollectiveTiming& timing : stored.collective_timings()) {
    known.insert(PlaceOf(timing));
  }
  plan.clear_collectives();
  for (const CollectiveKey& key : whole.collectives()) {
    if (!known.contains(PlaceOf(key)) || drifted.contains(ShapeOf(key)))
      *plan.add_collectives() = key;
  }
  const std::set<LayerPlace> layers = LayerPlacesOf(stored);
  const std::set<LayerPlace> memories = MemoryPlacesOf(stored);
  plan.clear_layers();
  for (const LayerKey& key : whole.layers()) {
    if (!IsKnown(key, key.micro_batch_size(), whole.models(key.model_index()), stored.precision(),
                 layers)) {
      *plan.add_layers() = key;
    }
  }
  // Memory is measured with the first times of a model and degree; ask for it alone if it is
  // missing.
  std::set<std::pair<int, int>> asked;
  for (const LayerKey& key : plan.layers()) {
    asked.insert({key.model_index(), key.tensor_parallel_degree()});
  }
  for (const LayerKey& key : whole.layers()) {
    if (IsKnown(key, 1, whole.models(key.model_index()), stored.precision(), memories) ||
        !asked.insert({key.model_index(), key.tensor_parallel_degree()}).second) {
      continue;
    }
    LayerKey& memory = *plan.add_layers();
    memory = key;
    memory.set_memory_only(true);
  }
  if (stored.has_overlap_slowdown()) plan.set_measures_overlap(false);
  if (stored.has_context_memory_bytes()) plan.set_measures_context_memory(false);
  // Copies are only reported in the notes of a complete profile.
  plan.set_measures_copies(false);
  return plan;
}

int ProbeSize(const ProbePlan& plan) {
  return plan.collectives_size() + plan.layers_size() + (plan.measures_overlap() ? 1 : 0) +
         (plan.measures_context_memory() ? 1 : 0) + (plan.measures_copies() ? 1 : 0);
}

bool IsEmptyProbe(const ProbePlan& plan) { return ProbeSize(plan) == 0; }

v1::Profile MergedProfile(const v1::Profile& stored, const v1::Profile& fresh) {
  v1::Profile merged = fresh;
  std::set<CollectivePlace> collectives;
  for (const v1::CollectiveTiming& timing : fresh.collective_timings()) {
    collectives.insert(PlaceOf(timing));
  }
  for (const v1::CollectiveTiming& timing : stored.collective_timings()) {
    if (!collectives.contains(PlaceOf(timing))) *merged.add_collective_timings() = timing;
  }
  if (merged.precision() == v1::PRECISION_UNSPECIFIED || merged.precision() == stored.precision()) {
    std::set<std::pair<v1::Optimizer, int64_t>> steps;
    for (const v1::OptimizerTiming& timing : fresh.optimizer_timings()) {
      steps.insert({timing.optimizer(), timing.parameter_count()});
    }
    for (const v1::OptimizerTiming& timing : stored.optimizer_timings()) {
      if (!steps.contains({timing.optimizer(), timing.parameter_count()})) {
        *merged.add_optimizer_timings() = timing;
      }
    }
  }
  if (!merged.has_overlap_slowdown() && stored.has_overlap_slowdown()) {
    merged.set_overlap_slowdown(stored.overlap_slowdown());
  }
  if (!merged.has_context_memory_bytes() && stored.has_context_memory_bytes()) {
    merged.set_context_memory_bytes(stored.context_memory_bytes());
    // The two were measured together.
    if (stored.has_communicator_memory_bytes()) {
      merged.set_communicator_memory_bytes(stored.communicator_memory_bytes());
    }
  }
  if (merged.precision() == v1::PRECISION_UNSPECIFIED) merged.set_precision(stored.precision());
  // Layers of another precision cannot be merged.
  if (stored.layer_definitions().empty() || merged.precision() != stored.precision()) {
    return merged;
  }
  // Maps ids of `stored` to ids of the merged profile: that of an equal layer, or a new one.
  const std::map<std::string, std::string> fresh_digests = DigestsById(fresh);
  std::map<std::string, std::string> id_of_digest;
  for (const auto& [id, digest] : fresh_digests) id_of_digest[digest] = id;
  std::map<std::string, std::string> new_ids;
  const std::map<std::string, std::string> stored_digests = DigestsById(stored);
  for (const v1::LayerDefinition& layer : stored.layer_definitions()) {
    const std::string& id = layer.layer_definition_id();
    const auto digest = stored_digests.find(id);
    if (digest == stored_digests.end()) continue;
    const auto same = id_of_digest.find(digest->second);
    if (same != id_of_digest.end()) {
      new_ids[id] = same->second;
      continue;
    }
    std::string unique = id;
    while (fresh_digests.contains(unique)) absl::StrAppend(&unique, "_");
    new_ids[id] = unique;
    id_of_digest[digest->second] = unique;
    *merged.add_layer_definitions() = layer;
    merged.mutable_layer_definitions()->rbegin()->set_layer_definition_id(unique);
  }
  std::map<std::string, int> lengths;
  for (const v1::LayerDefinition& layer : stored.layer_definitions()) {
    lengths[layer.layer_definition_id()] = layer.sequence_length();
  }
  const std::set<LayerPlace> places = LayerPlacesOf(fresh);
  for (v1::LayerTiming timing : stored.layer_timings()) {
    const std::string id = timing.layer_definition_id();
    if (!new_ids.contains(id)) continue;
    if (timing.sequence_length() == 0) timing.set_sequence_length(lengths[id]);
    timing.set_layer_definition_id(new_ids[id]);
    if (!places.contains({stored_digests.at(id), timing.tensor_parallel_degree(),
                          timing.sequence_length(), timing.micro_batch_size()})) {
      *merged.add_layer_timings() = timing;
    }
  }
  std::map<std::string, int> fresh_lengths;
  for (const v1::LayerDefinition& layer : fresh.layer_definitions()) {
    fresh_lengths[layer.layer_definition_id()] = layer.sequence_length();
  }
  std::set<std::tuple<std::string, int, int, bool>> memories;
  for (const v1::LayerMemory& memory : fresh.layer_memories()) {
    const int length = memory.sequence_length() == 0 ? fresh_lengths[memory.layer_definition_id()]
                                                     : memory.sequence_length();
    memories.insert({memory.layer_definition_id(), memory.tensor_parallel_degree(), length,
                     memory.sequence_parallel()});
  }
  for (v1::LayerMemory memory : stored.layer_memories()) {
    const std::string id = memory.layer_definition_id();
    if (!new_ids.contains(id)) continue;
    if (memory.sequence_length() == 0) memory.set_sequence_length(lengths[id]);
    memory.set_layer_definition_id(new_ids[id]);
    if (!memories.contains({memory.layer_definition_id(), memory.tensor_parallel_degree(),
                            memory.sequence_length(), memory.sequence_parallel()})) {
      *merged.add_layer_memories() = memory;
    }
  }
  return merged;
}

}  // namespace parplan
