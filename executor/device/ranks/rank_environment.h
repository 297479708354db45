// Who this process is among the ranks of a job: what its launcher put into its environment.

#ifndef PARPLAN_EXECUTOR_DEVICE_RANKS_RANK_ENVIRONMENT_H_
#define PARPLAN_EXECUTOR_DEVICE_RANKS_RANK_ENVIRONMENT_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/device/comm/job_fabric.h"

namespace parplan {

// kParplan is RankProcesses (rank_processes.h), kPlan whoever told the ranks of a plan which
// they are (docs/launch.md).
enum class Launcher { kParplan, kTorchrun, kOpenMpi, kSlurm, kPlan };

// The name for people, for example `torchrun`.
const char* LauncherName(Launcher launcher);

struct RankEnvironment {
  // A variable's value, or null where it is not set.
  using Lookup = std::function<const char*(const char* name)>;

  // By the first of these that is there:
  //   ours      PARPLAN_RANK, _WORLD_SIZE, _LOCAL_RANK, _RENDEZVOUS, _TOKEN
  //   torchrun  RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
  //   a plan    those of torchrun, and PARPLAN_PLAN: PARPLAN_RANK and its like then only repeat
  //             them, and are ours with PARPLAN_RENDEZVOUS alone
  //   OpenMPI   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK; and MASTER_ADDR on several nodes
  //   Slurm     SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_NODELIST
  // Slurm's are inherited by whatever runs in a step, so they count last. Nothing where none
  // of them is there. INVALID_ARGUMENT naming the variable that is missing beside others, is
  // no number or out of range, or contradicts another; PARPLAN_TOKEN where other launchers' ranks
  // are on several nodes without it.
  static absl::StatusOr<std::optional<RankEnvironment>> FromVariables(const Lookup& lookup);
  // Of this process.
  static absl::StatusOr<std::optional<RankEnvironment>> FromEnvironment();

  Launcher launcher = Launcher::kParplan;
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  // "HOST:PORT". With another launcher than ours rank 0 serves it, at PARPLAN_PORT; else one
  // above MASTER_PORT, which the launcher itself may use; else one that follows from the job.
  std::string rendezvous;
  // PARPLAN_TOKEN; else, where another launcher has put the job on one node, made of the job's
  // id: it keeps jobs apart, but is no secret from whoever may list jobs.
  std::string token;
  // By which other ranks reach this one.
  std::string host = "127.0.0.1";
  // Other ranks run on the processor this one is bound to.
  bool shares_core = false;
  // Where the rank writes what its launcher shall have of it; -1 with other launchers.
  int result_descriptor = -1;

  bool serves_rendezvous() const { return launcher != Launcher::kParplan && rank == 0; }
  int rendezvous_port() const;
  // Those of its fields that a fabric wants too.
  JobFabricOptions ToFabricOptions() const;
};

// The first host of a list as Slurm writes it: `node003` of `node[003-010,12],login1`.
// INVALID_ARGUMENT for one without a host.
absl::StatusOr<std::string> FirstHostOfSlurm(absl::string_view node_list);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_RANKS_RANK_ENVIRONMENT_H_
