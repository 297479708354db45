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
  // The system takes off what a thread that asks for everything may not have; this one is bound
  // to nothing else, and ends.
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
    // No thread to be had.
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
