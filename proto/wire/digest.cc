#include "proto/wire/digest.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/wire/canonical_text.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/text_digest.h"

namespace parplan {
namespace {

std::string DurationWords(bool present, const google::protobuf::Duration& duration) {
  if (!present) return kAbsentWord;
  return absl::StrCat(IntegerWord(duration.seconds()), " ", IntegerWord(duration.nanos()));
}

std::string ProvenanceText(const v1::Provenance& provenance) {
  std::string text =
      absl::StrCat(CanonicalLine("agent", {StringWord(provenance.agent())}),
                   CanonicalLine("source", {StringWord(provenance.source())}),
                   CanonicalLine("driver_version", {StringWord(provenance.driver_version())}));
  for (const v1::LibraryVersion& library : provenance.library_versions()) {
    absl::StrAppend(&text, CanonicalLine("library", {StringWord(library.library()),
                                                     StringWord(library.version())}));
  }
  if (provenance.has_measure_time()) {
    absl::StrAppend(
        &text, CanonicalLine("measure_time", {IntegerWord(provenance.measure_time().seconds()),
                                              IntegerWord(provenance.measure_time().nanos())}));
  }
  for (const std::string& note : provenance.notes()) {
    absl::StrAppend(&text, CanonicalLine("note", {StringWord(note)}));
  }
  return text;
}

// Returns a line for each structure that only some layers have; empty for the others, whose texts
// are older than these structures. `word` comes first in each line.
std::string StructureLines(const v1::LayerDefinition& definition, const std::string& word) {
  std::string text;
  if (definition.attention_window() != 0 || definition.attention_chunk_size() != 0) {
    absl::StrAppend(&text,
                    CanonicalLine("window", {word, IntegerWord(definition.attention_window()),
                                             IntegerWord(definition.attention_chunk_size())}));
  }
  if (definition.has_latent_attention()) {
    const v1::LatentAttention& latent = definition.latent_attention();
    absl::StrAppend(&text,
                    CanonicalLine("latent_attention", {word, IntegerWord(latent.query_rank()),
                                                       IntegerWord(latent.key_value_rank()),
                                                       IntegerWord(latent.rotary_head_size()),
                                                       IntegerWord(latent.value_head_size())}));
  }
  if (definition.has_state_space()) {
    const v1::StateSpace& space = definition.state_space();
    absl::StrAppend(
        &text,
        CanonicalLine("state_space",
                      {word, IntegerWord(space.kind()), IntegerWord(space.inner_size()),
                       IntegerWord(space.state_size()), IntegerWord(space.head_count()),
                       IntegerWord(space.group_count()), IntegerWord(space.time_step_rank()),
                       IntegerWord(space.convolution_width()), IntegerWord(space.chunk_size())}));
  }
  if (definition.has_opaque()) {
    const v1::OpaqueLayer& opaque = definition.opaque();
    absl::StrAppend(&text,
                    CanonicalLine("opaque", {word, IntegerWord(opaque.kept_bytes_per_sample()),
                                             IntegerWord(opaque.boundary_bytes_per_sample()),
                                             IntegerWord(opaque.tensor_degrees_size())}));
    for (const v1::OpaqueTensorDegree& part : opaque.tensor_degrees()) {
      absl::StrAppend(
          &text, CanonicalLine("opaque_degree", {word, IntegerWord(part.tensor_parallel_degree()),
                                                 IntegerWord(part.parameter_count()),
                                                 IntegerWord(part.kept_bytes_per_sample()),
                                                 IntegerWord(part.forward_all_reduce_count()),
                                                 IntegerWord(part.backward_all_reduce_count()),
                                                 IntegerWord(part.all_reduce_bytes_per_sample())}));
    }
  }
  if (definition.prediction_depth() != 0 || definition.further_token_count() != 0) {
    absl::StrAppend(&text,
                    CanonicalLine("prediction", {word, IntegerWord(definition.prediction_depth()),
                                                 IntegerWord(definition.further_token_count())}));
  }
  if (definition.expert_latent_size() != 0) {
    absl::StrAppend(&text, CanonicalLine("expert_latent",
                                         {word, IntegerWord(definition.expert_latent_size())}));
  }
  if (definition.wide_products()) {
    absl::StrAppend(&text, CanonicalLine("wide_products", {word}));
  }
  if (definition.frozen()) {
    absl::StrAppend(&text,
                    CanonicalLine("frozen", {word, IntegerWord(definition.attention_adapter_rank()),
                                             IntegerWord(definition.feed_forward_adapter_rank())}));
  }
  return text;
}

std::string DefinitionLine(const v1::LayerDefinition& definition) {
  const std::string experts =
      definition.expert_count() == 0
          ? ""
          : CanonicalLine("experts", {StringWord(definition.layer_definition_id()),
                                      IntegerWord(definition.expert_count()),
                                      IntegerWord(definition.experts_per_token()),
                                      IntegerWord(definition.expert_feed_forward_size()),
                                      IntegerWord(definition.shared_expert_feed_forward_size())});
  return experts + StructureLines(definition, StringWord(definition.layer_definition_id())) +
         CanonicalLine(
             "layer_definition",
             {StringWord(definition.layer_definition_id()), IntegerWord(definition.kind()),
              IntegerWord(definition.hidden_size()), IntegerWord(definition.attention_head_count()),
              IntegerWord(definition.key_value_head_count()), IntegerWord(definition.head_size()),
              IntegerWord(definition.feed_forward_size()),
              IntegerWord(definition.feed_forward_kind()),
              IntegerWord(definition.sequence_length()), IntegerWord(definition.vocabulary_size()),
              FlagWord(definition.tied_embedding()), IntegerWord(definition.parameter_count())});
}

std::string TimingLine(const v1::LayerTiming& timing) {
  return CanonicalLine(
      "layer_timing",
      {StringWord(timing.layer_definition_id()), IntegerWord(timing.tensor_parallel_degree()),
       IntegerWord(timing.micro_batch_size()), IntegerWord(timing.sequence_length()),
       DurationWords(timing.has_forward_duration(), timing.forward_duration()),
       DurationWords(timing.has_backward_duration(), timing.backward_duration()),
       DurationWords(timing.has_forward_duration_p90(), timing.forward_duration_p90()),
       IntegerWord(timing.sample_count()), IntegerWord(timing.origin())});
}

std::string MemoryLine(const v1::LayerMemory& memory) {
  return CanonicalLine(
      "layer_memory",
      {StringWord(memory.layer_definition_id()), IntegerWord(memory.tensor_parallel_degree()),
       FlagWord(memory.sequence_parallel()), IntegerWord(memory.sequence_length()),
       IntegerWord(memory.parameter_count()), IntegerWord(memory.activation_bytes_per_sample()),
       memory.has_checkpoint_bytes_per_sample() ? IntegerWord(memory.checkpoint_bytes_per_sample())
                                                : kAbsentWord,
       IntegerWord(memory.origin())});
}

std::string CollectiveLine(const v1::CollectiveTiming& timing) {
  return CanonicalLine("collective_timing",
                       {IntegerWord(timing.collective()), IntegerWord(timing.participant_count()),
                        IntegerWord(timing.rank_stride()), IntegerWord(timing.message_size_bytes()),
                        DurationWords(timing.has_median_duration(), timing.median_duration()),
                        DurationWords(timing.has_p90_duration(), timing.p90_duration()),
                        IntegerWord(timing.sample_count()), IntegerWord(timing.origin())});
}

std::string OptimizerLine(const v1::OptimizerTiming& timing) {
  return CanonicalLine("optimizer_timing",
                       {IntegerWord(timing.optimizer()), IntegerWord(timing.parameter_count()),
                        DurationWords(timing.has_median_duration(), timing.median_duration()),
                        DurationWords(timing.has_p90_duration(), timing.p90_duration()),
                        IntegerWord(timing.sample_count()), IntegerWord(timing.origin())});
}

}  // namespace

std::string Sha256Hex(absl::string_view bytes) {
  TextDigest digest;
  digest.Append(bytes);
  return digest.Hex();
}

std::string TopologyText(const Topology& topology) {
  // Version 2 names a fabric.
  std::string text =
      topology.fabric_id().empty()
          ? "parplan topology 1\n"
          : absl::StrCat("parplan topology 2\n",
                         CanonicalLine("fabric", {StringWord(topology.fabric_id())}));
  absl::StrAppend(&text, CanonicalLine("cluster", {StringWord(topology.cluster())}));
  for (const NodeGroup& group : topology.node_groups()) {
    absl::StrAppend(
        &text, CanonicalLine("node_group",
                             {StringWord(group.node_group_id), StringWord(group.device_kind),
                              IntegerWord(group.node_count), IntegerWord(group.devices_per_node),
                              IntegerWord(group.device_memory.count()),
                              IntegerWord(group.reserved_memory.count())}));
    for (const std::string& name : group.node_names) {
      absl::StrAppend(&text, CanonicalLine("node", {StringWord(name)}));
    }
  }
  for (const LinkTier& tier : topology.link_tiers()) {
    absl::StrAppend(&text, CanonicalLine("link_tier", {StringWord(tier.tier_id),
                                                       IntegerWord(tier.reach_device_count)}));
  }
  return text;
}

std::string TopologyDigest(const Topology& topology) { return Sha256Hex(TopologyText(topology)); }

std::string LayerDigest(const LayerDefinition& definition, Precision precision) {
  // Version 2 has experts, version 3 other structures.
  const std::string experts =
      definition.expert_count == 0
          ? ""
          : CanonicalLine("experts", {IntegerWord(definition.expert_count),
                                      IntegerWord(definition.experts_per_token),
                                      IntegerWord(definition.expert_feed_forward_size),
                                      IntegerWord(definition.shared_expert_feed_forward_size)});
  const std::string structures = StructureLines(LayerDefinitionToProto(definition), "layer");
  const char* const version = !structures.empty() ? "parplan layer 3\n"
                              : !experts.empty()  ? "parplan layer 2\n"
                                                  : "parplan layer 1\n";
  return Sha256Hex(absl::StrCat(
      version, experts, structures,
      CanonicalLine(
          "layer",
          {IntegerWord(static_cast<int>(definition.kind)), IntegerWord(definition.hidden_size),
           IntegerWord(definition.attention_head_count),
           IntegerWord(definition.key_value_head_count), IntegerWord(definition.head_size),
           IntegerWord(definition.feed_forward_size),
           IntegerWord(static_cast<int>(definition.feed_forward_kind)),
           IntegerWord(definition.vocabulary_size), FlagWord(definition.tied_embedding),
           IntegerWord(definition.parameter_count), IntegerWord(static_cast<int>(precision))})));
}

std::string ModelText(const ModelSpec& model) {
  std::string text =
      absl::StrCat("parplan model 1\n",
                   CanonicalLine("precision", {IntegerWord(static_cast<int>(model.precision()))}),
                   CanonicalLine("optimizer", {IntegerWord(static_cast<int>(model.optimizer()))}));
  std::vector<std::string> words_of_definition;
  for (const LayerDefinition& definition : model.layer_definitions()) {
    words_of_definition.push_back(absl::StrCat(LayerDigest(definition, model.precision()), " ",
                                               IntegerWord(definition.sequence_length)));
  }
  // Consecutive equal layers are one line, whatever runs they were given in.
  const std::vector<int>& layers = model.definition_of_layer();
  for (size_t first = 0; first < layers.size();) {
    const std::string& words = words_of_definition[layers[first]];
    size_t end = first + 1;
    while (end < layers.size() && words_of_definition[layers[end]] == words) ++end;
    absl::StrAppend(
        &text, CanonicalLine("layers", {IntegerWord(static_cast<int64_t>(end - first)), words}));
    first = end;
  }
  return text;
}

std::string ModelDigest(const ModelSpec& model) { return Sha256Hex(ModelText(model)); }

std::string ProfileContentDigest(const v1::Profile& profile) {
  std::string text = "parplan profile 1\n";
  if (profile.has_provenance()) absl::StrAppend(&text, ProvenanceText(profile.provenance()));
  absl::StrAppend(
      &text, CanonicalLine("device_kind", {StringWord(profile.device_kind())}),
      CanonicalLine("devices_per_node", {IntegerWord(profile.devices_per_node())}),
      CanonicalLine("precision", {IntegerWord(profile.precision())}),
      CanonicalLine(
          "overlap_slowdown",
          {profile.has_overlap_slowdown() ? NumberWord(profile.overlap_slowdown()) : kAbsentWord}),
      CanonicalLine("context_memory_bytes", {profile.has_context_memory_bytes()
                                                 ? IntegerWord(profile.context_memory_bytes())
                                                 : kAbsentWord}));
  // Absent from the texts of profiles that are older than these fields.
  if (profile.has_communicator_memory_bytes()) {
    absl::StrAppend(&text, CanonicalLine("communicator_memory_bytes",
                                         {IntegerWord(profile.communicator_memory_bytes())}));
  }
  if (!profile.runtime_id().empty()) {
    absl::StrAppend(&text, CanonicalLine("runtime", {StringWord(profile.runtime_id())}));
  }
  std::vector<std::string> lines;
  for (const auto& definition : profile.layer_definitions()) {
    lines.push_back(DefinitionLine(definition));
  }
  for (const auto& timing : profile.layer_timings()) lines.push_back(TimingLine(timing));
  for (const auto& memory : profile.layer_memories()) lines.push_back(MemoryLine(memory));
  for (const auto& timing : profile.collective_timings()) {
    lines.push_back(CollectiveLine(timing));
  }
  for (const auto& timing : profile.optimizer_timings()) lines.push_back(OptimizerLine(timing));
  absl::StrAppend(&text, SortedLines(std::move(lines)));
  return Sha256Hex(text);
}

std::string PlanKey(absl::string_view model_digest, absl::string_view topology_digest,
                    absl::string_view snapshot_digest, int64_t global_batch_size,
                    const PlanningRules& rules, absl::string_view planner,
                    absl::string_view planner_version, absl::string_view hardware_digest,
                    absl::string_view calibration_digest) {
  return Sha256Hex(absl::StrCat(
      "parplan plan_key 3\n", CanonicalLine("hardware", {StringWord(hardware_digest)}),
      CanonicalLine("calibration", {StringWord(calibration_digest)}),
      CanonicalLine("runtime", {StringWord(rules.runtime.runtime_id)}),
      CanonicalLine("out_of_memory_risk", {NumberWord(rules.out_of_memory_risk)}),
      CanonicalLine("model", {StringWord(model_digest)}),
      CanonicalLine("topology", {StringWord(topology_digest)}),
      CanonicalLine("snapshot", {StringWord(snapshot_digest)}),
      CanonicalLine("global_batch_size", {IntegerWord(global_batch_size)}),
      CanonicalLine(
          "rules",
          {NumberWord(rules.memory_headroom_ratio), IntegerWord(rules.max_tensor_parallel_degree),
           IntegerWord(rules.max_pipeline_parallel_degree), IntegerWord(rules.micro_batch_count),
           IntegerWord(static_cast<int>(rules.schedule.value_or(Schedule{}))),
           FlagWord(rules.allow_recompute), FlagWord(rules.allow_sharded_data_parallel),
           FlagWord(rules.allow_estimates)}),
      CanonicalLine(
          "space",
          {StringWord(rules.dimensions.ToString()), StringWord(LimitsOf(rules.target).name),
           IntegerWord(rules.smallest_global_batch_size), IntegerWord(rules.global_batch_size_step),
           IntegerWord(rules.top_plan_count), FlagWord(rules.wants_memory_front)}),
      // Each left out if not requested, so that older keys stay valid.
      rules.ilp_alpha_bytes_per_second.has_value()
          ? CanonicalLine("ilp_alpha", {NumberWord(*rules.ilp_alpha_bytes_per_second)})
          : "",
      rules.partitioner != Partitioner::kBest
          ? CanonicalLine("partitioner", {StringWord(PartitionerName(rules.partitioner))})
          : "",
      rules.memory_granule != kMinMemoryGranule || rules.fused_layer_count != 1
          ? CanonicalLine("coarse", {IntegerWord(rules.memory_granule.count()),
                                     IntegerWord(rules.fused_layer_count)})
          : "",
      CanonicalLine("planner", {StringWord(planner), StringWord(planner_version)})));
}

}  // namespace parplan
