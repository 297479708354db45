#include "executor/device/backend/process_memory.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace parplan {

Bytes PrivateMemoryOf(const std::string& path) {
  std::error_code error;
  const std::string file = std::filesystem::canonical(path, error).string();
  if (error) return Bytes();
  // Each mapping has one line with its address and file, then lines like `Anonymous: 4 kB`
  // (proc(5)).
  std::ifstream mappings("/proc/self/smaps");
  int64_t kibibytes = 0;
  bool is_of_file = false;
  for (std::string line; std::getline(mappings, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.empty()) continue;
    if (first.back() != ':') {
      // Permissions, offset, device and inode precede the file.
      std::string word;
      for (int k = 0; k < 4; ++k) words >> word;
      std::string name;
      std::getline(words >> std::ws, name);
      is_of_file = name == file;
    } else if (is_of_file && first == "Anonymous:") {
      int64_t size = 0;
      words >> size;
      kibibytes += size;
    }
  }
  return Bytes::Of(kibibytes * 1024);
}

}  // namespace parplan
