#include "executor/device/backend/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

namespace parplan {

int UsableProcessorCount() {
  int count = 0;
  // A thread that asks for all processors gets those it may have. A thread of its own does, so that
  // the binding of this one stays.
  const auto ask = [&count] {
    cpu_set_t processors;
    std::memset(&processors, 0xff, sizeof(processors));
    static_cast<void>(::sched_setaffinity(0, sizeof(processors), &processors));
    if (::sched_getaffinity(0, sizeof(processors), &processors) == 0) {
      count = CPU_COUNT(&processors);
    }
  };
  try {
    std::thread(ask).join();
  } catch (const std::system_error&) {
    // The system has no thread to give; the count below is the machine's.
  }
  if (count < 1) count = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return std::max(count, 1);
}

Bytes MachineMemory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes && std::getline(file, unit)) {
    if (key == "MemTotal:") return Bytes::Of(kibibytes * 1024);
  }
  return Bytes::Of(0);
}

}  // namespace parplan
