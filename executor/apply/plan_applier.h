// Runs a plan on one rank: prepares it, makes its steps, measures them, and takes it down, or
// puts another plan in its place between two steps.

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

struct ApplierSetting {
  // Of this rank; `job` has as many ranks as plans have devices. All outlive the applier.
  Device* device = nullptr;
  RankContext* job = nullptr;
  const TokenSource* tokens = nullptr;
  // Of the kind the model names, `optimizer` of its spec.
  OptimizerSettings optimizer = AdamSettings{};
  // What parameters begin with.
  uint64_t seed = 1;
  // The precision the model names; another one for tests.
  std::optional<ElementType> type;
  int window_step_count = 10;
  // What the device holds for this process besides arrays, as the agent measures it; 0: unknown.
  Bytes context_memory;
  // Whether the device works behind its caller, as GPUs do (StepMeter).
  bool is_asynchronous = false;
};

// Of one thread. All ranks of the job call the same methods in the same order. The first error
// ends the job for all ranks, and this and every later method gives it: where another rank was
// the cause, the error names it.
class PlanApplier {
 public:
  enum class State { kVerified, kPrepared, kRunning, kDone, kFailed };

  PlanApplier(CheckedPlan plan, const ApplierSetting& setting);
  ~PlanApplier();

  // Makes groups, parameters and states of the optimizer. FAILED_PRECONDITION for a setting
  // the plan does not go with, RESOURCE_EXHAUSTED where memory is too small. From `kVerified`.
  absl::Status Prepare();

  // One step of the optimizer; gives the mean loss. From `kPrepared` and `kRunning`.
  absl::StatusOr<double> Step();

  // The window that the last step has filled; nothing between windows.
  std::optional<StepWindow> TakeWindow();
  // What is measured since the last window; nothing where no step was made.
  std::optional<StepWindow> TakeRest();

  // Goes on under `plan`, of the same model and number of ranks: parameters, states of the
  // optimizer and the count of steps stay, each rank gets the parts it now needs. What was
  // measured and not taken is lost. INVALID_ARGUMENT where `plan` is of another model or of
  // another number of ranks, and the job goes on as before.
  absl::Status Swap(const CheckedPlan& plan);

  // Waits for all ranks and gives back what the plan needed. To `kDone`.
  absl::Status Teardown();

  // Ends the job for all ranks, for a reason of the caller's.
  void Abort(const std::string& why);

  State state() const { return state_; }
  // OK, or why the state is `kFailed`.
  const absl::Status& failure() const { return failure_; }
  const CheckedPlan& plan() const { return plan_; }
  // Over all plans.
  int64_t step_count() const { return step_count_; }
  // For tests. Null before `Prepare` and after `Teardown`.
  RankTrainer* trainer() { return trainer_.get(); }

 private:
  // Makes the trainer of `plan_`.
  absl::Status Build();
  absl::Status SwapTo(const CheckedPlan& plan);
  absl::StatusOr<std::unique_ptr<Communicator>> Everyone();
  // Ends the job where `status` is an error.
  absl::Status Keep(absl::Status status);
  absl::Status Expect(State a, State b) const;

  CheckedPlan plan_;
  const ApplierSetting setting_;
  State state_ = State::kVerified;
  absl::Status failure_;
  int64_t step_count_ = 0;
  std::optional<StepWindow> window_;
  // In the order in which they need each other.
  std::unique_ptr<LayerKernels> kernels_;
  std::unique_ptr<Communicator> everyone_;
  std::unique_ptr<ArrayPool> pool_;
  std::unique_ptr<StepMeter> meter_;
  std::unique_ptr<RankTrainer> trainer_;
};

// For people, for example `running`.
const char* ApplierStateName(PlanApplier::State state);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_APPLY_PLAN_APPLIER_H_
