// Reads Galvatron's hardware files, of both bandwidth conventions, as collective timings.

#ifndef PARPLAN_CLIENTS_IMPORT_GALVATRON_HARDWARE_H_
#define PARPLAN_CLIENTS_IMPORT_GALVATRON_HARDWARE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/named_text.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

struct GalvatronHardwareFiles {
  std::optional<NamedText> all_reduce;    // allreduce_bandwidth_*.json
  std::optional<NamedText> send_receive;  // p2p_bandwidth_*.json
  std::optional<NamedText> overlap;       // overlap_coefficient.json
  std::optional<NamedText> tables;        // sp_time_*.json

  bool any() const { return all_reduce || send_receive || overlap || tables; }
};

// The nodes that the files describe; 0 if the user did not say.
struct GalvatronNodes {
  int node_count = 0;
  int devices_per_node = 0;
};

struct GalvatronHardware {
  GalvatronNodes nodes;
  // Sorted by collective, participants, stride and size; keys distinct.
  std::vector<v1::CollectiveTiming> timings;
  std::optional<double> overlap_slowdown;
  // Values that were left out or assumed, one sentence per entry.
  std::vector<std::string> notes;
};

// Reads the files. Bandwidths become the time of one message: 256 MiB for all-reduce, 64 MiB for
// send and receive. With bus bandwidth w (GB/s) an all-reduce of S bytes over n
// takes 2 (n - 1) / n * S / w; the files of 2022 hold ms per MB instead, with
// the same factor. Groups of neighbours (`consec_1`) have stride 1, strided ones
// the devices of the file, or of a pipeline stage, over n. If a table of
// measured sizes holds the same group, only the table is used.
//
// The number of nodes comes from `nodes`, else from file names, else from the
// largest group, with 8 devices a node.
//
// Returns INVALID_ARGUMENT (PROFILE_INVALID) with file and field for other keys or values, or nodes
// that the files contradict.
absl::StatusOr<GalvatronHardware> ReadGalvatronHardware(const GalvatronHardwareFiles& files,
                                                        GalvatronNodes nodes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GALVATRON_HARDWARE_H_
