#include "executor/apply/plan_applier.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "executor/apply/state_mover.h"

namespace parplan {
namespace {

absl::StatusOr<ElementType> TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return ElementType::kFloat32;
    case Precision::kBf16:
      return ElementType::kBfloat16;
    default:
      break;
  }
  return FieldError(Reason::kSpecInvalid, "precision", "the executor trains in fp32 and bf16");
}

}  // namespace

const char* ApplierStateName(PlanApplier::State state) {
  switch (state) {
    case PlanApplier::State::kVerified:
      return "verified";
    case PlanApplier::State::kPrepared:
      return "prepared";
    case PlanApplier::State::kRunning:
      return "running";
    case PlanApplier::State::kDone:
      return "done";
    case PlanApplier::State::kFailed:
      return "failed";
  }
  return "?";
}

PlanApplier::PlanApplier(CheckedPlan plan, const ApplierSetting& setting)
    : plan_(std::move(plan)), setting_(setting) {}

PlanApplier::~PlanApplier() = default;

absl::Status PlanApplier::Expect(State a, State b) const {
  if (state_ == State::kFailed) return failure_;
  if (state_ == a || state_ == b) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the plan is ", ApplierStateName(state_), ", not ", ApplierStateName(a)));
}

absl::Status PlanApplier::Keep(const absl::Status& status) {
  if (status.ok() || state_ == State::kFailed) return state_ == State::kFailed ? failure_ : status;
  // The failure of another rank explains more than the error it caused here.
  const absl::Status health = setting_.job->Health();
  failure_ = health.ok() ? status : health;
  state_ = State::kFailed;
  if (health.ok()) setting_.job->Abort(std::string(failure_.message()));
  return failure_;
}

void PlanApplier::Abort(const std::string& why) { (void)Keep(absl::AbortedError(why)); }

absl::StatusOr<std::unique_ptr<Communicator>> PlanApplier::Everyone() {
  std::vector<int> ranks(setting_.job->world_size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return setting_.job->MakeGroup("everyone", ranks);
}

absl::Status PlanApplier::Build() {
  const int rank = setting_.job->rank();
  PARPLAN_ASSIGN_OR_RETURN(const RankProgram program, plan_.ProgramOf(rank));
  pool_ = std::make_unique<ArrayPool>(setting_.device->memory());
  meter_ = std::make_unique<StepMeter>(
      StepMeter::Options{.rank = rank,
                         .window_step_count = setting_.window_step_count,
                         .kernels = setting_.is_asynchronous ? kernels_.get() : nullptr,
                         .context_memory = setting_.context_memory},
      *pool_);
  const auto make_group =
      [this](const GroupSpec& group) -> absl::StatusOr<std::unique_ptr<Communicator>> {
    PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> inner,
                             setting_.device->MakeGroup(*setting_.job, group.purpose, group.ranks));
    return meter_->Meter(group.purpose, group.ranks, std::move(inner));
  };
  PARPLAN_ASSIGN_OR_RETURN(trainer_,
                           RankTrainer::Create(program, plan_.model(),
                                               {.kernels = kernels_.get(),
                                                .pool = pool_.get(),
                                                .tokens = setting_.tokens,
                                                .make_group = make_group,
                                                .optimizer = setting_.optimizer,
                                                .seed = setting_.seed,
                                                .observer = meter_.get(),
                                                .communicates_ahead = setting_.is_asynchronous,
                                                .rehearses = setting_.is_asynchronous}));
  trainer_->ContinueFrom(step_count_);
  if (setting_.is_asynchronous) {
    // The rehearsal has had every library get its workspace, and communicators are made. A driver
    // that does not say leaves what it was.
    const absl::StatusOr<DeviceMemoryUse> use = setting_.device->MemoryUse();
    if (use.ok()) meter_->SetContextMemory(use->context);
  }
  return absl::OkStatus();
}

