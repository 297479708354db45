#include "clients/kubernetes/aside_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace parplan::sidecar {

void AsideFiles::Load() {
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder_, error), end; !error && file != end;
       file.increment(error)) {
    const std::string ending = file->path().extension().string();
    if (ending == ".refused" || ending == ".damaged") {
      files_.push_back(file->path().filename().string());
    }
  }
  std::sort(files_.begin(), files_.end());
}

void AsideFiles::Add(const std::string& file) {
  files_.push_back(file);
  while (files_.size() > kMaxCount) {
    std::error_code error;
    std::filesystem::remove(std::filesystem::path(folder_) / files_.front(), error);
    files_.pop_front();
  }
}

}  // namespace parplan::sidecar
