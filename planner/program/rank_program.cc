#include "planner/program/rank_program.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/model/search_space.h"
#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 12, "give ranks the new field, or refuse it");

absl::Status Refuse(const std::string& where, const std::string& why) {
  return MakeError(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid,
                   absl::StrCat("the executor cannot run this plan: ", where, ": ", why),
                   {{"field", where}});
}

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
      return Refuse(LayerName(index),
                    "the executor trains only embeddings, encoders, decoders and heads");
    }
    if ((layer.kind == LayerKind::kEmbedding) != is_first ||
        (layer.kind == LayerKind::kHead) != is_last) {
      return Refuse(LayerName(index),
                    "the model must begin with its only embedding and end with its only head");
    }
    if (layer.frozen) {
      return Refuse(LayerName(index), "the executor trains all weights, and its are frozen");
    }
    if (!HasUsualParts(layer)) {
      return Refuse(LayerName(index),
                    "the executor trains no latent attention, state spaces, layers without "
                    "feed-forward part, or predictions of further tokens");
    }
    if (layer.attention_window > 0 || layer.attention_chunk_size > 0) {
      return Refuse(LayerName(index), "the executor's attention has no windows");
    }
    if (layer.expert_count > 0) return Refuse(LayerName(index), "the executor trains no experts");
    if (layer.hidden_size != model.layer(0).hidden_size ||
        layer.sequence_length != model.layer(0).sequence_length) {
      return Refuse(LayerName(index),
                    "all layers must have the same hidden_size and sequence_length");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckStages(const Plan& plan, const ModelSpec& model) {
  const int stage_count = static_cast<int>(plan.stages.size());
  if (plan.virtual_stage_count < 1 || stage_count == 0 ||
      stage_count % plan.virtual_stage_count != 0) {
    return Refuse("virtual_stage_count", "must divide the number of stages");
  }
  if (plan.virtual_stage_count > 1 && !TraitsOf(plan.schedule).has_virtual_stages) {
    return Refuse("schedule", "must be interleaved if a device has several stages");
  }
  if (TraitsOf(plan.schedule).backward_split != BackwardSplit::kWhole) {
    return Refuse("schedule",
                  "the executor computes the gradients of inputs and weights in one backward pass");
  }
  const int degree = plan.pipeline_parallel_degree();
  if (plan.virtual_stage_count > 1 && degree == 1) {
    return Refuse("virtual_stage_count",
                  "must be 1 in a pipeline of one device, which has no other to send to");
  }
  if (plan.device_count < 1 || plan.device_count % degree != 0) {
    return Refuse("device_count", absl::StrCat(degree, " stages do not share ", plan.device_count,
                                               " devices equally"));
  }
  if (plan.micro_batch_count < 1 || plan.global_batch_size < 1 ||
      plan.global_batch_size % plan.micro_batch_count != 0) {
    return Refuse("micro_batch_count", "must divide global_batch_size");
  }
  if (plan.micro_batch_count > kMaxForwardPassCount / stage_count) {
    return Refuse("micro_batch_count", absl::StrCat("makes more than ", kMaxForwardPassCount,
                                                    " forward passes per step"));
  }
  if (plan.micro_batch_group_size != 0) {
    return Refuse("micro_batch_group_size",
                  absl::StrCat("is ", plan.micro_batch_group_size,
                               ", and the executor sends a message only after the one before it "
                               "was taken: it runs groups of as many micro-batches as the "
                               "pipeline has devices"));
  }
  if (plan.virtual_stage_count > 1 && plan.micro_batch_count % degree != 0) {
    return Refuse("micro_batch_count",
                  "must be a multiple of the pipeline degree if stages are interleaved");
  }
  const int rank_count = plan.device_count / degree;
  int next_layer = 0;
  for (int index = 0; index < stage_count; ++index) {
    const StagePlan& stage = plan.stages[index];
    if (stage.rank_count != rank_count || stage.first_rank != index % degree * rank_count) {
      return Refuse(StageName(index), absl::StrCat("it is on ranks ", index % degree * rank_count,
                                                   " to ", (index % degree + 1) * rank_count - 1));
    }
    if (stage.is_empty()) {
      return Refuse(StageName(index),
                    "it has no layer, and the executor has no stages that only hand on what they "
                    "receive");
    }
    for (const StageLayerRun& run : stage.layer_runs) {
      if (run.first_layer_index != next_layer || run.layer_count < 1 ||
          run.layer_count > model.layer_count() - next_layer) {
        return Refuse(StageName(index),
                      "stages must cover the layers of the model in order, each once");
      }
      next_layer += run.layer_count;
    }
  }
  if (next_layer != model.layer_count()) {
    return Refuse("stages",
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
      return Refuse(where, absl::StrCat("heads cannot be shared by ", head_rank_count, " ranks"));
    }
    if (layer.feed_forward_size % tensor != 0) {
      return Refuse(where, absl::StrCat("feed_forward_size is no multiple of ", tensor));
    }
  }
  if (layer.sequence_length % (context > 1 && is_ring ? 2 * context : context) != 0) {
    return Refuse(where, absl::StrCat("sequence_length cannot be shared by ", context, " ranks"));
  }
  if (s.sequence_parallel && layer.sequence_length / context % tensor != 0) {
    return Refuse(where,
                  absl::StrCat("tokens cannot be shared by ", tensor, " sequence-parallel ranks"));
  }
  return absl::OkStatus();
}

absl::Status CheckStrategy(const Plan& plan, const LayerDefinition& layer, int layer_index,
                           const Strategy& s, int rank_count) {
  const std::string where = LayerName(layer_index);
  if (s.tensor_parallel_degree < 1 || s.data_parallel_degree < 1 || s.context_parallel_degree < 1 ||
      int64_t{s.tensor_parallel_degree} * s.data_parallel_degree * s.context_parallel_degree !=
          rank_count) {
    return Refuse(where, absl::StrCat("its degrees make ", rank_count, " ranks"));
  }
  if (plan.micro_batch_size() % s.data_parallel_degree != 0) {
    return Refuse(where,
                  absl::StrCat("a micro-batch of ", plan.micro_batch_size(),
                               " samples cannot be shared by ", s.data_parallel_degree, " ranks"));
  }
  if (s.expert_parallel_degree != 1 || s.expert_tensor_parallel_degree != 0) {
    return Refuse(where, "the executor trains no experts");
  }
  if (s.context_kind == ContextKind::kAllGather || s.context_exchange_degree > 1) {
    return Refuse(where, "the executor shares tokens by rings or by all-to-alls alone");
  }
  if (s.recompute_level == RecomputeLevel::kModules || !s.recompute_modules.empty()) {
    return Refuse(where, "the executor recomputes whole layers or attention alone, no modules");
  }
  if (s.recompute_level != RecomputeLevel::kNone && !IsTransformer(layer.kind)) {
    return Refuse(where, "only transformer layers recompute");
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
    return Refuse(LayerName(model.layer_count() - 1),
                  "a tied head needs an embedding with the same vocabulary_size");
  }
  const Strategy& first = plan.stages.front().layer_runs.front().strategy;
  const Strategy& last = plan.stages.back().layer_runs.back().strategy;
  if (!HoldTableAlike(first, last)) {
    return Refuse(LayerName(model.layer_count() - 1),
                  "the executor needs a tied head that is spread as the embedding is");
  }
  if (plan.pipeline_parallel_degree() > 1 &&
      first.sharding_level > LimitsOf(Target::kParplan).most_tied_sharding_in_pipeline) {
    return Refuse(
        LayerName(model.layer_count() - 1),
        "the executor needs weights that are not sharded if embedding and head share them on "
        "different ranks");
  }
  return absl::OkStatus();
}

// Collects groups while layers refer to them, and sorts them at the end.
class GroupList {
 public:
  int Add(std::string purpose, std::vector<int> ranks) {
    if (ranks.size() < 2) return -1;
    std::sort(ranks.begin(), ranks.end());
    GroupSpec spec{std::move(purpose), std::move(ranks)};
    const auto found = std::find(specs_.begin(), specs_.end(), spec);
    if (found != specs_.end()) return static_cast<int>(found - specs_.begin());
    specs_.push_back(std::move(spec));
    return static_cast<int>(specs_.size()) - 1;
  }

  // Sorts the groups. Returns [index given before] the index after sorting.
  std::vector<int> Sort() {
    std::vector<int> order(specs_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return specs_[a] < specs_[b]; });
    std::vector<int> place(specs_.size());
    std::vector<GroupSpec> sorted;
    for (size_t k = 0; k < order.size(); ++k) {
      place[order[k]] = static_cast<int>(k);
      sorted.push_back(std::move(specs_[order[k]]));
    }
    specs_ = std::move(sorted);
    return place;
  }

  std::vector<GroupSpec> Take() { return std::move(specs_); }

 private:
  std::vector<GroupSpec> specs_;
};