absl::Status PlanApplier::Prepare() {
  PARPLAN_RETURN_IF_ERROR(Expect(State::kVerified, State::kVerified));
  const auto prepare = [this]() -> absl::Status {
    if (setting_.job->world_size() != plan_.plan().device_count) {
      return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kTopologyMismatch,
                       absl::StrCat("device_count: the plan is for ", plan_.plan().device_count,
                                    " ranks, the job has ", setting_.job->world_size()),
                       {{"field", "device_count"}});
    }
    const bool is_adam = std::holds_alternative<AdamSettings>(setting_.optimizer);
    if (is_adam != (plan_.model().optimizer() == Optimizer::kAdam)) {
      return FieldError(Reason::kSpecInvalid, "optimizer", "must be that of the model");
    }
    ElementType type = ElementType::kFloat32;
    if (setting_.type.has_value()) {
      type = *setting_.type;
    } else {
      PARPLAN_ASSIGN_OR_RETURN(type, TypeOf(plan_.model().precision()));
    }
    PARPLAN_ASSIGN_OR_RETURN(kernels_, setting_.device->MakeKernels(type));
    PARPLAN_ASSIGN_OR_RETURN(everyone_, Everyone());
    return Build();
  };
  PARPLAN_RETURN_IF_ERROR(Keep(prepare()));
  state_ = State::kPrepared;
  return absl::OkStatus();
}

absl::StatusOr<double> PlanApplier::Step() {
  PARPLAN_RETURN_IF_ERROR(Expect(State::kPrepared, State::kRunning));
  meter_->BeginStep(step_count_);
  absl::StatusOr<double> loss = trainer_->Step();
  if (!loss.ok()) return Keep(loss.status());
  if (std::optional<StepWindow> window = meter_->EndStep()) window_ = std::move(window);
  ++step_count_;
  state_ = State::kRunning;
  return loss;
}

std::optional<StepWindow> PlanApplier::TakeWindow() { return std::exchange(window_, std::nullopt); }

std::optional<StepWindow> PlanApplier::TakeRest() {
  return meter_ == nullptr ? std::nullopt : meter_->Flush();
}

absl::Status PlanApplier::Swap(const CheckedPlan& plan) {
  PARPLAN_RETURN_IF_ERROR(Expect(State::kPrepared, State::kRunning));
  if (plan.model_digest() != plan_.model_digest()) {
    return FieldError(Reason::kSpecInvalid, "model_digest",
                      "the new plan must be of the same model");
  }
  if (plan.plan().global_batch_size != plan_.plan().global_batch_size) {
    return FieldError(
        Reason::kSpecInvalid, "global_batch_size",
        absl::StrCat("the new plan must be for the same batch, ", plan_.plan().global_batch_size));
  }
  if (plan.generation() < plan_.generation()) {
    return FieldError(
        Reason::kSpecInvalid, "generation",
        absl::StrCat("the new plan has number ", plan.generation(), ", and the one that runs ",
                     plan_.generation(), "; an older plan does not replace a newer one"));
  }
  if (plan.plan().device_count != plan_.plan().device_count) {
    return FieldError(Reason::kSpecInvalid, "device_count",
                      absl::StrCat("the new plan must be for the same number of ranks, ",
                                   plan_.plan().device_count));
  }
  return Keep(SwapTo(plan));
}

absl::Status PlanApplier::SwapTo(const CheckedPlan& plan) {
  PARPLAN_ASSIGN_OR_RETURN(const HostStates before, ReadStates(*trainer_, *setting_.device));
  PARPLAN_ASSIGN_OR_RETURN(const HostStates after, MoveStates(before, plan_, plan, *everyone_));
  // After the barrier no rank uses the old groups; they are freed to make room for the new state.
  PARPLAN_RETURN_IF_ERROR(everyone_->Barrier());
  trainer_.reset();
  meter_.reset();
  pool_.reset();
  window_.reset();
  plan_ = plan;
  PARPLAN_RETURN_IF_ERROR(Build());
  return WriteStates(after, *trainer_, *setting_.device);
}

absl::Status PlanApplier::Teardown() {
  if (state_ == State::kVerified) {
    state_ = State::kDone;
    return absl::OkStatus();
  }
  PARPLAN_RETURN_IF_ERROR(Expect(State::kPrepared, State::kRunning));
  PARPLAN_RETURN_IF_ERROR(Keep(everyone_->Barrier()));
  trainer_.reset();
  meter_.reset();
  pool_.reset();
  everyone_.reset();
  state_ = State::kDone;
  return absl::OkStatus();
}

}  // namespace parplan
