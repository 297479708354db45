// What happens on the controller: a plan is asked for before a job starts, and its executions are
// closed when it has ended. Both talk to the planner and to Slurm, and take as long as these let
// them: callers set a limit (deadline_work.h).

#ifndef PARPLAN_CLIENTS_SLURM_CONTROLLER_H_
#define PARPLAN_CLIENTS_SLURM_CONTROLLER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/slurm/deadline_work.h"
#include "clients/slurm/job_facts.h"
#include "clients/slurm/slurm_config.h"

namespace parplan::slurm {

enum class Outcome {
  // The plan is in the spool.
  kPlanned,
  // There is none: the planner could not be reached, or cannot answer now.
  kAway,
  // There is none: nothing fits, or the job asks for what cannot be.
  kRefused,
};
// `planned`, `away` or `refused`.
const char* OutcomeName(Outcome outcome);

struct Answer {
  Outcome outcome = Outcome::kAway;
  // One line: the plan, or why there is none.
  std::string text;
};

// Gets the plan of a job that wants one and leaves it in the spool for its nodes; where there is
// none, the reason instead, and from the first moment on, so that nobody takes the plan of a run
// before for this one's. Tries again while the planner is away, as long as `tries` lasts.
// `node_list`: SLURM_JOB_NODELIST.
Answer PreparePlan(const SlurmConfig& config, JobFacts job, absl::string_view node_list,
                   const Countdown& tries);

// Writes the plan, or the reason, into the job's admin comment. UNAVAILABLE where scontrol fails.
absl::Status TellJob(const SlurmConfig& config, const JobFacts& job, const Answer& answer);

// Cancels a job. Slurm then kills its prolog too: nothing comes after this but an error.
absl::Status CancelJob(const SlurmConfig& config, const JobFacts& job);

// Closes the executions of the job's plan that still run, as failed, and takes the plan out of
// the spool. One line on what was done. An error where some may be open yet: the plan is in the
// spool then, and this may be called again.
absl::StatusOr<std::string> CloseJob(const SlurmConfig& config, const JobFacts& job,
                                     const Countdown& tries);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_CONTROLLER_H_
