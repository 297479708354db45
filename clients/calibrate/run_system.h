// Devices and links of a published run, from the library of hardware; used by QuestionOf
// (run_problem.h). Functions with `assumptions`, which must not be null, append a sentence for each
// value that they chose.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RUN_SYSTEM_H_
#define PARPLAN_CLIENTS_CALIBRATE_RUN_SYSTEM_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/calibrate/published_run.h"
#include "planner/model/hardware.h"

namespace parplan::accuracy {

// The network adapters of a node in the words of a source: `4x200Gb/s HDR IB per node`.
struct AdapterText {
  // The beginning of a link id of the library: `hdr`, `omnipath`, ...; that of InfiniBand follows
  // from the rate if the text has only that word; empty if the text has none.
  std::string kind;
  int count = 1;
  int gigabits_per_second = 0;  // of one
};

// Returns the first rate in Gb/s (not GB/s) that comes with a count or a kind of network; absent if
// there is none. A rate without a count is that of one adapter.
std::optional<AdapterText> AdaptersIn(absl::string_view text);

// Finds the device in the library of hardware by its name without the part in brackets; if
// `memory_gb` is further off than a tenth, the variant of that size, if the library has one; if it
// has neither device nor variant, `similar_device_name`. Power limit and rate of the memory are
// those of `hardware` if it has any. INVALID_ARGUMENT (SPEC_INVALID) naming `hardware.gpu` if the
// library has no such device.
absl::StatusOr<DeviceDescription> DeviceOf(const PublishedHardware& hardware);

// Returns the number of devices that share the links of a node: that of the run, or else that of
// the usual machine (8, or 4 for Grace superchips). Trays of GB200 and GB300 are four devices of an
// NVLink domain of 72: if a job has more devices than that, in whole racks of 64 or else of 72,
// such a rack is the node, with a sentence in `assumptions`, else a tray.
int DevicesPerNode(const PublishedHardware& hardware, const DeviceDescription& device,
                   std::vector<std::string>* assumptions);

// Returns the links of a job of `device_count` devices: those of the system that `hardware` names
// (`Selene`); otherwise the device's usual links if NVLink connects all devices; otherwise the
// device's links inside a node and the adapters that `hardware` describes; otherwise the usual
// links of the device, with a sentence in `assumptions` if the job has several nodes. REQUIRES:
// `DeviceOf` returned `device`; aborts if the library has no usual links for its kind.
FabricDescription FabricOf(const PublishedHardware& hardware, const DeviceDescription& device,
                           int devices_per_node, int device_count,
                           std::vector<std::string>* assumptions);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_SYSTEM_H_
