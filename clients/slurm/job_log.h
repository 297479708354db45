// Logs lines about jobs for administrators: Slurm drops what prologs print. The hooks that planctl
// has for Slurm call it, in most cases once for each job; not for a job without a wish for a plan.

#ifndef PARPLAN_CLIENTS_SLURM_JOB_LOG_H_
#define PARPLAN_CLIENTS_SLURM_JOB_LOG_H_

#include <string>

#include "absl/time/time.h"

namespace parplan::slurm {

// Appends `TIME HOOK job=ID outcome=OUTCOME seconds=S TEXT` to `log`, the path of a file, which is
// made with mode 0640 if it is missing; to the system's log, without the time, if `log` is `syslog`
// or can't be written, as through a symbolic link. TIME is now in UTC. S is `taken`, the run time
// of the hook so far. REQUIRES, unchecked: no text has a line feed. Returns no error.
void LogJob(const std::string& log, const std::string& hook, const std::string& job_id,
            const std::string& outcome, absl::Duration taken, const std::string& text);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_JOB_LOG_H_
