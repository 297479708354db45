#include "clients/slurm/job_log.h"

#include <fcntl.h>
#include <syslog.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace parplan::slurm {

void LogJob(const std::string& log, const std::string& hook, const std::string& job_id,
            const std::string& outcome, absl::Duration taken, const std::string& text) {
  const std::string line = absl::StrFormat("%s job=%s outcome=%s seconds=%.3f %s", hook, job_id,
                                           outcome, absl::ToDoubleSeconds(taken), text);
  if (log != "syslog") {
    const int file =
        ::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (file >= 0) {
      const std::string stamped =
          absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()),
                       " ", line, "\n");
      // Whole, beside those of other jobs.
      const ssize_t written = ::write(file, stamped.data(), stamped.size());
      ::close(file);
      if (written == static_cast<ssize_t>(stamped.size())) return;
    }
  }
  ::openlog("parplan", LOG_PID, LOG_DAEMON);
  ::syslog(LOG_NOTICE, "%s", line.c_str());
  ::closelog();
}

}  // namespace parplan::slurm
