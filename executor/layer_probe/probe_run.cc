#include "executor/layer_probe/probe_run.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "executor/trainer/parameter_layout.h"
#include "executor/trainer/token_source.h"

namespace parplan {
namespace {

// Micro-batches of a step; more than one, so that the begin and the end of a step weigh less.
constexpr int64_t kMicroBatchCount = 2;

std::vector<int> KindsOfLayers(const ModelSpec& model) {
  std::vector<int> kinds(model.layer_count(), static_cast<int>(ProbedKind::kMiddle));
  kinds.front() = static_cast<int>(ProbedKind::kEmbedding);
  kinds.back() = static_cast<int>(ProbedKind::kHead);
  return kinds;
}

// Gives samples another length. A table of learned positions with fewer rows grows, because a layer
// has one only if it has a row for each token (`LayoutOfParameters`): without it another layer
// would be measured.
void SetSequenceLength(int sequence_length, LayerDefinition& definition) {
  if (definition.kind == LayerKind::kEmbedding) {
    const ParameterLayout layout = LayoutOfParameters(definition, 1, 0);
    if (layout.Has(tensor_names::kPositions)) {
      const int64_t row_count = layout.Find(tensor_names::kPositions).row_count;
      definition.parameter_count +=
          definition.hidden_size * std::max(sequence_length - row_count, int64_t{0});
    }
  }
  definition.sequence_length = sequence_length;
}

absl::StatusOr<ModelSpec> ProbeModel(const ModelSpec& model, int middle_index, int depth,
                                     int sequence_length) {
  std::vector<LayerDefinition> definitions = {model.layer(0),
                                              model.layer_definitions()[middle_index],
                                              model.layer(model.layer_count() - 1)};
  for (LayerDefinition& definition : definitions) {
    if (sequence_length > 0) SetSequenceLength(sequence_length, definition);
  }
  return ModelSpec::Create(model.model_id(), std::move(definitions), {{0, 1}, {1, depth}, {2, 1}},
                           model.precision(), model.optimizer());
}

// Returns a plan with one strategy for all layers, in one stage of the ranks that share matrices.
// Other ranks of the job train their own copy of the model; messages between copies are not part of
// the measurement.
Plan ProbePlan(const ModelSpec& model, RecomputeLevel recompute_level,
               const LayerProbeShape& shape) {
  const int rank_count = shape.tensor_parallel_degree;
  Strategy strategy;
  strategy.tensor_parallel_degree = rank_count;
  strategy.sequence_parallel = shape.sequence_parallel && rank_count > 1;
  Plan plan{.device_count = rank_count,
            .global_batch_size = shape.samples * kMicroBatchCount,
            .micro_batch_count = kMicroBatchCount};
  StagePlan stage{.first_rank = 0, .rank_count = rank_count};
  const int last = model.layer_count() - 1;
  stage.layer_runs = {{0, 1, strategy}, {1, last - 1, strategy}, {last, 1, strategy}};
  stage.layer_runs[1].strategy.recompute_level = recompute_level;
  plan.stages.push_back(std::move(stage));
  return plan;
}

}  // namespace

absl::StatusOr<ProbeJob> MakeProbeJob(const ModelSpec& model, int middle_index, int depth,
                                      RecomputeLevel recompute_level, const LayerProbeShape& shape,
                                      const LayerProbeSetting& setting) {
  PARPLAN_ASSIGN_OR_RETURN(ModelSpec probe_model,
                           ProbeModel(model, middle_index, depth, shape.sequence_length));
  const int first_rank = setting.rank / shape.tensor_parallel_degree * shape.tensor_parallel_degree;
  PARPLAN_ASSIGN_OR_RETURN(RankProgram program,
                           RankProgram::Create(ProbePlan(probe_model, recompute_level, shape),
                                               probe_model, setting.rank - first_rank));
  const auto make_group = [inner = setting.make_group, first_rank](const GroupSpec& group) {
    std::vector<int> ranks = group.ranks;
    for (int& rank : ranks) rank += first_rank;
    return inner(group.purpose, ranks);
  };
  return ProbeJob{std::move(probe_model), std::move(program), make_group};
}

absl::StatusOr<std::unique_ptr<ProbeRun>> ProbeRun::Create(const ModelSpec& model, int middle_index,
                                                           int depth, const LayerProbeShape& shape,
                                                           const LayerProbeSetting& setting) {
  PARPLAN_ASSIGN_OR_RETURN(ProbeJob job, MakeProbeJob(model, middle_index, depth,
                                                      RecomputeLevel::kNone, shape, setting));
  std::unique_ptr<ProbeRun> run(
      new ProbeRun(std::move(job.model), std::move(job.program), setting));
  const auto make_group =
      [&](const GroupSpec& group) -> absl::StatusOr<std::unique_ptr<Communicator>> {
    PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> inner, job.make_group(group));
    return std::make_unique<TimedCommunicator>(std::move(inner), &run->meter_);
  };
  PARPLAN_ASSIGN_OR_RETURN(run->trainer_,
                           RankTrainer::Create(run->program_, run->model_,
                                               {.kernels = setting.kernels,
                                                .pool = &run->pool_,
                                                .tokens = run->tokens_.get(),
                                                .make_group = make_group,
                                                .optimizer = SettingsOf(model.optimizer()),
                                                .seed = kProbeSeed,
                                                .observer = &run->recorder_}));
  return run;
}

ProbeRun::ProbeRun(ModelSpec model, RankProgram program, const LayerProbeSetting& setting)
    : model_(std::move(model)),
      program_(std::move(program)),
      meter_{.now = setting.now},
      pool_(*setting.memory),
      tokens_(MakeSyntheticTokens(model_.layer(0).vocabulary_size, kProbeSeed)),
      recorder_(setting.kernels, &meter_, KindsOfLayers(model_), setting.now) {}

absl::StatusOr<std::array<ProbedTimes, kProbedKindCount>> ProbeRun::Step() {
  recorder_.Clear();
  PARPLAN_RETURN_IF_ERROR(trainer_->Step().status());
  std::array<ProbedTimes, kProbedKindCount> times;
  for (int kind = 0; kind < kProbedKindCount; ++kind) {
    times[kind] = {.forward = recorder_.TimeOf(TrainerPhase::kForward, kind) / kMicroBatchCount,
                   .backward = recorder_.TimeOf(TrainerPhase::kBackward, kind) / kMicroBatchCount,
                   .optimizer_step = recorder_.TimeOf(TrainerPhase::kOptimizer, kind)};
  }
  return times;
}

int64_t ProbeRun::ParameterCount(ProbedKind kind) const {
  const int last = model_.layer_count() - 1;
  const int index = kind == ProbedKind::kEmbedding ? 0 : kind == ProbedKind::kMiddle ? 1 : last;
  const LayerProgram& layer = program_.stages.front().layers[index];
  return LayoutOfParameters(model_.layer(index), layer.strategy.tensor_parallel_degree,
                            layer.place.tensor)
      .size;
}

}  // namespace parplan
