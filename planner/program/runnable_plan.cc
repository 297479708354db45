#include "planner/program/runnable_plan.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/model/search_space.h"
#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "let the executor run the new field, or refuse it");

std::string StageName(int stage) { return absl::StrCat("stages[", stage, "]"); }
std::string LayerName(int layer) { return absl::StrCat("layer ", layer); }

bool IsRunnable(LayerKind kind) {
  return kind == LayerKind::kEmbedding || kind == LayerKind::kDecoder ||
         kind == LayerKind::kEncoder || kind == LayerKind::kHead;
}

absl::Status CheckModel(const ModelSpec& model) {
  for (int index = 0; index < model.layer_count(); ++index) {
    const LayerDefinition& layer = model.layer(index);
    const bool is_first = index == 0;
    const bool is_last = index + 1 == model.layer_count();
    if (!IsRunnable(layer.kind)) {
      return RefuseRun(LayerName(index),
                       "the executor trains only embeddings, encoders, decoders and heads");
    }
    if ((layer.kind == LayerKind::kEmbedding) != is_first ||
        (layer.kind == LayerKind::kHead) != is_last) {
      return RefuseRun(LayerName(index),
                       "the model must begin with its only embedding and end with its only head");
    }
    if (layer.frozen) {
      return RefuseRun(LayerName(index), "the executor trains all weights, and its are frozen");
    }
    if (!HasUsualParts(layer)) {
      return RefuseRun(LayerName(index),
                       "the executor trains no latent attention, state spaces, layers without "
                       "feed-forward part, or predictions of further tokens");
    }
    if (layer.attention_window > 0 || layer.attention_chunk_size > 0) {
      return RefuseRun(LayerName(index), "the executor's attention has no windows");
    }
    if (layer.expert_count > 0)
      return RefuseRun(LayerName(index), "the executor trains no experts");
    if (layer.hidden_size != model.layer(0).hidden_size ||
        layer.sequence_length != model.layer(0).sequence_length) {
      return RefuseRun(LayerName(index),
                       "all layers must have the same hidden_size and sequence_length");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckStages(const Plan& plan, const ModelSpec& model) {
  const int stage_count = static_cast<int>(plan.stages.size());
  if (plan.virtual_stage_count < 1 || stage_count == 0 ||
      stage_count % plan.virtual_stage_count != 0) {
    return RefuseRun("virtual_stage_count", "must divide the number of stages");
  }
  if (plan.virtual_stage_count > 1 && !TraitsOf(plan.schedule).has_virtual_stages) {
    return RefuseRun("schedule", "must be interleaved if a device has several stages");
  }
  if (TraitsOf(plan.schedule).backward_split != BackwardSplit::kWhole) {
    return RefuseRun(
        "schedule",
        "the executor computes the gradients of inputs and weights in one backward pass");
  }
  const int degree = plan.pipeline_parallel_degree();
  if (plan.virtual_stage_count > 1 && degree == 1) {
    return RefuseRun("virtual_stage_count",
                     "must be 1 in a pipeline of one device, which has no other to send to");
  }
  if (plan.device_count < 1 || plan.device_count % degree != 0) {
    return RefuseRun("device_count", absl::StrCat(degree, " stages do not share ",
                                                  plan.device_count, " devices equally"));
  }
  if (plan.micro_batch_count < 1 || plan.global_batch_size < 1 ||
      plan.global_batch_size % plan.micro_batch_count != 0) {
    return RefuseRun("micro_batch_count", "must divide global_batch_size");
  }
  if (plan.micro_batch_count > kMaxForwardPassCount / stage_count) {
    return RefuseRun("micro_batch_count", absl::StrCat("makes more than ", kMaxForwardPassCount,
                                                       " forward passes per step"));
  }
  if (plan.micro_batch_group_size != 0) {
    return RefuseRun("micro_batch_group_size",
                     absl::StrCat("is ", plan.micro_batch_group_size,
                                  ", and the executor sends a message only after the one before it "
                                  "was taken: it runs groups of as many micro-batches as the "
                                  "pipeline has devices"));
  }
  if (plan.virtual_stage_count > 1 && plan.micro_batch_count % degree != 0) {
    return RefuseRun("micro_batch_count",
                     "must be a multiple of the pipeline degree if stages are interleaved");
  }
  const int rank_count = plan.device_count / degree;
  int next_layer = 0;
  for (int index = 0; index < stage_count; ++index) {
    const StagePlan& stage = plan.stages[index];
    if (stage.rank_count != rank_count || stage.first_rank != index % degree * rank_count) {
      return RefuseRun(StageName(index),
                       absl::StrCat("it is on ranks ", index % degree * rank_count, " to ",
                                    (index % degree + 1) * rank_count - 1));
    }
    if (stage.is_empty()) {
      return RefuseRun(
          StageName(index),
          "it has no layer, and the executor has no stages that only hand on what they "
          "receive");
    }
    for (const StageLayerRun& run : stage.layer_runs) {
      if (run.first_layer_index != next_layer || run.layer_count < 1 ||
          run.layer_count > model.layer_count() - next_layer) {
        return RefuseRun(StageName(index),
                         "stages must cover the layers of the model in order, each once");
      }
      next_layer += run.layer_count;
    }
  }
  if (next_layer != model.layer_count()) {
    return RefuseRun("stages",
                     absl::StrCat("they end at layer ", next_layer, " of ", model.layer_count()));
  }
  return absl::OkStatus();
}

// Checks that the degrees divide the layer.
absl::Status CheckSplit(const LayerDefinition& layer, const std::string& where, const Strategy& s) {
  const int tensor = s.tensor_parallel_degree;
  const int context = s.context_parallel_degree;
  const bool is_ring = s.context_kind == ContextKind::kRing;
  const int head_rank_count = is_ring ? tensor : tensor * context;
  if (IsTransformer(layer.kind)) {
    if (layer.attention_head_count % head_rank_count != 0 ||
        layer.key_value_head_count % head_rank_count != 0) {
      return RefuseRun(where,
                       absl::StrCat("heads cannot be shared by ", head_rank_count, " ranks"));
    }
    if (layer.feed_forward_size % tensor != 0) {
      return RefuseRun(where, absl::StrCat("feed_forward_size is no multiple of ", tensor));
    }
  }
  if (layer.sequence_length % (context > 1 && is_ring ? 2 * context : context) != 0) {
    return RefuseRun(where,
                     absl::StrCat("sequence_length cannot be shared by ", context, " ranks"));
  }
  if (s.sequence_parallel && layer.sequence_length / context % tensor != 0) {
    return RefuseRun(
        where, absl::StrCat("tokens cannot be shared by ", tensor, " sequence-parallel ranks"));
  }
  return absl::OkStatus();
}

absl::Status CheckStrategy(const Plan& plan, const LayerDefinition& layer, int layer_index,
                           const Strategy& s, int rank_count) {
  const std::string where = LayerName(layer_index);
  if (s.tensor_parallel_degree < 1 || s.data_parallel_degree < 1 || s.context_parallel_degree < 1 ||
      int64_t{s.tensor_parallel_degree} * s.data_parallel_degree * s.context_parallel_degree !=
          rank_count) {
    return RefuseRun(where, absl::StrCat("its degrees make ", rank_count, " ranks"));
  }
  if (plan.micro_batch_size() % s.data_parallel_degree != 0) {
    return RefuseRun(
        where, absl::StrCat("a micro-batch of ", plan.micro_batch_size(),
                            " samples cannot be shared by ", s.data_parallel_degree, " ranks"));
  }
  if (s.expert_parallel_degree != 1 || s.expert_tensor_parallel_degree != 0) {
    return RefuseRun(where, "the executor trains no experts");
  }
  if (s.context_kind == ContextKind::kAllGather || s.context_exchange_degree > 1) {
    return RefuseRun(where, "the executor shares tokens by rings or by all-to-alls alone");
  }
  if (s.sharding_degree != 0) {
    return RefuseRun(where,
                     absl::StrCat("groups of ", s.sharding_degree, " of its ", s.replica_count(),
                                  " ranks with the same parameters share its states, and the "
                                  "executor shares them among all of these; plan it without "
                                  "`hybrid-sharding`"));
  }
  if (s.recompute_level == RecomputeLevel::kModules || !s.recompute_modules.empty()) {
    return RefuseRun(where, "the executor recomputes whole layers or attention alone, no modules");
  }
  if (s.recompute_level != RecomputeLevel::kNone && !IsTransformer(layer.kind)) {
    return RefuseRun(where, "only transformer layers recompute");
  }
  return CheckSplit(layer, where, s);
}

absl::Status CheckStrategies(const Plan& plan, const ModelSpec& model) {
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      for (int k = 0; k < run.layer_count; ++k) {
        const int index = run.first_layer_index + k;
        // Equal layers are checked once.
        if (k > 0 && model.definition_of_layer()[index] == model.definition_of_layer()[index - 1]) {
          continue;
        }
        PARPLAN_RETURN_IF_ERROR(
            CheckStrategy(plan, model.layer(index), index, run.strategy, stage.rank_count));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTied(const Plan& plan, const ModelSpec& model) {
  if (!HasTiedTable(model)) return absl::OkStatus();
  if (!HoldsTiedTable(model, model.definition_of_layer().front())) {
    return RefuseRun(LayerName(model.layer_count() - 1),
                     "a tied head needs an embedding with the same vocabulary_size");
  }
  const Strategy& first = plan.stages.front().layer_runs.front().strategy;
  const Strategy& last = plan.stages.back().layer_runs.back().strategy;
  if (!HoldTableAlike(first, last)) {
    return RefuseRun(LayerName(model.layer_count() - 1),
                     "the executor needs a tied head that is spread as the embedding is");
  }
  if (plan.pipeline_parallel_degree() > 1 &&
      first.sharding_level > LimitsOf(Target::kParplan).most_tied_sharding_in_pipeline) {
    return RefuseRun(
        LayerName(model.layer_count() - 1),
        "the executor needs weights that are not sharded if embedding and head share them on "
        "different ranks");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RefuseRun(const std::string& where, const std::string& why) {
  return MakeError(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid,
                   absl::StrCat("the executor cannot run this plan: ", where, ": ", why),
                   {{"field", where}});
}

absl::Status CheckRunnablePlan(const Plan& plan, const ModelSpec& model) {
  PARPLAN_RETURN_IF_ERROR(CheckModel(model));
  PARPLAN_RETURN_IF_ERROR(CheckStages(plan, model));
  PARPLAN_RETURN_IF_ERROR(CheckStrategies(plan, model));
  return CheckTied(plan, model);
}

}  // namespace parplan
