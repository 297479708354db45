// Reads and checks the files of parplan-exec: in the launcher before it starts ranks, and in each
// rank before it trains.

#ifndef PARPLAN_EXECUTOR_EXEC_EXEC_INPUTS_H_
#define PARPLAN_EXECUTOR_EXEC_EXEC_INPUTS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "executor/apply/checked_plan.h"
#include "executor/device/comm/shaped_link.h"
#include "executor/exec/exec_flags.h"
#include "executor/trainer/layer_state.h"
#include "executor/trainer/token_source.h"

namespace parplan {

// The contents of the files, read and checked.
struct ExecInputs {
  CheckedPlan plan;
  // Absent if the flags name none.
  std::optional<CheckedPlan> swap_to;
  // Bytes of the text, or synthetic tokens without one; never null.
  std::unique_ptr<TokenSource> tokens;
  // Settings of the model's optimizer, with the learning rate of the flags unless that is 0.
  OptimizerSettings optimizer;
  // JobFabricOptions::shape; null: no link is slowed down.
  std::function<LinkShape(int from, int to)> shape;
};

// Reads all files that the flags name, but for those of the server's connection, and verifies the
// plans as of `now`. Returns the errors of PlanVerifier::Verify (verifier.h), CheckedPlan::Create
// (checked_plan.h) and ReadTrustFile (clients/files/input_files.h, which also remembers the
// bundle), FAILED_PRECONDITION (SPEC_INVALID) for a plan that was predicted for another runtime
// unless the flags accept any (a plan that names no runtime is accepted), the error of
// MakeTextTokens (token_source.h) for a text that it refuses, and INVALID_ARGUMENT naming a file
// that cannot be read, a text above 8 GiB, or `--swap-at` if there is a plan to swap to and it is
// not below `--steps`. Wrong contents are INVALID_ARGUMENT too, in most cases naming the field,
// such as `model.precision`, and not the file. Whether the plan to swap to may follow the first one
// is checked by PlanApplier::Swap alone.
absl::StatusOr<ExecInputs> ReadInputs(const ExecFlags& flags, absl::Time now);

// Reads the shapes of links between ranks, which are in order on nodes of `ranks_per_node`:
//
//   {"ranks_per_node": 2, "between_nodes": {"bytes_per_second": 1e8, "latency_seconds": 1e-4},
//    "within_node": {...}}
//
// Links and figures that are not named are not slowed down. The function that is returned takes
// ranks of the job, from 0. INVALID_ARGUMENT (SPEC_INVALID) naming the file if it is no JSON object
// or names a member twice, else the field that is unknown, missing (`ranks_per_node`), not above 0,
// or a figure above 1e18.
absl::StatusOr<std::function<LinkShape(int from, int to)>> ParseLinkShapes(
    absl::string_view json, const std::string& file_name);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_EXEC_EXEC_INPUTS_H_
