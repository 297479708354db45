// Memory of this process by the file it is of.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_PROCESS_MEMORY_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_PROCESS_MEMORY_H_

#include <string>

#include "base/units.h"

namespace parplan {

// Pages of the file `path`, as this process has it mapped, that are in memory for it alone
// because it has written to them: of a library, data and the addresses that loading it puts in.
// 0 where the file is not mapped, or the system does not tell. Takes a millisecond.
Bytes PrivateMemoryOf(const std::string& path);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_PROCESS_MEMORY_H_
