// A plan that may be run here: its signature is verified, it was made for this model and this
// topology, and the executor can run all of it. `PlanApplier`, `parplan-exec` and the C interface
// take plans only in this form.

#ifndef PARPLAN_EXECUTOR_APPLY_CHECKED_PLAN_H_
#define PARPLAN_EXECUTOR_APPLY_CHECKED_PLAN_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "executor/device/backend/device_backend.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "planner/model/topology.h"
#include "planner/program/rank_program.h"
#include "proto/envelope/verified_plan.h"

namespace parplan {

// A value: copies are equal and never change, so all threads may read one.
class CheckedPlan {
 public:
  // Checks a verified plan. PlanVerifier::Verify has checked that it had not expired; this does not
  // check it again. FAILED_PRECONDITION with `field` in its metadata if the plan was not made for
  // `model` (SPEC_INVALID) or `topology` (TOPOLOGY_MISMATCH); INVALID_ARGUMENT if the payload is
  // not a plan or has no prediction (PAYLOAD_MALFORMED), or the executor cannot run all of it (the
  // errors of RankProgram::Create).
  static absl::StatusOr<CheckedPlan> Create(const VerifiedPlan& verified, const ModelSpec& model,
                                            const Topology& topology);

  // Checks that `device` is what rank `rank` of `world_size` ranks needs. FAILED_PRECONDITION
  // (TOPOLOGY_MISMATCH) naming the field of the topology that it contradicts, or `device_count` if
  // the plan is for another number of ranks. Ranks go through the node groups of the topology in
  // their order. Memory may fall short by 2 %, since machines report slightly different amounts
  // after each boot. REQUIRES, unchecked: 0 <= rank < world_size.
  absl::Status CheckDevice(int rank, int world_size, const DeviceFacts& device) const;

  // Returns the program of rank `rank`. INVALID_ARGUMENT (the error of RankProgram::Create) unless
  // 0 <= rank < plan().device_count. No other error, since `Create` made a program, which checks
  // the whole plan.
  absl::StatusOr<RankProgram> ProgramOf(int rank) const {
    return RankProgram::Create(plan_, model_, rank);
  }

  // `clusters/{cluster}/plans/{plan}`.
  const std::string& name() const { return name_; }
  // Digest of `model()`, the same as in the plan.
  const std::string& model_digest() const { return model_digest_; }
  // End of the plan's validity, in whole seconds; nothing here compares it with a clock.
  absl::Time expire_time() const { return expire_time_; }
  // `PlanPayload.generation`; 0 if the plan has none.
  int64_t generation() const { return generation_; }
  const Plan& plan() const { return plan_; }
  // The prediction that came with the plan. That it has all stages of the plan is not checked.
  const Prediction& prediction() const { return prediction_; }
  const ModelSpec& model() const { return model_; }
  const Topology& topology() const { return topology_; }

 private:
  CheckedPlan(ModelSpec model, Topology topology)
      : model_(std::move(model)), topology_(std::move(topology)) {}

  std::string name_;
  std::string model_digest_;
  absl::Time expire_time_;
  int64_t generation_ = 0;
  Plan plan_;
  Prediction prediction_;
  ModelSpec model_;
  Topology topology_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_APPLY_CHECKED_PLAN_H_
