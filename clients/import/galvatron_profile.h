// `planctl import galvatron`: converts the files of Galvatron's profiler, of its releases from 2022
// to 2.4, into a profile, a model and a cluster. Pure: the caller reads the files. The oracle study
// calls it too.

#ifndef PARPLAN_CLIENTS_IMPORT_GALVATRON_PROFILE_H_
#define PARPLAN_CLIENTS_IMPORT_GALVATRON_PROFILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/galvatron_hardware.h"
#include "clients/import/model_facts.h"
#include "clients/import/named_text.h"
#include "parplan/v1/model.pb.h"
#include "parplan/v1/profile.pb.h"
#include "parplan/v1/topology.pb.h"

namespace parplan {

// The files, at least one of all kinds together.
struct GalvatronFiles {
  // computation_profiling_*.json or forward_profiling_config.json: one file, or the two halves
  // `_attention` and `_mlp` of one model, in any order. A half alone is read as if it were the
  // whole layer. Empty: none.
  std::vector<NamedText> times;
  // memory_profiling_*.json: the same.
  std::vector<NamedText> memory;
  // A meta_configs/*.json, or the Hugging Face config of the model. Absent: the `model_config` that
  // some memory files carry.
  std::optional<NamedText> model_config;
  GalvatronHardwareFiles hardware;
};

// Values that no file contains.
struct GalvatronFlags {
  // Takes precedence over files.
  ModelFlags model;
  // Takes precedence over file names.
  GalvatronNodes nodes;
  // Absent: `kDefaultDeviceKind`, with a note.
  std::optional<std::string> device_kind;
  // Absent: `kDefaultDeviceMemoryBytes`, with a note.
  std::optional<int64_t> device_memory_bytes;
  // Name of the cluster. Absent: `galvatron-NODESxDEVICES`, with the devices of a node.
  std::optional<std::string> cluster;
  // `Provenance.source` of the profile. Absent: Galvatron's repository.
  std::optional<std::string> source;
};

// The contents of the files, in the messages of the contract.
struct GalvatronImport {
  v1::Profile profile;
  // Absent if neither times, memory nor a model config was given.
  std::optional<v1::ModelSpec> model;
  // The cluster: equal nodes.
  v1::ClusterTopology topology;
  // Values that were left out or assumed, one sentence per entry; also in the profile's
  // `provenance.notes`.
  std::vector<std::string> notes;
};

// The device if the user names none: Galvatron's files name no hardware, and its documentation
// uses A100.
inline constexpr char kDefaultDeviceKind[] = "NVIDIA A100-SXM4-40GB";
inline constexpr int64_t kDefaultDeviceMemoryBytes = int64_t{40} << 30;

// Memory that Galvatron's planner reserves for context and libraries; every profile that is made
// here has it as `context_memory_bytes`, since no file measures it.
inline constexpr int64_t kGalvatronContextMemoryBytes = int64_t{1} << 30;

// Converts the files:
// * times: ms per layer and sample at batch B, times B, become the forward time of a micro-batch of
//   B at tensor-parallel degree 1; there is no backward time;
// * memory: MB of 2^20 bytes. `parameter_size` is the size in fp32 of the parameters of a layer
//   before tensor parallelism divides them; states of embedding and head are four times the fp32
//   size of their parameters. Blocks `_sp` are sequence parallel;
// * a time of embedding and head together is divided between the two by their operations. Each gets
//   at least 1 %, also the embedding of a language model, which has no operations;
// * memory of embedding and head together is divided too: states by their parameters, activations
//   by the size of their outputs;
// * the sequence length of a layer type is the flag's. Else it is a length that times and memory
//   both have; if they have none in common, one of the times, or of the memory if the times name
//   none. The length in the first file name that has one, or else the config's, is taken if it is
//   among these, or if there are none; otherwise the longest of them. A table that lacks the length
//   is named in a note.
//
// Returns INVALID_ARGUMENT with file, field and what is wrong or missing there: PROFILE_INVALID for
// the profiler's files, or none at all, and for `GalvatronFlags::nodes`; SPEC_INVALID for config,
// other flags, model and cluster. Files of another form are errors; single values that can't be
// used, such as a time of 0 or a negative size, are left out with a note (galvatron_times.h,
// galvatron_memory.h and galvatron_hardware.h list both). The profile passes `ValidateProfile`, the
// model `ModelFromProto`, the cluster `TopologyFromProto`.
absl::StatusOr<GalvatronImport> ImportGalvatron(const GalvatronFiles& files,
                                                const GalvatronFlags& flags);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GALVATRON_PROFILE_H_
