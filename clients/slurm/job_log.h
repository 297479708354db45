// Logs one line per job and hook for administrators: Slurm drops what prologs print. Every hook of
// planctl calls it once.

#ifndef PARPLAN_CLIENTS_SLURM_JOB_LOG_H_
#define PARPLAN_CLIENTS_SLURM_JOB_LOG_H_

#include <string>

#include "absl/time/time.h"

namespace parplan::slurm {

// Appends `TIME hook job=ID outcome=OUTCOME seconds=S text` to `log`, a file; to the system's log,
// without the time, if `log` is `syslog` or can't be written. `seconds` is the run time of the
// hook, `taken`. REQUIRES: no text has a line feed.
void LogJob(const std::string& log, const std::string& hook, const std::string& job_id,
            const std::string& outcome, absl::Duration taken, const std::string& text);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_JOB_LOG_H_
