// `planctl import galvatron`: converts the files of Galvatron's profiler, of all releases since
// 2022, into a profile, a model and a cluster.

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

// The files, at least one.
struct GalvatronFiles {
  // computation_profiling_*.json or forward_profiling_config.json: one file, or
  // the two halves `_attention` and `_mlp` of one model.
  std::vector<NamedText> times;
  // memory_profiling_*.json: one file, or two halves.
  std::vector<NamedText> memory;
  // A meta_configs/*.json, or the Hugging Face config of the model.
  std::optional<NamedText> model_config;
  GalvatronHardwareFiles hardware;
};

// Values that no file contains.
struct GalvatronFlags {
  // Takes precedence over files.
  ModelFlags model;
  GalvatronNodes nodes;
  std::optional<std::string> device_kind;
  std::optional<int64_t> device_memory_bytes;
  std::optional<std::string> cluster;
  // `Provenance.source`.
  std::optional<std::string> source;
};

struct GalvatronImport {
  v1::Profile profile;
  // Absent if neither times, memory nor a model config was given.
  std::optional<v1::ModelSpec> model;
  v1::ClusterTopology topology;
  // Values that were left out or assumed, one sentence per entry; also in the profile's
  // `provenance.notes`.
  std::vector<std::string> notes;
};

// The device if the user names none: Galvatron's files name no hardware, and its documentation
// uses A100.
inline constexpr char kDefaultDeviceKind[] = "NVIDIA A100-SXM4-40GB";
inline constexpr int64_t kDefaultDeviceMemoryBytes = int64_t{40} << 30;

// Memory that Galvatron's planner reserves for context and libraries.
inline constexpr int64_t kGalvatronContextMemoryBytes = int64_t{1} << 30;

// Converts the files:
// * times: ms per layer per sample at batch B become the forward time of a
//   micro-batch of B at tensor-parallel degree 1; there is no backward time;
// * memory: MB of 2^20 bytes; `parameter_size` is fp32 for a whole layer; states
//   of embedding and head are four times their fp32 bytes. Blocks `_sp` are
//   sequence parallel;
// * embedding and head, timed together, are split by their operations, at least
//   1 % each (the embedding of a language model has none); memory that is given
//   for both together by their parameters and outputs;
// * the sequence length of the model is the flag's, the file name's, else one
//   that times and memory have in common: the config's, or the longest.
//
// Returns INVALID_ARGUMENT with file, field and the value that is missing: PROFILE_INVALID for the
// profiler's files, or none at all, SPEC_INVALID for config, flags, model and cluster. Values that
// can't be used are left out with a note. The profile passes `ValidateProfile`, the model
// `ModelFromProto`, the cluster `TopologyFromProto`.
absl::StatusOr<GalvatronImport> ImportGalvatron(const GalvatronFiles& files,
                                                const GalvatronFlags& flags);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GALVATRON_PROFILE_H_
