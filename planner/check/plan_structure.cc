// The part of `CheckPlan` that needs no costs.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/check/plan_check.h"
#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "say which values of the new field are valid");

absl::Status InvalidPlan(const std::string& fact) {
  return MakeError(
      absl::StatusCode::kInternal, Reason::kCheckFailed,
      absl::StrCat("the plan is not a valid answer: ", fact, "; report this with the problem"),
      {{"fact", fact}});
}

// Checks tensor parallelism of one layer.
absl::Status CheckTensorDegree(const PlanningProblem& problem, const LayerDefinition& layer,
                               const std::string& where, int degree) {
  if (degree > problem.max_tensor_parallel_degree()) {
    return InvalidPlan(absl::StrCat(where, " has tensor_parallel_degree ", degree, ", above ",
                                    problem.max_tensor_parallel_degree()));
  }
  if (IsTransformer(layer.kind)) {
    if (SplitsOverTensorRanks(layer, degree)) return absl::OkStatus();
    return InvalidPlan(absl::StrCat(where, " has tensor_parallel_degree ", degree,
                                    ", which does not divide its heads or is not allowed for it"));
  }
  if (layer.hidden_size % degree != 0) {
    return InvalidPlan(absl::StrCat(where, " has tensor_parallel_degree ", degree,
                                    ", which does not divide its hidden_size"));
  }
  for (const LayerDefinition& other : problem.model().layer_definitions()) {
    if (degree == 1 || (IsTransformer(other.kind) && SplitsOverTensorRanks(other, degree))) {
      return absl::OkStatus();
    }
  }
  return InvalidPlan(absl::StrCat(where, " has tensor_parallel_degree ", degree,
                                  ", by which no transformer layer can be split"));
}

// Checks a tensor degree that experts have by themselves.
absl::Status CheckExpertTensorDegree(const PlanningProblem& problem, const LayerDefinition& layer,
                                     const std::string& where, const Strategy& strategy) {
  const int degree = strategy.expert_tensor_parallel_degree;
  if (degree == 0) return absl::OkStatus();
  const std::string own = absl::StrCat(where, " has expert_tensor_parallel_degree ", degree);
  if (!problem.has_hardware() || !problem.rules().allow_estimates) {
    return InvalidPlan(absl::StrCat(own,
                                    ", which profiles do not measure: it needs a known device "
                                    "and allow_estimates"));
  }
  if (problem.rules().runtime.expert_exchange != ExpertExchange::kTokens) {
    return InvalidPlan(absl::StrCat(own, ", which the runtime ", problem.rules().runtime.runtime_id,
                                    " does not have"));
  }
  if (layer.expert_count == 0) return InvalidPlan(absl::StrCat(own, " and no experts"));
  if (degree < 0 || degree == strategy.tensor_parallel_degree ||
      strategy.rank_count() % degree != 0 || layer.expert_feed_forward_size % degree != 0) {
    return InvalidPlan(absl::StrCat(own,
                                    ", which is its tensor_parallel_degree, or does not divide "
                                    "its ranks or the width of an expert"));
  }
  if (degree > problem.max_tensor_parallel_degree()) {
    return InvalidPlan(absl::StrCat(own, ", above ", problem.max_tensor_parallel_degree()));
  }
  if (strategy.tensor_parallel_degree > 1 && !strategy.sequence_parallel) {
    return InvalidPlan(absl::StrCat(own, " without sequence parallelism"));
  }
  if (strategy.rank_order != RankOrder::kTensorInnermost) {
    return InvalidPlan(absl::StrCat(own, " beside data-parallel neighbours"));
  }
  return absl::OkStatus();
}

