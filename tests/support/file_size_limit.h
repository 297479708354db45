// Simulates a full disk without a disk of its own.

#ifndef PARPLAN_TESTS_SUPPORT_FILE_SIZE_LIMIT_H_
#define PARPLAN_TESTS_SUPPORT_FILE_SIZE_LIMIT_H_

#include <sys/resource.h>

#include <csignal>

namespace parplan {

// Limits files that this process writes to `bytes` while it lives: the kernel refuses the rest
// in the call that writes, as it does on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit lower = before_;
    lower.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
  void (*const handler_)(int);
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_FILE_SIZE_LIMIT_H_
