// Reads Galvatron's hardware files, in both bandwidth conventions, into collective timings.
// `ImportGalvatron` (galvatron_profile.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_GALVATRON_HARDWARE_H_
#define PARPLAN_CLIENTS_IMPORT_GALVATRON_HARDWARE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/named_text.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

// The files that are given; any may be absent, also all. The names of the first two are read too
// (galvatron_names.h).
struct GalvatronHardwareFiles {
  std::optional<NamedText> all_reduce;    // allreduce_bandwidth_*.json
  std::optional<NamedText> send_receive;  // p2p_bandwidth_*.json
  std::optional<NamedText> overlap;       // overlap_coefficient.json
  std::optional<NamedText> tables;        // sp_time_*.json

  // Returns whether at least one file is given.
  bool any() const { return all_reduce || send_receive || overlap || tables; }
};

// The nodes that the files describe. In a question, 0 stands for a number that the user did not
// give; in an answer both are at least 1.
struct GalvatronNodes {
  int node_count = 0;
  int devices_per_node = 0;
};

// The contents of the hardware files, as measurements of a profile.
struct GalvatronHardware {
  GalvatronNodes nodes;
  // Sorted by collective, participants, stride and size; keys distinct.
  std::vector<v1::CollectiveTiming> timings;
  // Factor, at least 1, by which computation and communication slow down while they overlap.
  std::optional<double> overlap_slowdown;
  // Values that were left out or assumed, one sentence per entry.
  std::vector<std::string> notes;
};

// Reads the files. Bandwidths become the time of one message: 256 MiB for all-reduce, 64 MiB for
// send and receive. With bus bandwidth w (GB/s, 10^9 bytes) an all-reduce of S bytes over n devices
// takes 2 (n - 1) / n * S / w, and a send S / w; the files of 2022 hold ms per MiB instead of w,
// with the same factors. Tables (sp_time) hold ms per message of k MB (2^20 bytes). Groups of
// neighbours (`consec_1`) have stride 1. A strided group of n has stride N / (P n), with N devices
// in the cluster and pipeline degree P (1 if the key has none); the two ends of a send at degree P
// have stride N / P. A strided group or a send that does not divide the devices is left out with a
// note. Where the table of measured sizes holds an all-reduce of as many neighbours, the bandwidth
// of that group is dropped without a note. Of other entries with equal keys the first is kept, that
// of the smallest P, with a note.
//
// Devices per node come from `nodes`, else from the names of the two bandwidth files, else from
// devices over nodes if both are known; else they are 8, or all devices if these are fewer, with a
// note. Nodes come from `nodes`, else from these names, else from the devices that such a name
// gives or the largest group of the all-reduce bandwidths reaches, over devices per node. Groups of
// the table that are larger than the cluster and entries that give no time of at least 1 ns are
// left out with a note.
//
// Returns INVALID_ARGUMENT (PROFILE_INVALID) with file and field for files that are no JSON
// objects, keys or values that are none of these, a bandwidth that is not above 0, a bandwidth of a
// group larger than the cluster, and an overlap coefficient that is missing or below 1; naming
// `--node-count` for counts below 0 in `nodes` and more than 262144 devices.
absl::StatusOr<GalvatronHardware> ReadGalvatronHardware(const GalvatronHardwareFiles& files,
                                                        GalvatronNodes nodes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GALVATRON_HARDWARE_H_