// Checks context and expert parallelism of one layer.
absl::Status CheckInnerDegrees(const PlanningProblem& problem, const LayerDefinition& layer,
                               const std::string& where, const Strategy& strategy) {
  const int context = strategy.context_parallel_degree;
  const bool has_data_sheets = problem.has_hardware() && problem.rules().allow_estimates;
  if ((context > 1 || strategy.expert_parallel_degree > 1) && !has_data_sheets) {
    return InvalidPlan(
        absl::StrCat(where,
                     " is context- or expert-parallel, which profiles do not measure: it needs "
                     "a known device and allow_estimates"));
  }
  const int exchange = strategy.context_exchange_degree;
  if (context == 1 && strategy.context_kind != ContextKind::kRing) {
    return InvalidPlan(absl::StrCat(
        where, " names a kind of context parallelism but has context_parallel_degree 1"));
  }
  if (context > 1 && !SharesTokens(layer)) {
    return InvalidPlan(absl::StrCat(where, " has context_parallel_degree ", context,
                                    ", but it hands a state from token to token or is opaque"));
  }
  if (exchange != 1 && (strategy.context_kind != ContextKind::kRing || exchange < 1 ||
                        exchange >= context || context % exchange != 0)) {
    return InvalidPlan(absl::StrCat(where, " has context_exchange_degree ", exchange,
                                    ", which is no divisor of the context_parallel_degree ",
                                    context, " of a ring below it"));
  }
  if (strategy.has_two_pieces() && layer.sequence_length % (2 * context) != 0) {
    return InvalidPlan(absl::StrCat(where, " has context_parallel_degree ", context,
                                    ", twice of which does not divide its sequence_length"));
  }
  if (layer.sequence_length % context != 0) {
    return InvalidPlan(absl::StrCat(where, " has context_parallel_degree ", context,
                                    ", which does not divide its sequence_length"));
  }
  // Context-parallel ranks share the heads that tensor parallelism leaves them.
  const int64_t head_rank_count =
      int64_t{strategy.tensor_parallel_degree} * strategy.head_exchange_degree();
  if (strategy.head_exchange_degree() > 1 && HasAttention(layer.kind) &&
      !SplitsOverTensorRanks(layer, head_rank_count)) {
    return InvalidPlan(
        absl::StrCat(where, " shares heads ", head_rank_count,
                     " ways by tensor and context parallelism, which does not divide "
                     "them"));
  }
  PARPLAN_RETURN_IF_ERROR(CheckExpertTensorDegree(problem, layer, where, strategy));
  const int expert = strategy.expert_parallel_degree;
  if (expert == 1) return absl::OkStatus();
  const int own_tensor = strategy.expert_tensor_parallel_degree;
  const int shared =
      own_tensor > 0 ? strategy.rank_count() / own_tensor : strategy.data_parallel_degree * context;
  if (expert < 1 || shared % expert != 0) {
    return InvalidPlan(absl::StrCat(
        where, " has expert_parallel_degree ", expert,
        own_tensor > 0 ? ", which does not divide its ranks over the expert tensor degree"
                       : ", which does not divide its data- and context-parallel ranks"));
  }
  if (layer.expert_count % expert != 0 || layer.expert_count == 0) {
    return InvalidPlan(absl::StrCat(where, " has expert_parallel_degree ", expert,
                                    ", which does not divide its experts"));
  }
  return absl::OkStatus();
}

// Checks the modules that a strategy names.
absl::Status CheckModules(const PlanningProblem& problem, const std::string& where,
                          const Strategy& strategy) {
  const bool by_modules = strategy.recompute_level == RecomputeLevel::kModules;
  if (by_modules == strategy.recompute_modules.empty()) {
    return InvalidPlan(absl::StrCat(where, by_modules
                                               ? " recomputes modules and names none"
                                               : " names modules that it does not recompute"));
  }
  if (!by_modules) return absl::OkStatus();
  if (!problem.has_hardware() || !problem.rules().allow_estimates) {
    return InvalidPlan(absl::StrCat(where,
                                    " recomputes modules, which profiles do not measure: it needs "
                                    "a known device and allow_estimates"));
  }
  const std::vector<RecomputeModule> modules = strategy.recompute_modules.Modules();
  if (modules.size() == 1 && modules[0] == RecomputeModule::kCoreAttention) {
    return InvalidPlan(absl::StrCat(where, " names attention alone, which has a level of its own"));
  }
  for (const RecomputeModule module : modules) {
    bool is_known = false;
    for (const LayerDefinition& layer : problem.model().layer_definitions()) {
      is_known = is_known || HasRecomputeModule(layer, module);
    }
    if (is_known) continue;
    return InvalidPlan(
        absl::StrCat(where, " recomputes `", RecomputeModuleName(module), "`, which no layer has"));
  }
  return absl::OkStatus();
}

