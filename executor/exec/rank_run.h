// One rank of parplan-exec, from reading its inputs to the end of the training. main.cc calls it in
// every rank, once in a process.

#ifndef PARPLAN_EXECUTOR_EXEC_RANK_RUN_H_
#define PARPLAN_EXECUTOR_EXEC_RANK_RUN_H_

#include "absl/status/status.h"
#include "executor/device/ranks/rank_environment.h"
#include "executor/exec/exec_flags.h"

namespace parplan {

// Joins the job as `self` and trains; blocks until the end of the job. Threads that it starts have
// ended when it returns, and it installs no handlers of signals. Rank 0 also prints to standard
// output the losses and, at the end, the table of predicted and measured times and memory
// (`RecordTable`), reports to the server and replaces the file of results.
//
// `joined` must be false at first. It becomes true just before the rank joins the others, also if
// the call then succeeds: from there on UNAVAILABLE and ABORTED may only say that another rank has
// failed, and main.cc then exits with `kExitAfterAnother`, so that the launcher names the rank that
// failed first.
//
// Returns the errors of ReadInputs, LoadBackend, DeviceBackend, CheckedPlan::CheckDevice (for the
// first plan), RendezvousServer::Start, JobFabric and PlanApplier. FAILED_PRECONDITION
// (TOPOLOGY_MISMATCH) if the node has no device for this rank and ranks may not share one
// (`--share-devices`; processors are always shared, and under another launcher that sets
// CUDA_VISIBLE_DEVICES a single GPU is the rank's own); OUT_OF_RANGE if the loss is not finite,
// from every rank, as all have the same loss; INTERNAL if the results cannot be written. After any
// other error rank 0 prints no table and writes no results. A server that cannot be reached is no
// error, nor are flags of its connection that `MakeServerSink` (clients/cpp/execution_sink.h)
// refuses; main.cc checks these before.
absl::Status RunRank(const ExecFlags& flags, RankEnvironment self, bool& joined);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_EXEC_RANK_RUN_H_
