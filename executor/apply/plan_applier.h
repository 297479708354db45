// Runs a plan on one rank: prepares it, makes its steps, measures them, ends it, or swaps it for
// another plan between two steps.
//
//   PlanApplier applier(plan, {.device = device, .job = fabric, .tokens = tokens});
//   PARPLAN_RETURN_IF_ERROR(applier.Prepare());
//   for (int step = 0; step < 100; ++step) {
//     PARPLAN_ASSIGN_OR_RETURN(const double loss, applier.Step());
//     if (const std::optional<StepWindow> window = applier.TakeWindow()) Report(*window);
//   }
//   if (const std::optional<StepWindow> rest = applier.TakeRest()) Report(*rest);
//   return applier.Teardown();
//
// States: kVerified -> Prepare -> kPrepared -> Step -> kRunning -> Teardown -> kDone; any error of
// the job leads to kFailed, from which nothing leads back. `parplan-exec` makes one on each rank
// (executor/exec/rank_run.cc).

#ifndef PARPLAN_EXECUTOR_APPLY_PLAN_APPLIER_H_
#define PARPLAN_EXECUTOR_APPLY_PLAN_APPLIER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/apply/checked_plan.h"
#include "executor/apply/step_meter.h"
#include "executor/device/backend/device_backend.h"
#include "executor/device/comm/rank_context.h"
#include "executor/trainer/rank_trainer.h"

namespace parplan {

// The tools and settings with which a rank runs plans.
struct ApplierSetting {
  // This rank's device, handle to its job, and tokens; all outlive the applier. The job has as many
  // ranks as plans have devices.
  Device* device = nullptr;
  RankContext* job = nullptr;
  const TokenSource* tokens = nullptr;
  // Settings of the optimizer that the model names.
  OptimizerSettings optimizer = AdamSettings{};
  // Seed of the initial parameters; the same on all ranks, and so are `tokens`.
  uint64_t seed = 1;
  // Type to compute in. Absent: that of the model's precision; another one is for tests.
  std::optional<ElementType> type;
  // Steps of a measured window, at least 1.
  int window_step_count = 10;
  // Memory that the device holds for this process in addition to arrays (DeviceMemoryUse::context);
  // 0: unknown. Only measured windows contain it. On an asynchronous device the applier asks for it
  // itself when a plan is prepared: libraries and communicators come with the plan.
  Bytes context_memory;
  // Whether calls return before the device has executed them, as on GPUs (StepMeter).
  bool is_asynchronous = false;
};

// One rank's applier, used by one thread. All ranks of the job call the same methods in the same
// order. The first error ends the job for all ranks, and this and every later call returns it; if
// another rank was the cause, the error names it. Only a call in the wrong state
// (FAILED_PRECONDITION with no `Reason`) and a plan that `Swap` refuses change nothing. The caller
// checks that the device is what a plan needs (CheckedPlan::CheckDevice); a plan that expires
// meanwhile runs on.
class PlanApplier {
 public:
  // How far the applier has come; see the head of the file.
  enum class State { kVerified, kPrepared, kRunning, kDone, kFailed };

  // REQUIRES, unchecked: the pointers of `setting` are not null.
  PlanApplier(CheckedPlan plan, const ApplierSetting& setting);
  // Frees everything without waiting for the other ranks: call `Teardown` or `Abort` before.
  ~PlanApplier();

  // Makes groups, parameters and optimizer states. FAILED_PRECONDITION (TOPOLOGY_MISMATCH) if the
  // job has another number of ranks than the plan, INVALID_ARGUMENT (SPEC_INVALID) if the optimizer
  // is not the model's, or `type` is absent and the model's precision is neither fp32 nor bf16,
  // UNIMPLEMENTED if the device has no kernels for the type or the model's attention,
  // RESOURCE_EXHAUSTED if memory is too small, and the errors of communicators (Device::MakeGroup).
  // Only in state `kVerified`.
  absl::Status Prepare();

  // Makes one optimizer step and returns the mean loss per token, which may be infinite or NaN. In
  // states `kPrepared` and `kRunning`. Returns the errors of RankTrainer::Step.
  absl::StatusOr<double> Step();

  // Returns the window that the last steps completed, once; nothing if no step has completed one
  // since the last call. One that is not taken before the next is complete is lost.
  std::optional<StepWindow> TakeWindow();
  // Returns the steps since the last window was complete as a shorter one; nothing if there was no
  // step. Called before `Teardown`, which drops them. A complete window that was not taken stays
  // for `TakeWindow`.
  std::optional<StepWindow> TakeRest();

  // Continues under `plan`, which has the same model, batch and number of ranks and no lower
  // generation: parameters, optimizer states and the count of steps stay, and each rank gets the
  // parts it needs now. Measurements that were not taken are lost. In states `kPrepared` and
  // `kRunning`. INVALID_ARGUMENT (SPEC_INVALID) naming the field if `plan` has another model, batch
  // or number of ranks, or a lower generation; the job then continues under the old plan. Any other
  // error ends the job: those of ReadStates, MoveStates and WriteStates (state_mover.h), and of
  // RankTrainer::Create for the new plan.
  absl::Status Swap(const CheckedPlan& plan);

  // Waits for all ranks and frees everything the plan needed. Returns the errors of that wait
  // (PendingWork::Wait). Ends in state `kDone`, in which another call is FAILED_PRECONDITION. In
  // state `kVerified` it waits for no rank.
  absl::Status Teardown();

  // Ends the job for all ranks, for the caller's reason `why`: ABORTED everywhere. The state is
  // `kFailed` then. Does nothing if it was before.
  void Abort(const std::string& why);

  // Returns the present state.
  State state() const { return state_; }
  // OK, or why the state is `kFailed`.
  const absl::Status& failure() const { return failure_; }
  // Returns the plan that runs now: the last one that `Swap` took, else that of the constructor.
  const CheckedPlan& plan() const { return plan_; }
  // Number of steps so far, under all plans.
  int64_t step_count() const { return step_count_; }
  // For tests; null before `Prepare`, after `Teardown` and, once the old plan's trainer is gone,
  // after a swap that failed.
  RankTrainer* trainer() { return trainer_.get(); }

 private:
  // Makes the trainer of `plan_`.
  absl::Status Build();
  absl::Status SwapTo(const CheckedPlan& plan);
  absl::StatusOr<std::unique_ptr<Communicator>> Everyone();
  // Returns `status`; if it is an error, keeps it as the failure and ends the job.
  absl::Status Keep(const absl::Status& status);
  absl::Status Expect(State a, State b) const;

  CheckedPlan plan_;
  const ApplierSetting setting_;
  State state_ = State::kVerified;
  absl::Status failure_;
  int64_t step_count_ = 0;
  std::optional<StepWindow> window_;
  // In the order of construction: each may use those before it.
  std::unique_ptr<LayerKernels> kernels_;
  std::unique_ptr<Communicator> everyone_;
  std::unique_ptr<ArrayPool> pool_;
  std::unique_ptr<StepMeter> meter_;
  std::unique_ptr<RankTrainer> trainer_;
};

// Returns the state's name for messages, for example `running`.
const char* ApplierStateName(PlanApplier::State state);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_APPLY_PLAN_APPLIER_H_
