#include "clients/device/backend/process_memory.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace parplan {

Bytes PrivateMemory() {
  // Sizes in pages: all, resident, and of these shared or of a file, ... (proc(5)).
  std::ifstream file("/proc/self/statm");
  int64_t all = 0;
  int64_t resident = 0;
  int64_t shared = 0;
  if (!(file >> all >> resident >> shared) || shared > resident) return Bytes();
  return Bytes::Of((resident - shared) * ::sysconf(_SC_PAGESIZE));
}

}  // namespace parplan
