// Simulates a process that has no descriptor left.

#ifndef PARPLAN_TESTS_SUPPORT_DESCRIPTOR_LIMIT_H_
#define PARPLAN_TESTS_SUPPORT_DESCRIPTOR_LIMIT_H_

#include <sys/resource.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/system/posix_file.h"

namespace parplan {

// Lets this process open no other descriptor while it lives; those that are open stay so.
class DescriptorLimit {
 public:
  DescriptorLimit() {
    // Clang's check of virtual tables (-fsanitize=vptr) opens a pipe to see whether an object can
    // be read, and takes it for no object where it cannot. It remembers the tables that it has
    // seen: here those of the categories that the code under test names errors by.
    names_ = ErrnoText(EMFILE) + std::error_code(EMFILE, std::generic_category()).message() +
             std::error_code(EMFILE, std::system_category()).message();
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = 0;
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  std::string names_;
  rlimit before_ = {};
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_DESCRIPTOR_LIMIT_H_
