// The work on the controller: requests a plan before a job starts, and closes its executions after
// it has ended. `planctl slurm-prolog` and `slurm-epilog` call it. All functions that take a
// configuration call Slurm's programs and wait for them without a limit of their own: callers set
// one (deadline_work.h). They set SLURM_CONF in the environment, so the process has one thread.

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

// The outcome of a job's wish for a plan.
enum class Outcome {
  // The plan is in the spool.
  kPlanned,
  // No plan: the planner could not be reached or cannot answer now, or the spool, the TLS files or
  // scontrol failed, or any other error that `IsRefusal` (refusal.h) does not accept.
  kAway,
  // No plan: nothing fits, or the job asks for something impossible, such as a plan that the
  // controller may not read.
  kRefused,
};
// Returns `planned`, `away` or `refused`, which lives as long as the program.
const char* OutcomeName(Outcome outcome);

// The result of `PreparePlan`, for the log, the comment of the job, and the decision about it.
struct Answer {
  Outcome outcome = Outcome::kAway;
  // One line for people: the name of the plan and how long it took, or the reason or code of an
  // error and its message.
  std::string text;
};

// Fetches the plan of a job that wants one (`job.wishes.plan` is not `off`) and writes it to the
// spool for the job's nodes, or the reason why there is none. The spool has a reason from the
// start, so that no node takes the plan of an earlier run of the job. A plan that one of the
// programs of `job.wishes.exports` cannot run is refused here. Completes `job`, its own copy, by
// `AddJobDetails`. A name of a plan without a `/` is that of a plan of `config.cluster`. Retries
// while the planner can't be reached, with pauses of 0.2 s that double up to 2 s, until `tries` is
// over; `tries` limits the calls of the planner only. `node_list` is SLURM_JOB_NODELIST.
Answer PreparePlan(const SlurmConfig& config, JobFacts job, absl::string_view node_list,
                   const Countdown& tries);

// Writes outcome and text, cut to 500 characters, into the job's admin comment. Returns the errors
// of `OutputOf`: UNAVAILABLE if scontrol fails.
absl::Status SetJobComment(const SlurmConfig& config, const JobFacts& job, const Answer& answer);

// Cancels a job. Slurm then kills its prolog, this process, too, so a caller cannot count on the
// call's return. Returns the errors of `OutputOf`: UNAVAILABLE if scancel fails.
absl::Status CancelJob(const SlurmConfig& config, const JobFacts& job);

// Closes the executions of the job's plan that still run, as failed, and removes the plan from the
// spool. Executions of a plan that is bound to no job stay open, since they may be another job's,
// and so do those that the controller has no role to close. Returns one line on what was done, also
// if the job had no plan or the spool's file can't be read, or an error if some may still be open:
// then the plan is still in the spool, and the call may be repeated. UNAVAILABLE if the planner
// does not answer before `tries` is over, FAILED_PRECONDITION for TLS files that can't be used, and
// other errors of execution_service.proto.
absl::StatusOr<std::string> CloseJob(const SlurmConfig& config, const JobFacts& job,
                                     const Countdown& tries);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_CONTROLLER_H_
