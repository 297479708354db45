// The processors near a GPU. The CUDA back end binds the thread that opens a device to them.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_NEAR_CORES_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_NEAR_CORES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

// Returns the processors of a list of the kernel's, such as `0-3,8,10-11`, ascending; empty if it
// is no such list or names a processor beyond those that a binding can hold.
std::vector<int> ProcessorsOf(absl::string_view list);

// Binds the calling thread, and threads that it starts later, to those of its processors that are
// near the PCI device at `pci_address` (`0000:1b:00.0`, in any case), as the kernel lists them in
// `devices`. A thread leaves none of the processors that a scheduler gave it for others: if none of
// its own is near, if all are, or if the kernel does not say, nothing changes. Returns the number
// of processors to which it bound the thread, 0 if it did not.
int BindNearDevice(std::string pci_address, const std::string& devices = "/sys/bus/pci/devices");

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_NEAR_CORES_H_
