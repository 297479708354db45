#include "tests/support/test_folder.h"

#include <stdlib.h>  // mkdtemp
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

namespace parplan {
namespace {

// Removes what this process made: a child that was forked has a copy of the list.
class TestFolders {
 public:
  ~TestFolders() {
    if (getpid() != owner_) return;
    std::error_code ignored;
    for (const std::string& path : paths_) std::filesystem::remove_all(path, ignored);
  }
  void Add(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    paths_.push_back(path);
  }

 private:
  const pid_t owner_ = getpid();
  std::mutex mutex_;
  std::vector<std::string> paths_;
};

}  // namespace

std::string MakeTestFolder() {
  static TestFolders folders;
  std::string path = testing::TempDir() + "/parplan_test_XXXXXX";
  if (mkdtemp(path.data()) == nullptr) ADD_FAILURE() << "cannot make " << path;
  folders.Add(path);
  return path;
}

}  // namespace parplan