// Checks the ranks that share the states of a layer.
absl::Status CheckShardingDegree(const PlanningProblem& problem, const std::string& where,
                                 const Strategy& strategy) {
  const int degree = strategy.sharding_degree;
  if (degree == 0) return absl::OkStatus();
  const std::string own = absl::StrCat(where, " has sharding_degree ", degree);
  if (strategy.sharding_level == ShardingLevel::kNone) {
    return InvalidPlan(absl::StrCat(own, " and no sharding"));
  }
  const int replicas = strategy.data_parallel_degree * strategy.context_parallel_degree;
  if (degree < 2 || degree >= replicas || replicas % degree != 0) {
    return InvalidPlan(absl::StrCat(own, ", which is no divisor of its ", replicas,
                                    " ranks with the same parameters between 1 and all"));
  }
  if (!problem.has_hardware() || !problem.rules().allow_estimates) {
    return InvalidPlan(absl::StrCat(own,
                                    ", which profiles do not measure: it needs a known device "
                                    "and allow_estimates"));
  }
  // Neighbours that hold all states once are as many as hold all experts once, or several times so.
  const int tensor = strategy.tensor_parallel_degree;
  const int own_tensor = strategy.expert_tensor_parallel_degree;
  if (degree * tensor %
          (strategy.expert_parallel_degree * (own_tensor > 0 ? own_tensor : tensor)) !=
      0) {
    return InvalidPlan(absl::StrCat(own, ", which parts the ranks that share its experts"));
  }
  return absl::OkStatus();
}

absl::Status CheckStrategy(const PlanningProblem& problem, const Plan& plan,
                           const LayerDefinition& layer, const std::string& where,
                           const Strategy& strategy, int rank_count) {
  const int tensor = strategy.tensor_parallel_degree;
  const int data = strategy.data_parallel_degree;
  const int context = strategy.context_parallel_degree;
  if (tensor < 1 || data < 1 || context < 1 || int64_t{tensor} * context * data != rank_count) {
    return InvalidPlan(absl::StrCat(where, " spreads over ", tensor, " x ", context, " x ", data,
                                    " ranks of a stage of ", rank_count));
  }
  PARPLAN_RETURN_IF_ERROR(CheckInnerDegrees(problem, layer, where, strategy));
  PARPLAN_RETURN_IF_ERROR(CheckTensorDegree(problem, layer, where, tensor));
  if (plan.micro_batch_size() % data != 0) {
    return InvalidPlan(absl::StrCat(where, " has data_parallel_degree ", data,
                                    ", which does not divide the micro-batch of ",
                                    plan.micro_batch_size(), " samples"));
  }
  if ((tensor == 1 || data * context == 1) && strategy.rank_order != RankOrder::kTensorInnermost) {
    return InvalidPlan(absl::StrCat(where, " has a rank order although one degree is 1"));
  }
  if (strategy.sharding_level != ShardingLevel::kNone) {
    if (data * context == 1) return InvalidPlan(absl::StrCat(where, " is sharded over one rank"));
    if (!problem.rules().allow_sharded_data_parallel) {
      return InvalidPlan(absl::StrCat(where, " is sharded, which the rules forbid"));
    }
  }
  PARPLAN_RETURN_IF_ERROR(CheckShardingDegree(problem, where, strategy));
  if (strategy.recompute_level != RecomputeLevel::kNone) {
    if (!IsTransformer(layer.kind)) {
      return InvalidPlan(absl::StrCat(where, " recomputes although it is no transformer layer"));
    }
    if (!problem.rules().allow_recompute) {
      return InvalidPlan(absl::StrCat(where, " recomputes, which the rules forbid"));
    }
  }
  PARPLAN_RETURN_IF_ERROR(CheckModules(problem, where, strategy));
  // Both work by hooks of a whole backward pass.
  if (plan.schedule == Schedule::kZeroBubble && strategy.recompute_level != RecomputeLevel::kNone) {
    return InvalidPlan(absl::StrCat(where, " recomputes beside split backward passes"));
  }
  if (plan.schedule == Schedule::kZeroBubble && strategy.sharding_level != ShardingLevel::kNone) {
    return InvalidPlan(absl::StrCat(where, " shards beside split backward passes"));
  }
  if (strategy.sequence_parallel && layer.kind == LayerKind::kOpaque) {
    return InvalidPlan(absl::StrCat(where, " is sequence-parallel although it is opaque"));
  }
  if (strategy.sequence_parallel && tensor == 1) {
    return InvalidPlan(absl::StrCat(where, " is sequence-parallel without tensor parallelism"));
  }
  return absl::OkStatus();
}

