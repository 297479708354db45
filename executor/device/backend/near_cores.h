// The processors (hardware threads) of this machine that are near a GPU, as Linux knows them. The
// CUDA back end binds the thread that opens a device to them.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_NEAR_CORES_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_NEAR_CORES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

// Returns the processors of a kernel CPU list, such as `0-3,8,10-11`, ascending. Returns an empty
// vector if `list` is empty or malformed, is not strictly ascending, or has a number of CPU_SETSIZE
// or above, to which no thread can be bound. White space around the list is ignored.
std::vector<int> ProcessorsOf(absl::string_view list);

// Binds the calling thread, and threads that it starts later, to the processors near a PCI device:
// those of its present affinity mask that the file `DEVICES/PCI_ADDRESS/local_cpulist` lists. Never
// adds a processor to the mask, which a scheduler may have set. `pci_address` has the form
// `0000:1b:00.0`, in letters of either size; `devices` is a folder, which tests replace.
//
// Returns the number of processors to which the thread is bound now. Returns 0 and changes nothing
// if no processor of the mask is near the device, if all of them are, if there is no such file, or
// if the system refuses to read or change the mask.
int BindNearDevice(std::string pci_address, const std::string& devices = "/sys/bus/pci/devices");

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_NEAR_CORES_H_
