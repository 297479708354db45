#include "clients/import/galvatron_profile.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "clients/import/galvatron_layers.h"
#include "clients/import/galvatron_memory.h"
#include "clients/import/galvatron_names.h"
#include "clients/import/galvatron_times.h"
#include "clients/import/model_config.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/profile_wire.h"
#include "proto/wire/topology_wire.h"

namespace parplan {
namespace {

constexpr char kAgent[] = "planctl import galvatron";
constexpr char kDefaultSource[] =
    "Galvatron profiles (https://github.com/PKU-DAIR/Hetu-Galvatron), Apache-2.0";

// Tables read so far, and what they say of the model.
struct Tables {
  std::optional<GalvatronTimes> times;
  std::optional<GalvatronMemory> memory;

  int layer_type_count() const {
    return std::max(times ? times->layer_type_count : 0, memory ? memory->layer_type_count : 0);
  }
};

std::set<int> TimeLengths(const Tables& tables, int type) {
  std::set<int> lengths;
  if (!tables.times) return lengths;
  for (const GalvatronLayerTime& time : tables.times->layers) {
    if (time.layer_type == type && time.sequence_length > 0) lengths.insert(time.sequence_length);
  }
  return lengths;
}

std::set<int> MemoryLengths(const Tables& tables, int type) {
  std::set<int> lengths;
  if (!tables.memory) return lengths;
  for (const GalvatronLayerMemory& block : tables.memory->layers) {
    if (block.layer_type == type && block.sequence_length > 0) {
      lengths.insert(block.sequence_length);
    }
  }
  return lengths;
}

// The length of a layer type: one both tables have, else one of the times, else
// one of the memory; `wanted` when it is among them, else the longest. `wanted`
// when the tables name none.
int ChooseLength(const Tables& tables, int type, int wanted) {
  const std::set<int> times = TimeLengths(tables, type);
  const std::set<int> memory = MemoryLengths(tables, type);
  std::set<int> both;
  std::set_intersection(times.begin(), times.end(), memory.begin(), memory.end(),
                        std::inserter(both, both.end()));
  const std::set<int>& choice = !both.empty() ? both : !times.empty() ? times : memory;
  if (choice.empty() || choice.count(wanted) > 0) return wanted;
  return *choice.rbegin();
}

// Facts of file names, where neither config nor flags have them.
void FillFromFileNames(const GalvatronFiles& files, ModelFacts* facts, int* named_length) {
  std::vector<const NamedText*> named;
  for (const NamedText& file : files.times) named.push_back(&file);
  for (const NamedText& file : files.memory) named.push_back(&file);
  for (const NamedText* file : named) {
    const GalvatronFileName name = ParseGalvatronFileName(file->name);
    for (TransformerRunFacts& run : facts->runs) {
      if (run.hidden_size == 0) run.hidden_size = name.hidden_size;
      if (run.attention_head_count == 0) run.attention_head_count = name.attention_head_count;
    }
    if (*named_length == 0) *named_length = name.sequence_length;
    if (facts->model_id.empty()) facts->model_id = name.model;
    if (facts->precision == v1::PRECISION_UNSPECIFIED) {
      const std::optional<Precision> precision = FindPrecision(name.precision);
      if (precision.has_value()) facts->precision = PrecisionToProto(*precision);
    }
  }
}

// Adds a note for each table that lacks the model's sequence length of a layer type.
void NoteLengths(const Tables& tables, const ModelFacts& facts, std::vector<std::string>* notes) {
  for (size_t i = 0; i < facts.runs.size(); ++i) {
    const int type = static_cast<int>(i);
    const int length = facts.runs[i].sequence_length;
    const struct {
      const char* what;
      std::set<int> lengths;
    } tables_of[] = {{"times", TimeLengths(tables, type)}, {"memory", MemoryLengths(tables, type)}};
    for (const auto& [what, lengths] : tables_of) {
      if (lengths.empty() || lengths.count(length) > 0) continue;
      notes->push_back(absl::StrCat("no ", what, " at sequence_length ", length, " for layer type ",
                                    i, ", only at ", absl::StrJoin(lengths, ", ")));
    }
  }
}

absl::StatusOr<ModelFacts> FindModelFacts(const GalvatronFiles& files, const GalvatronFlags& flags,
                                          const Tables& tables, const nlohmann::json& config,
                                          const std::string& config_name,
                                          std::vector<std::string>* notes) {
  ModelFacts facts;
  if (config.is_object()) {
    PARPLAN_ASSIGN_OR_RETURN(
        facts, ReadModelConfig(config, config_name, ConfigSource::kGalvatron, {}, notes));
  }
  const int type_count = tables.layer_type_count();
  if (facts.runs.empty()) {
    facts.runs.resize(std::max<size_t>(type_count, flags.model.layer_counts.size()));
  }
  if (type_count > static_cast<int>(facts.runs.size())) {
    return FieldError(Reason::kSpecInvalid, config_name,
                      absl::StrCat("has ", facts.runs.size(), " kinds of layer, ",
                                   (files.times.empty() ? files.memory : files.times).front().name,
                                   " has ", type_count, "; give the config of the model profiled"));
  }
  int named_length = 0;
  ModelFlags model_flags = flags.model;
  FillFromFileNames(files, &facts, &named_length);
  PARPLAN_RETURN_IF_ERROR(ApplyModelFlags(model_flags, &facts));
  if (tables.times && tables.times->hidden_size > 0) {
    for (TransformerRunFacts& run : facts.runs) {
      if (run.hidden_size == 0) run.hidden_size = tables.times->hidden_size;
    }
  }
  if (model_flags.sequence_lengths.empty()) {
    for (size_t i = 0; i < facts.runs.size(); ++i) {
      int& length = facts.runs[i].sequence_length;
      const int wanted = named_length > 0 ? named_length : length;
      length = ChooseLength(tables, static_cast<int>(i), wanted);
    }
  }
  NoteLengths(tables, facts, notes);
  return facts;
}

absl::StatusOr<v1::ClusterTopology> MakeTopology(const GalvatronFlags& flags,
                                                 const GalvatronNodes& nodes,
                                                 std::vector<std::string>* notes) {
  v1::ClusterTopology topology;
  topology.set_cluster(flags.cluster.value_or(
      absl::StrCat("galvatron-", nodes.node_count, "x", nodes.devices_per_node)));
  v1::NodeGroup* group = topology.add_node_groups();
  group->set_node_group_id("nodes");
  group->set_device_kind(flags.device_kind.value_or(kDefaultDeviceKind));
  group->set_node_count(nodes.node_count);
  group->set_devices_per_node(nodes.devices_per_node);
  group->set_device_memory_bytes(flags.device_memory_bytes.value_or(kDefaultDeviceMemoryBytes));
  v1::LinkTier* tier = topology.add_link_tiers();
  tier->set_tier_id("node");
  tier->set_reach_device_count(nodes.devices_per_node);
  if (nodes.node_count > 1) {
    tier = topology.add_link_tiers();
    tier->set_tier_id("fabric");
    tier->set_reach_device_count(nodes.node_count * nodes.devices_per_node);
  }
  if (!flags.device_kind) {
    notes->push_back(absl::StrCat("device_kind ", kDefaultDeviceKind,
                                  " is assumed; the source states no hardware (--device-kind)"));
  }
  if (!flags.device_memory_bytes) {
    notes->push_back(
        absl::StrCat("device_memory_bytes ", kDefaultDeviceMemoryBytes,
                     " is assumed; the source states no hardware (--device-memory-bytes)"));
  }
  if (flags.device_kind && flags.device_memory_bytes) {
    notes->push_back(
        "device_kind and device_memory_bytes are the user's word; the files state no hardware");
  }
  PARPLAN_RETURN_IF_ERROR(TopologyFromProto(topology, "topology").status());
  return topology;
}

}  // namespace

absl::StatusOr<GalvatronImport> ImportGalvatron(const GalvatronFiles& files,
                                                const GalvatronFlags& flags) {
  if (files.times.empty() && files.memory.empty() && !files.model_config && !files.hardware.any()) {
    return FieldError(Reason::kProfileInvalid, "files",
                      "give at least one file of Galvatron's profiler");
  }
  GalvatronImport result;
  std::vector<std::string>& notes = result.notes;
  PARPLAN_ASSIGN_OR_RETURN(const GalvatronHardware hardware,
                           ReadGalvatronHardware(files.hardware, flags.nodes));
  PARPLAN_ASSIGN_OR_RETURN(result.topology, MakeTopology(flags, hardware.nodes, &notes));

  Tables tables;
  if (!files.memory.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(tables.memory, ReadGalvatronMemory(files.memory));
  }
  nlohmann::json config;
  std::string config_name = "model config";
  if (files.model_config) {
    config_name = files.model_config->name;
    PARPLAN_ASSIGN_OR_RETURN(config, ParseJsonObject(*files.model_config, Reason::kSpecInvalid));
  } else if (tables.memory && tables.memory->model_config.is_object()) {
    config_name = absl::StrCat(files.memory.front().name, ": model_config");
    config = tables.memory->model_config;
  }
  if (!files.times.empty()) {
    int hidden_size = flags.model.hidden_size.value_or(0);
    if (hidden_size == 0 && config.is_object()) {
      std::vector<std::string> ignored;
      PARPLAN_ASSIGN_OR_RETURN(
          const ModelFacts facts,
          ReadModelConfig(config, config_name, ConfigSource::kGalvatron, {}, &ignored));
      hidden_size = facts.runs.front().hidden_size;
    }
    PARPLAN_ASSIGN_OR_RETURN(tables.times, ReadGalvatronTimes(files.times, hidden_size));
  }

  v1::Profile& profile = result.profile;
  profile.mutable_provenance()->set_agent(kAgent);
  profile.mutable_provenance()->set_source(flags.source.value_or(kDefaultSource));
  profile.set_device_kind(result.topology.node_groups(0).device_kind());
  profile.set_devices_per_node(hardware.nodes.devices_per_node);
  if (hardware.overlap_slowdown) profile.set_overlap_slowdown(*hardware.overlap_slowdown);
  profile.set_context_memory_bytes(kGalvatronContextMemoryBytes);
  notes.push_back("context_memory_bytes is 1024 MiB, the constant of Galvatron's planner");

  if (tables.times || tables.memory || config.is_object()) {
    PARPLAN_ASSIGN_OR_RETURN(const ModelFacts facts,
                             FindModelFacts(files, flags, tables, config, config_name, &notes));
    PARPLAN_ASSIGN_OR_RETURN(result.model, BuildModelSpec(facts, config_name));
    LayersOfModel layers;
    for (int i = 0; i < result.model->layer_definitions_size(); ++i) {
      PARPLAN_ASSIGN_OR_RETURN(
          LayerDefinition definition,
          LayerDefinitionFromProto(result.model->layer_definitions(i),
                                   absl::StrCat("model.layer_definitions[", i, "]")));
      layers.definitions.push_back(std::move(definition));
    }
    *profile.mutable_layer_definitions() = result.model->layer_definitions();
    profile.set_precision(result.model->precision());
    if (tables.times) {
      notes.insert(notes.end(), tables.times->notes.begin(), tables.times->notes.end());
      AddLayerTimings(*tables.times, layers, &profile, &notes);
      notes.push_back("no backward time is in the files; the planner takes twice the forward time");
    } else {
      notes.push_back("no layer times were given; plans need them from another profile");
    }
    if (tables.memory) {
      notes.insert(notes.end(), tables.memory->notes.begin(), tables.memory->notes.end());
      AddLayerMemories(*tables.memory, layers, &profile, &notes);
    } else {
      notes.push_back("no layer memory was given; plans need it from another profile");
    }
  }
  for (const v1::CollectiveTiming& timing : hardware.timings) {
    *profile.add_collective_timings() = timing;
  }
  notes.insert(notes.end(), hardware.notes.begin(), hardware.notes.end());
  if (files.hardware.all_reduce || files.hardware.send_receive) {
    notes.push_back(
        "bandwidths are given as the time of one message: all-reduce 256 MiB, send and receive "
        "64 MiB");
  }
  for (const std::string& note : notes) profile.mutable_provenance()->add_notes(note);
  PARPLAN_RETURN_IF_ERROR(ValidateProfile(profile, "profile"));
  return result;
}

}  // namespace parplan
