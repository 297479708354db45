// The rank of this process in its job, from the environment that its launcher made. `parplan-exec`
// and `parplan-agent-probe` read it at their start.

#ifndef PARPLAN_EXECUTOR_DEVICE_RANKS_RANK_ENVIRONMENT_H_
#define PARPLAN_EXECUTOR_DEVICE_RANKS_RANK_ENVIRONMENT_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/device/comm/job_fabric.h"

namespace parplan {

// kParplan is RankProcesses (rank_processes.h); kPlan is any launcher that sets the variables of a
// planned job (docs/launch.md).
enum class Launcher { kParplan, kTorchrun, kOpenMpi, kSlurm, kPlan };

// Returns the name for messages, for example `torchrun`.
const char* LauncherName(Launcher launcher);

// The place of this process in its job.
struct RankEnvironment {
  // Returns a variable's value, or null if it is not set.
  using Lookup = std::function<const char*(const char* name)>;

  // Reads the variables of the first of these launchers that is there: one whose rank or size is
  // set, ours and torchrun's also if the local rank is, ours also if PARPLAN_RENDEZVOUS is, but not
  // for PARPLAN_TOKEN alone, and Slurm only if SLURM_PROCID is. If torchrun and OpenMPI are both
  // there, they must agree on rank and size, and torchrun's count.
  //   ours      PARPLAN_RANK, _WORLD_SIZE, _LOCAL_RANK, _RENDEZVOUS, _TOKEN
  //   torchrun  RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
  //   a plan    those of torchrun, and PARPLAN_PLAN but no TORCHELASTIC_RUN_ID; PARPLAN_RANK and
  //             the like then repeat them, and only PARPLAN_RENDEZVOUS makes them ours
  //   OpenMPI   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK; and MASTER_ADDR on several nodes
  //   Slurm     SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID; MASTER_ADDR or SLURM_STEP_NODELIST
  // Slurm comes last, since every process in a step inherits its variables. A job is on one node
  // if, with torchrun or a plan, LOCAL_WORLD_SIZE is WORLD_SIZE or MASTER_ADDR is 127.0.0.1 or
  // localhost, with OpenMPI if OMPI_COMM_WORLD_LOCAL_SIZE is the size, with Slurm if
  // SLURM_STEP_NUM_NODES is 1; its ranks meet and listen at 127.0.0.1 alone. A variable that is set
  // to an empty text counts as set in the choice of the launcher, and as missing where a value is
  // needed. Nothing if there are no such variables. INVALID_ARGUMENT naming the variable that is
  // missing, is not a number, is out of range, or contradicts another; also PARPLAN_TOKEN, if
  // another launcher's ranks are on several nodes and it is not set, and PARPLAN_TLS_LINKS, if it
  // is none of its words.
  static absl::StatusOr<std::optional<RankEnvironment>> FromVariables(const Lookup& lookup);
  // Does the same with the environment of this process.
  static absl::StatusOr<std::optional<RankEnvironment>> FromEnvironment();

  Launcher launcher = Launcher::kParplan;
  // Number of this rank in the job, from 0, and the number of ranks.
  int rank = 0;
  int world_size = 1;
  // Number of this rank among those of its node, from 0.
  int local_rank = 0;
  // "HOST:PORT" of the rendezvous. With other launchers than ours rank 0 serves it, at
  // PARPLAN_PORT; else at the port above MASTER_PORT, which the launcher itself may use; else at a
  // port from 20000 to 29999 computed from the job's id.
  std::string rendezvous;
  // PARPLAN_TOKEN. Empty without it, if another launcher has put the job on one node: `NodeToken`
  // sets it then.
  std::string token;
  // Id of the job where `token` may be empty, the same for all ranks; other users can know it.
  std::string job;
  // Name or address by which other ranks reach this one.
  std::string host = "127.0.0.1";
  // PARPLAN_TLS_LINKS: `between-nodes`, as if it is not set, `all` or `none`.
  TlsLinks tls_links = TlsLinks::kBetweenNodes;
  // Whether our launcher has started more ranks than there are processors, so that ranks share
  // them; false with other launchers.
  bool shares_core = false;
  // Descriptor for results to the launcher; -1 with other launchers than ours, or if ours takes no
  // results.
  int result_descriptor = -1;

  // Returns whether this rank must start the rendezvous: rank 0 under other launchers than ours.
  bool serves_rendezvous() const { return launcher != Launcher::kParplan && rank == 0; }
  // Returns the port in `rendezvous`; 0 if it has none.
  int rendezvous_port() const;
  // Returns the options of a fabric that follow from these fields; the others have their defaults.
  JobFabricOptions ToFabricOptions() const;
};

// Returns the first host of a list in Slurm's notation: `node003` of `node[003-010,12],login1`.
// INVALID_ARGUMENT for a list without hosts or with a bracket that is empty or not closed.
absl::StatusOr<std::string> FirstHostOfSlurm(absl::string_view node_list);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_RANKS_RANK_ENVIRONMENT_H_
