// One line a job and hook, for administrators: what prologs print goes nowhere.

#ifndef PARPLAN_CLIENTS_SLURM_JOB_LOG_H_
#define PARPLAN_CLIENTS_SLURM_JOB_LOG_H_

#include <string>

#include "absl/time/time.h"

namespace parplan::slurm {

// Appends `TIME hook job=ID outcome=OUTCOME seconds=S text` to `log`, a file; to the system's log,
// without the time, where it is `syslog` or cannot be written. `seconds`: what the hook took.
void LogJob(const std::string& log, const std::string& hook, const std::string& job_id,
            const std::string& outcome, absl::Duration taken, const std::string& text);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_JOB_LOG_H_