// Checks that layers with a tied table are spread alike.
absl::Status CheckTiedTable(const ModelSpec& model, const Plan& plan) {
  const StageLayerRun* first = nullptr;
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      if (!HoldsTiedTable(model, model.definition_of_layer()[run.first_layer_index])) continue;
      if (first == nullptr) first = &run;
      if (HoldTableAlike(first->strategy, run.strategy)) continue;
      return InvalidPlan(absl::StrCat("layer ", run.first_layer_index,
                                      " shares a table with layer ", first->first_layer_index,
                                      ", which is spread otherwise"));
    }
  }
  return absl::OkStatus();
}

// Checks that a stage may have no layers.
absl::Status CheckEmptyStage(const PlanningProblem& problem, const Plan& plan, int index) {
  const std::string fact = absl::StrCat("stage ", index, " has no layers");
  if (index == 0 || index + 1 == static_cast<int>(plan.stages.size())) {
    return InvalidPlan(absl::StrCat(
        fact, ", and the first stage of a plan takes the samples, the last one makes the loss"));
  }
  const RuntimeTraits& runtime = problem.rules().runtime;
  if (!runtime.runs_empty_stages) {
    return InvalidPlan(
        absl::StrCat(fact, ", which the runtime ", runtime.runtime_id, " does not run"));
  }
  return absl::OkStatus();
}