// Lists the ranks of a stage that differ from `place` only in the free axes.
std::vector<int> RanksAlong(int first_rank, const Strategy& strategy, const GridPlace& place,
                            bool tensor, bool context, bool data) {
  std::vector<int> ranks;
  for (int r = 0; r < strategy.rank_count(); ++r) {
    const GridPlace other = PlaceOfRank(strategy, r);
    if ((tensor || other.tensor == place.tensor) && (context || other.context == place.context) &&
        (data || other.data == place.data)) {
      ranks.push_back(first_rank + r);
    }
  }
  return ranks;
}

std::vector<int> RanksOf(const StagePlan& stage) {
  std::vector<int> ranks(stage.rank_count);
  std::iota(ranks.begin(), ranks.end(), stage.first_rank);
  return ranks;
}

class ProgramMaker {
 public:
  ProgramMaker(const Plan& plan, const ModelSpec& model, int rank)
      : plan_(plan), model_(model), rank_(rank) {}

  RankProgram Make() {
    const int degree = plan_.pipeline_parallel_degree();
    RankProgram program;
    program.rank = rank_;
    program.device_count = plan_.device_count;
    program.pipeline_parallel_degree = degree;
    program.pipeline_place = rank_ / (plan_.device_count / degree);
    program.micro_batch_size = plan_.micro_batch_size();
    program.micro_batch_count = plan_.micro_batch_count;
    for (size_t index = program.pipeline_place; index < plan_.stages.size(); index += degree) {
      program.stages.push_back(MakeStage(static_cast<int>(index)));
    }
    program.tied_group = TiedGroup();
    std::vector<int> all(plan_.device_count);
    std::iota(all.begin(), all.end(), 0);
    groups_.Add(group_purpose::kLoss, std::move(all));
    Renumber(groups_.Sort(), program);
    program.groups = groups_.Take();
    program.passes = PassOrder({.schedule = plan_.schedule,
                                .pipeline_parallel_degree = degree,
                                .virtual_stage_count = plan_.virtual_stage_count,
                                .micro_batch_count = plan_.micro_batch_count},
                               program.pipeline_place);
    return program;
  }

