// Simulates a process that has no descriptor left.

#ifndef PARPLAN_TESTS_SUPPORT_DESCRIPTOR_LIMIT_H_
#define PARPLAN_TESTS_SUPPORT_DESCRIPTOR_LIMIT_H_

#include <sys/resource.h>

namespace parplan {

// Lets this process open no other descriptor while it lives; those that are open stay so.
class DescriptorLimit {
 public:
  DescriptorLimit() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = 0;
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_DESCRIPTOR_LIMIT_H_