absl::Status CheckHeading(const PlanningProblem& problem, const Plan& plan) {
  if (plan.device_count != problem.device_count()) {
    return InvalidPlan(
        absl::StrCat("device_count is ", plan.device_count, " and not ", problem.device_count()));
  }
  if (!problem.AllowsGlobalBatchSize(plan.global_batch_size)) {
    return InvalidPlan(absl::StrCat("global_batch_size is ", plan.global_batch_size, " and not ",
                                    problem.global_batch_size()));
  }
  const int64_t count = plan.micro_batch_count;
  if (count < 1 || plan.global_batch_size % count != 0) {
    return InvalidPlan(absl::StrCat("micro_batch_count ", count, " does not divide the batch"));
  }
  const int64_t wanted = problem.rules().micro_batch_count;
  if (wanted != 0 && count != wanted) {
    return InvalidPlan(
        absl::StrCat("micro_batch_count is ", count, " where the rules say ", wanted));
  }
  if (problem.rules().schedule.has_value() && plan.schedule != *problem.rules().schedule) {
    return InvalidPlan("the schedule is not that of the rules");
  }
  if (plan.schedule == Schedule::kZeroBubble) {
    if (plan.stages.size() == 1) {
      return InvalidPlan("its one stage has the schedule zb-h1, which only a pipeline has");
    }
    if (!problem.rules().runtime.splits_backward ||
        problem.rules().runtime.blocking_pipeline_messages) {
      return InvalidPlan(absl::StrCat("its schedule is zb-h1, and the runtime ",
                                      problem.rules().runtime.runtime_id,
                                      " does not split backward passes, as `torch` does, or "
                                      "waits for messages"));
    }
  }
  const int virtual_stages = plan.virtual_stage_count;
  if (virtual_stages < 1 || (virtual_stages > 1 && !TraitsOf(plan.schedule).has_virtual_stages) ||
      plan.stages.size() % static_cast<size_t>(virtual_stages) != 0) {
    return InvalidPlan(absl::StrCat(virtual_stages,
                                    " virtual stages per device are not possible with ",
                                    plan.stages.size(), " stages and the schedule"));
  }
  const int degree = plan.pipeline_parallel_degree();
  if (virtual_stages > 1 && degree == 1) {
    return InvalidPlan(absl::StrCat("virtual_stage_count is ", virtual_stages,
                                    " in a pipeline of one device, which would send to itself"));
  }
  const int64_t group = plan.micro_batch_group_size;
  if (group != 0 && (virtual_stages == 1 || group <= degree || group > count)) {
    return InvalidPlan(absl::StrCat("micro_batch_group_size is ", group, " with ", virtual_stages,
                                    " virtual stages on each of ", degree, " devices and ", count,
                                    " micro-batches"));
  }
  if (TraitsOf(plan.schedule).needs_whole_groups && virtual_stages > 1) {
    // Micro-batches of the last group.
    const int64_t rest = degree < 1 ? 0 : count % (group == 0 ? degree : group);
    if (rest != 0 && rest < degree) {
      return InvalidPlan(absl::StrCat(
          count, " micro-batches in groups of ", group == 0 ? degree : group, " leave ", rest,
          " for the last group, and the interleaved schedule needs one for each of the ", degree,
          " devices"));
    }
  }
  if (degree >= 1 && count > kMaxForwardPassCount / static_cast<int64_t>(plan.stages.size())) {
    return InvalidPlan(absl::StrCat(count, " micro-batches over ", plan.stages.size(),
                                    " stages are more than ", kMaxForwardPassCount,
                                    " forward passes a step"));
  }
  if (degree < 1 || degree > problem.max_pipeline_parallel_degree() ||
      plan.device_count % degree != 0) {
    return InvalidPlan(absl::StrCat(degree, " stages on ", plan.device_count, " devices, at most ",
                                    problem.max_pipeline_parallel_degree(), " allowed"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPlanStructure(const PlanningProblem& problem, const Plan& plan) {
  PARPLAN_RETURN_IF_ERROR(CheckHeading(problem, plan));
  const ModelSpec& model = problem.model();
  int next_rank = 0;
  int next_layer = 0;
  for (int index = 0; index < static_cast<int>(plan.stages.size()); ++index) {
    // Virtual stages start again on the first device.
    if (index % plan.pipeline_parallel_degree() == 0) next_rank = 0;
    const StagePlan& stage = plan.stages[index];
    const std::string stage_name = absl::StrCat("stage ", index);
    if (stage.first_rank != next_rank ||
        stage.rank_count != plan.device_count / plan.pipeline_parallel_degree()) {
      return InvalidPlan(absl::StrCat(stage_name, " has ", stage.rank_count, " ranks from ",
                                      stage.first_rank,
                                      " on; stages share ranks equally, in order"));
    }
    next_rank += stage.rank_count;
    // Ranks of one tensor- or data-parallel group would wait for the slowest kind of device.
    if (problem.topology().GroupOfRank(stage.first_rank) !=
        problem.topology().GroupOfRank(next_rank - 1)) {
      return InvalidPlan(absl::StrCat(stage_name, " has ranks of several node groups"));
    }
    if (stage.is_empty()) PARPLAN_RETURN_IF_ERROR(CheckEmptyStage(problem, plan, index));
    const StageLayerRun* previous = nullptr;
    for (const StageLayerRun& run : stage.layer_runs) {
      const std::string where = absl::StrCat(stage_name, ", layer ", run.first_layer_index);
      if (run.first_layer_index != next_layer || run.layer_count < 1 ||
          run.layer_count > model.layer_count() - next_layer) {
        return InvalidPlan(absl::StrCat(where, ": a run of ", run.layer_count,
                                        " layers where layer ", next_layer, " of ",
                                        model.layer_count(), " comes next"));
      }
      const int definition = model.definition_of_layer()[run.first_layer_index];
      for (int layer = next_layer; layer < next_layer + run.layer_count; ++layer) {
        if (model.definition_of_layer()[layer] != definition) {
          return InvalidPlan(absl::StrCat(where, ": a run over unlike layers"));
        }
      }
      if (previous != nullptr && previous->strategy == run.strategy &&
          model.definition_of_layer()[previous->first_layer_index] == definition) {
        return InvalidPlan(absl::StrCat(where, ": a run that continues the one before"));
      }
      PARPLAN_RETURN_IF_ERROR(CheckStrategy(problem, plan, model.layer(run.first_layer_index),
                                            where, run.strategy, stage.rank_count));
      next_layer += run.layer_count;
      previous = &run;
    }
  }
  if (next_layer != model.layer_count()) {
    return InvalidPlan(absl::StrCat("layers from ", next_layer, " on are in no stage"));
  }
  return CheckTiedTable(model, plan);
}

}  // namespace parplan