 private:
  ActivationLayout LayoutOf(const StagePlan& stage, int layer_index,
                            const Strategy& strategy) const {
    return {stage.first_rank, strategy, plan_.micro_batch_size(),
            model_.layer(layer_index).sequence_length};
  }
  ActivationLayout FirstLayout(const StagePlan& stage) const {
    const StageLayerRun& run = stage.layer_runs.front();
    return LayoutOf(stage, run.first_layer_index, run.strategy);
  }
  ActivationLayout LastLayout(const StagePlan& stage) const {
    const StageLayerRun& run = stage.layer_runs.back();
    return LayoutOf(stage, run.first_layer_index + run.layer_count - 1, run.strategy);
  }

  StageProgram MakeStage(int index) {
    const StagePlan& stage = plan_.stages[index];
    StageProgram program{.stage_index = index};
    program.stage_group = groups_.Add(group_purpose::kStage, RanksOf(stage));
    for (const StageLayerRun& run : stage.layer_runs) {
      for (int k = 0; k < run.layer_count; ++k) AddLayer(stage, run, k, program);
    }
    if (index > 0) {
      const StagePlan& previous = plan_.stages[index - 1];
      program.receive_forward_group = BoundaryGroup(group_purpose::kForward, index - 1);
      program.send_backward_group = BoundaryGroup(group_purpose::kBackward, index - 1);
      program.receive_forward = MakeReshard(LastLayout(previous), FirstLayout(stage), rank_);
      program.send_backward = MakeReshard(FirstLayout(stage), LastLayout(previous), rank_);
    }
    if (index + 1 < static_cast<int>(plan_.stages.size())) {
      const StagePlan& next = plan_.stages[index + 1];
      program.send_forward_group = BoundaryGroup(group_purpose::kForward, index);
      program.receive_backward_group = BoundaryGroup(group_purpose::kBackward, index);
      program.send_forward = MakeReshard(LastLayout(stage), FirstLayout(next), rank_);
      program.receive_backward = MakeReshard(FirstLayout(next), LastLayout(stage), rank_);
    }
    return program;
  }

