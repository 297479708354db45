#include "clients/planctl/commands/local_search_flags.h"

#include <algorithm>
#include <thread>

#include "clients/planctl/commands/interrupt.h"

namespace parplan::planctl {
namespace {

constexpr int kMaxThreadCount = 256;

}  // namespace

shell::Option LocalSearchFlags::AddTo(shell::Command command) {
  return command
      .AddOption("--threads", thread_count,
                 "Threads that search; the plan does not depend on them [all processors]")
      .Check(shell::Between(1, kMaxThreadCount));
}

SearchWatch LocalSearchFlags::Watch() const {
  SearchWatch watch;
  watch.thread_count = thread_count;
  if (thread_count == 0) {
    watch.thread_count =
        std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreadCount);
  }
  watch.is_cancelled = &InterruptWatch::interrupted;
  return watch;
}

}  // namespace parplan::planctl
