#include "proto/wire/plan_wire.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/model/pass_order.h"
#include "planner/model/planning_problem.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/enum_wire.h"
#include "proto/wire/field_path.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/payload_error.h"
#include "proto/wire/rules_wire.h"

namespace parplan {
namespace {

// Operators that torchtitan 0.3.0 saves (distributed/activation_checkpoint.py), and fused attention
// of processors.
constexpr const char* kSavedOperators[] = {
    "aten.mm.default",
    "aten._scaled_dot_product_efficient_attention.default",
    "aten._scaled_dot_product_flash_attention.default",
    "aten._scaled_dot_product_cudnn_attention.default",
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
    "aten.max.default",
    "_c10d_functional.reduce_scatter_tensor.default",
};
// torchtitan computes every second product again.
constexpr int kRecomputedProductInterval = 2;

// Reads the layers from `next_layer` on, and advances it.
absl::StatusOr<StageLayerRun> LayerRunFromProto(const v1::StageLayerRun& message,
                                                absl::string_view field, int rank_count,
                                                int64_t& next_layer) {
  StageLayerRun run;
  if (message.first_layer_index() != next_layer) {
    return Malformed(JoinPath(field, "first_layer_index"),
                     absl::StrCat("must be ", next_layer, ": layers follow each other"));
  }
  if (message.layer_count() < 1 || next_layer + message.layer_count() > kMaxLayerCount) {
    return Malformed(JoinPath(field, "layer_count"),
                     absl::StrCat("must be at least 1, and all layers at most ", kMaxLayerCount));
  }
  next_layer += message.layer_count();
  run.first_layer_index = message.first_layer_index();
  run.layer_count = message.layer_count();
  const std::string path = JoinPath(field, "strategy");
  PARPLAN_ASSIGN_OR_RETURN(run.strategy, StrategyFromProto(message.strategy(), path));
  if (run.strategy.rank_count() != rank_count) {
    return Malformed(path, absl::StrCat("the product of the degrees must be the ", rank_count,
                                        " ranks of the stage"));
  }
  return run;
}

// Reads a stage on the ranks from `next_rank` on; advances it and `next_layer`.
absl::StatusOr<StagePlan> StageFromProto(const v1::StagePlan& message, absl::string_view field,
                                         int64_t& next_rank, int64_t& next_layer) {
  if (message.first_rank() != next_rank) {
    return Malformed(JoinPath(field, "first_rank"),
                     absl::StrCat("must be ", next_rank,
                                  ": stages follow each other, virtual stages round by round"));
  }
  if (message.rank_count() < 1 || next_rank + message.rank_count() > kMaxDeviceCount) {
    return Malformed(JoinPath(field, "rank_count"),
                     absl::StrCat("must be at least 1, and all ranks at most ", kMaxDeviceCount));
  }
  next_rank += message.rank_count();
  StagePlan stage;
  stage.first_rank = message.first_rank();
  stage.rank_count = message.rank_count();
  for (int i = 0; i < message.layer_runs_size(); ++i) {
    PARPLAN_ASSIGN_OR_RETURN(StageLayerRun run, LayerRunFromProto(message.layer_runs(i),
                                                                  JoinPath(field, "layer_runs", i),
                                                                  stage.rank_count, next_layer));
    stage.layer_runs.push_back(run);
  }
  return stage;
}

v1::StagePlan StageToProto(const StagePlan& stage, const ModelSpec& model) {
  v1::StagePlan entry;
  entry.set_first_rank(stage.first_rank);
  entry.set_rank_count(stage.rank_count);
  for (const StageLayerRun& run : stage.layer_runs) {
    PARPLAN_CHECK(run.first_layer_index >= 0 && run.layer_count >= 1 &&
                  run.first_layer_index + run.layer_count <= model.layer_count());
    v1::StageLayerRun& run_entry = *entry.add_layer_runs();
    run_entry.set_first_layer_index(run.first_layer_index);
    run_entry.set_layer_count(run.layer_count);
    run_entry.set_layer_definition_id(model.layer(run.first_layer_index).layer_definition_id);
    *run_entry.mutable_strategy() = StrategyToProto(run.strategy);
  }
  return entry;
}

}  // namespace

void FillPayload(const Plan& plan, const Prediction& prediction, const SearchSummary& search,
                 const ModelSpec& model, v1::PlanPayload* payload) {
  payload->set_device_count(plan.device_count);
  payload->set_global_batch_size(plan.global_batch_size);
  payload->set_micro_batch_count(plan.micro_batch_count);
  payload->set_schedule(ScheduleToProto(plan.schedule));
  payload->set_virtual_stage_count(plan.virtual_stage_count);
  payload->set_micro_batch_group_size(plan.micro_batch_group_size);
  payload->clear_stages();
  for (const StagePlan& stage : plan.stages) *payload->add_stages() = StageToProto(stage, model);
  *payload->mutable_prediction() = PredictionToProto(prediction);
  *payload->mutable_search() = SearchSummaryToProto(search);
  payload->set_precision(PrecisionToProto(model.precision()));
  payload->set_optimizer(OptimizerToProto(model.optimizer()));
}

void FillRecomputePolicy(SelectiveRecompute selective, v1::PlanPayload* payload) {
  payload->clear_recompute_policy();
  bool is_selective = false;
  for (const v1::StagePlan& stage : payload->stages()) {
    for (const v1::StageLayerRun& run : stage.layer_runs()) {
      is_selective |= run.strategy().recompute_level() == v1::RECOMPUTE_LEVEL_SELECTIVE;
    }
  }
  if (!is_selective) return;
  v1::RecomputePolicy& policy = *payload->mutable_recompute_policy();
  switch (selective) {
    case SelectiveRecompute::kAttention:
      policy.set_selective_ac_option("attention");
      policy.add_recomputed_functions("torch.nn.functional.scaled_dot_product_attention");
      return;
    case SelectiveRecompute::kOperators:
      policy.set_selective_ac_option("op");
      for (const char* const name : kSavedOperators) policy.add_saved_operators(name);
      policy.set_recomputed_product_interval(kRecomputedProductInterval);
      return;
  }
}

v1::RivalPlan RivalPlanToProto(const PredictedPlan& rival, const ModelSpec& model) {
  v1::RivalPlan message;
  message.set_global_batch_size(rival.plan.global_batch_size);
  message.set_micro_batch_count(rival.plan.micro_batch_count);
  message.set_schedule(ScheduleToProto(rival.plan.schedule));
  message.set_virtual_stage_count(rival.plan.virtual_stage_count);
  message.set_micro_batch_group_size(rival.plan.micro_batch_group_size);
  for (const StagePlan& stage : rival.plan.stages) {
    *message.add_stages() = StageToProto(stage, model);
  }
  message.set_gist(PlanGist(rival.plan));
  *message.mutable_step_duration() = DurationToProto(rival.prediction.step);
  message.set_step_seconds(rival.prediction.step.value());
  message.set_samples_per_second(rival.prediction.samples_per_second);
  message.set_peak_memory_bytes(rival.prediction.peak_memory.count());
  return message;
}

absl::StatusOr<Plan> PlanFromPayload(const v1::PlanPayload& payload) {
  Plan plan;
  plan.device_count = payload.device_count();
  plan.global_batch_size = payload.global_batch_size();
  plan.micro_batch_count = payload.micro_batch_count();
  if (plan.global_batch_size < 1) return Malformed("global_batch_size", "must be at least 1");
  if (plan.micro_batch_count < 1 || plan.global_batch_size % plan.micro_batch_count != 0) {
    return Malformed("micro_batch_count", "must divide global_batch_size");
  }
  absl::StatusOr<Schedule> schedule = ScheduleFromProto(payload.schedule(), "schedule");
  if (!schedule.ok()) return MoveFieldError(schedule.status(), "", "", kMalformed);
  plan.schedule = *schedule;
  if (payload.stages().empty()) return Malformed("stages", "a plan has at least one stage");
  // Stages without layers are not bounded by the layers.
  if (payload.stages_size() > kMaxLayerCount) {
    return Malformed("stages", absl::StrCat("must not be more than ", kMaxLayerCount));
  }
  for (const int i : {0, payload.stages_size() - 1}) {
    if (payload.stages(i).layer_runs().empty()) {
      return Malformed(JoinPath(JoinPath("", "stages", i), "layer_runs"),
                       "the first and the last stage of a plan have at least one layer");
    }
  }
  plan.virtual_stage_count = std::max(payload.virtual_stage_count(), 1);
  if (payload.virtual_stage_count() < 0 || payload.stages_size() % plan.virtual_stage_count != 0) {
    return Malformed("virtual_stage_count", "must divide the number of stages");
  }
  if (plan.virtual_stage_count > 1 && !TraitsOf(plan.schedule).has_virtual_stages) {
    return Malformed("virtual_stage_count", "above 1 needs SCHEDULE_INTERLEAVED");
  }
  const int depth = payload.stages_size() / plan.virtual_stage_count;
  if (plan.virtual_stage_count > 1 && depth == 1) {
    return Malformed("virtual_stage_count", "above 1 needs a pipeline of several devices");
  }
  plan.micro_batch_group_size = payload.micro_batch_group_size();
  if (plan.micro_batch_group_size != 0) {
    if (plan.virtual_stage_count == 1) {
      return Malformed("micro_batch_group_size", "must be 0 without virtual stages");
    }
    if (plan.micro_batch_group_size <= depth ||
        !IsGroupSize(plan.micro_batch_group_size, depth, plan.micro_batch_count)) {
      return Malformed(
          "micro_batch_group_size",
          absl::StrCat("must be 0, or above the ", depth, " devices of the pipeline and at most ",
                       "the ", plan.micro_batch_count, " micro-batches, which it must divide or ",
                       "leave a rest of at least ", depth));
    }
  }
  int64_t next_rank = 0;
  int64_t next_layer = 0;
  for (int i = 0; i < payload.stages_size(); ++i) {
    // The next group of virtual stages starts at rank 0 again.
    if (i % depth == 0) next_rank = 0;
    PARPLAN_ASSIGN_OR_RETURN(
        StagePlan stage,
        StageFromProto(payload.stages(i), JoinPath("", "stages", i), next_rank, next_layer));
    plan.stages.push_back(std::move(stage));
  }
  if (plan.device_count != next_rank) {
    return Malformed("device_count",
                     absl::StrCat("must be the ", next_rank, " ranks of all stages"));
  }
  return plan;
}

}  // namespace parplan
