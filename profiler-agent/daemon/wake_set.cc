#include "profiler-agent/daemon/wake_set.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/system/posix_file.h"

namespace parplan {

absl::StatusOr<std::unique_ptr<WakeSet>> WakeSet::Create(const std::string& folder) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  const int signals = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  const int calls = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int files = folder.empty() ? -1 : ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  std::unique_ptr<WakeSet> made(new WakeSet(signals, files, calls));
  if (signals < 0 || calls < 0) {
    return absl::ResourceExhaustedError(
        DescribeErrno(errno, "cannot create file descriptors to wait on"));
  }
  if (!folder.empty() &&
      (files < 0 || ::inotify_add_watch(files, folder.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE) < 0)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kSpecInvalid,
                     absl::StrCat("cannot watch the folder ", folder, ": ", ErrnoText(errno),
                                  "; create it, or name another folder with --spool-dir"));
  }
  return made;
}

WakeSet::~WakeSet() {
  for (const int descriptor : {signals_, files_, calls_}) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

WakeSet::Causes WakeSet::Wait(absl::Duration longest) {
  pollfd polled[] = {{signals_, POLLIN, 0}, {files_, POLLIN, 0}, {calls_, POLLIN, 0}};
  // poll() takes at most 24 days in milliseconds; waking once a day is harmless.
  const absl::Duration bounded =
      std::clamp(longest, absl::ZeroDuration(), absl::Duration(absl::Hours(24)));
  ::poll(polled, 3,
         static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(bounded, absl::Milliseconds(1)))));
  Causes causes;
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof(info)) == sizeof(info)) {
    causes.signal = static_cast<int>(info.ssi_signo);
  }
  alignas(inotify_event) char events[4096];
  while (files_ >= 0 && ::read(files_, events, sizeof(events)) > 0) causes.has_new_files = true;
  uint64_t count = 0;
  causes.is_called = ::read(calls_, &count, sizeof(count)) == sizeof(count);
  return causes;
}

void WakeSet::Call() {
  const uint64_t one = 1;
  // If the counter is full, the write fails and the thread wakes all the same.
  [[maybe_unused]] const ssize_t ignored = ::write(calls_, &one, sizeof(one));
}

}  // namespace parplan