  // Returns the group of the ranks of a stage and the next.
  int BoundaryGroup(const char* direction, int stage) {
    std::vector<int> ranks = RanksOf(plan_.stages[stage]);
    const std::vector<int> others = RanksOf(plan_.stages[stage + 1]);
    ranks.insert(ranks.end(), others.begin(), others.end());
    return groups_.Add(absl::StrCat(direction, " ", stage), std::move(ranks));
  }

  void AddLayer(const StagePlan& stage, const StageLayerRun& run, int k, StageProgram& program) {
    const Strategy& strategy = run.strategy;
    LayerProgram layer;
    // Layers of a run are equal.
    if (k > 0) {
      layer = program.layers.back();
      layer.enter = {};
      layer.leave_backward = {};
    } else {
      layer.strategy = strategy;
      layer.layout = LayoutOf(stage, run.first_layer_index, strategy);
      layer.place = layer.layout.PlaceOf(rank_);
      const auto along = [&](bool tensor, bool context, bool data) {
        return RanksAlong(stage.first_rank, strategy, layer.place, tensor, context, data);
      };
      layer.tensor_group = groups_.Add(group_purpose::kTensor, along(true, false, false));
      layer.context_group = groups_.Add(group_purpose::kContext, along(false, true, false));
      layer.gradient_group = groups_.Add(group_purpose::kGradient, along(false, true, true));
      if (!program.layers.empty()) {
        const ActivationLayout& before = program.layers.back().layout;
        if (!before.IsSameAs(layer.layout)) {
          layer.enter = MakeReshard(before, layer.layout, rank_);
          layer.leave_backward = MakeReshard(layer.layout, before, rank_);
        }
      }
    }
    layer.layer_index = run.first_layer_index + k;
    layer.definition_index = model_.definition_of_layer()[layer.layer_index];
    program.layers.push_back(std::move(layer));
  }

  // Returns the group with the rank that has the same part of the table at the other end of the
  // model.
  int TiedGroup() {
    const StagePlan& first = plan_.stages.front();
    const StagePlan& last = plan_.stages.back();
    if (!HasTiedTable(model_) || first.first_rank == last.first_rank) return -1;
    for (const StagePlan* stage : {&first, &last}) {
      const int place = rank_ - stage->first_rank;
      if (place < 0 || place >= stage->rank_count) continue;
      return groups_.Add(group_purpose::kTied, {first.first_rank + place, last.first_rank + place});
    }
    return -1;
  }

  static void Renumber(const std::vector<int>& place, RankProgram& program) {
    const auto renumber = [&](int& group) {
      if (group >= 0) group = place[group];
    };
    renumber(program.tied_group);
    for (StageProgram& stage : program.stages) {
      renumber(stage.stage_group);
      renumber(stage.receive_forward_group);
      renumber(stage.send_forward_group);
      renumber(stage.receive_backward_group);
      renumber(stage.send_backward_group);
      for (LayerProgram& layer : stage.layers) {
        renumber(layer.tensor_group);
        renumber(layer.context_group);
        renumber(layer.gradient_group);
      }
    }
  }

  const Plan& plan_;
  const ModelSpec& model_;
  const int rank_;
  GroupList groups_;
};

}  // namespace

absl::StatusOr<RankProgram> RankProgram::Create(const Plan& plan, const ModelSpec& model,
                                                int rank) {
  PARPLAN_RETURN_IF_ERROR(CheckModel(model));
  PARPLAN_RETURN_IF_ERROR(CheckStages(plan, model));
  PARPLAN_RETURN_IF_ERROR(CheckStrategies(plan, model));
  PARPLAN_RETURN_IF_ERROR(CheckTied(plan, model));
  if (rank < 0 || rank >= plan.device_count) {
    return Refuse("rank",
                  absl::StrCat("the plan has ranks 0 to ", plan.device_count - 1, ", not ", rank));
  }
  return ProgramMaker(plan, model, rank).Make();
}

}  // namespace parplan
