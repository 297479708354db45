#include "planner/cost/step_collectives.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "planner/cost/layer_collectives.h"
#include "planner/cost/layer_traffic.h"

namespace parplan {
namespace {

class StepLister {
 public:
  StepLister(const PlanningProblem& problem, const CostModel& costs, const Plan& plan, int rank)
      : problem_(problem),
        costs_(costs),
        plan_(plan),
        rank_(rank),
        micro_batches_(static_cast<double>(plan.micro_batch_count)) {}

  std::vector<StepCollective> List() && {
    for (size_t index = 0; index < plan_.stages.size(); ++index) {
      const StagePlan& stage = plan_.stages[index];
      if (rank_ < stage.first_rank || rank_ >= stage.first_rank + stage.rank_count) continue;
      AddStage(static_cast<int>(index));
    }
    if (costs_.runtime().sums_loss && plan_.device_count > 1) {
      std::vector<int> everyone(plan_.device_count);
      std::iota(everyone.begin(), everyone.end(), 0);
      Add(CollectivePurpose::kLoss, Collective::kAllReduce, std::move(everyone), 1, kLossBytes);
    }
    return std::move(found_);
  }

 private:
  const GroupCosts& CostsOf(const StagePlan& stage) const {
    return costs_.group(problem_.topology().GroupOfRank(stage.first_rank));
  }
  int DefinitionOf(const StageLayerRun& run) const {
    return problem_.model().definition_of_layer()[run.first_layer_index];
  }
  bool has_pipeline() const { return plan_.pipeline_parallel_degree() > 1; }

  void Add(CollectivePurpose purpose, Collective collective, std::vector<int> ranks, double count,
           double bytes_a_call) {
    if (count <= 0.0) return;
    auto same = std::find_if(found_.begin(), found_.end(), [&](const StepCollective& one) {
      return one.purpose == purpose && one.collective == collective && one.ranks == ranks;
    });
    if (same == found_.end()) {
      found_.push_back({.purpose = purpose, .collective = collective, .ranks = std::move(ranks)});
      same = std::prev(found_.end());
    }
    same->count += count;
    same->bytes += count * bytes_a_call;
  }

  // Adds `times` as many calls as a list has, and as many as full recomputation repeats if
  // `repeats`.
  void Add(CollectivePurpose purpose, const StagePlan& stage, const CollectiveList& calls,
           double times, bool repeats = false) {
    for (const LayerCollective& call : calls) {
      Add(purpose, call.collective, RanksOf(stage, call.group),
          (call.count + (repeats ? call.repeated : 0.0)) * times, call.bytes);
    }
  }

  // Returns the group of this shape in which the rank is. Groups lie side by side from the first
  // rank of the stage on.
  std::vector<int> RanksOf(const StagePlan& stage, const GroupShape& shape) const {
    const int place = rank_ - stage.first_rank;
    const int block = shape.participant_count * shape.rank_stride;
    int next = stage.first_rank + place / block * block + place % shape.rank_stride;
    std::vector<int> ranks;
    for (int i = 0; i < shape.participant_count; ++i, next += shape.rank_stride) {
      ranks.push_back(next);
    }
    return ranks;
  }

  void AddStage(int index) {
    const StagePlan& stage = plan_.stages[index];
    const GroupCosts& costs = CostsOf(stage);
    const StageLayerRun* previous = nullptr;
    for (const StageLayerRun& run : stage.layer_runs) {
      if (previous != nullptr) {
        Add(CollectivePurpose::kLayout, stage,
            costs.TransitionCollectives(DefinitionOf(run), previous->strategy, run.strategy,
                                        plan_.micro_batch_size()),
            micro_batches_);
      }
      AddRun(stage, run);
      previous = &run;
    }
    if (!has_pipeline()) return;
    if (index > 0) AddMessages(index - 1);
    if (index + 1 == static_cast<int>(plan_.stages.size())) return;
    AddMessages(index);
    const StageLayerRun& sent = SentRun(plan_, index);
    Add(CollectivePurpose::kLayout, stage,
        costs.TransitionCollectives(DefinitionOf(sent), sent.strategy,
                                    ReceivingStrategy(plan_, index + 1), plan_.micro_batch_size()),
        micro_batches_);
  }

  void AddRun(const StagePlan& stage, const StageLayerRun& run) {
    const GroupCosts& costs = CostsOf(stage);
    const LayerTraffic& traffic = costs.traffic();
    const LayerSource& source = costs.layer_source(DefinitionOf(run));
    const LayerDefinition& definition = source.definition();
    const Strategy& strategy = run.strategy;
    const auto samples =
        static_cast<double>(plan_.micro_batch_size() / strategy.data_parallel_degree);
    const double layers = run.layer_count;
    const double passes = micro_batches_ * layers;
    const Recomputation recomputation =
        IsTransformer(definition.kind) ? strategy.recomputation() : Recomputation();
    const bool repeats = recomputation.level == RecomputeLevel::kFull;
    const bool repeats_experts = recomputation.modules.has(RecomputeModule::kExperts);
    const auto add = [&](CollectivePurpose purpose, const PassCollectives& calls, bool again) {
      Add(purpose, stage, calls.forward, passes, again);
      Add(purpose, stage, calls.backward, passes);
    };
    add(CollectivePurpose::kTensor, traffic.TensorCollectives(definition, strategy, samples),
        repeats);
    Add(CollectivePurpose::kTensor, stage,
        traffic.ModuleCollectives(definition, strategy, samples, recomputation.modules), passes);
    add(CollectivePurpose::kContext, traffic.ContextCollectives(definition, strategy, samples),
        traffic.RepeatsContext(strategy, recomputation));
    add(CollectivePurpose::kExpert, traffic.ExpertCollectives(definition, strategy, samples),
        repeats || repeats_experts);
    Add(CollectivePurpose::kPartialGradient, stage,
        traffic.PartialGradientCollectives(definition, strategy), layers);

    Strategy held = strategy;
    if (traffic.KeepsTableWhole(definition)) {
      held.tensor_parallel_degree = 1;
      held.sequence_parallel = false;
    }
    const LayerFootprint footprint = source.Footprint(held, plan_.pipeline_parallel_degree());
    const ShardingLevel sharding = strategy.sharding_level;
    const DataCollectiveLists data =
        traffic.DataCollectives(footprint, strategy, strategy.sharding());
    // Gradients are reduced once a step, or by each micro-batch if they are sharded; parameters are
    // gathered once a step, or for each pass if they are.
    const bool is_each = sharding >= ShardingLevel::kGradients;
    Add(CollectivePurpose::kGradient, stage, data.backward, is_each ? passes : layers);
    Add(CollectivePurpose::kGradient, stage, data.between_groups,
        is_each && costs_.runtime().sums_shards_each_pass ? passes : layers);
    double gathers = layers;
    if (sharding == ShardingLevel::kParameters) {
      const bool reads_none =
          definition.kind == LayerKind::kEmbedding && !costs_.runtime().regathers_embedding;
      gathers = reads_none ? passes : 2.0 * passes;
    }
    Add(CollectivePurpose::kGradient, stage, data.forward, gathers);
    if (traffic.SharesTable(definition)) AddTiedTable(stage, footprint, traffic);
  }

  // Adds what a stage and the next one send each other, of which the rank is in one.
  void AddMessages(int index) {
    const StagePlan& from = plan_.stages[index];
    const StagePlan& to = plan_.stages[index + 1];
    const bool is_sender = rank_ >= from.first_rank && rank_ < from.first_rank + from.rank_count;
    const int place = rank_ - (is_sender ? from : to).first_rank;
    const int first = from.first_rank + place;
    const int second = to.first_rank + place;
    const StageLayerRun& last = SentRun(plan_, index);
    const Topology& topology = problem_.topology();
    const bool leaves_node =
        topology.NodeOfRank(from.first_rank) != topology.NodeOfRank(to.first_rank) ||
        topology.NodeOfRank(from.first_rank + from.rank_count - 1) !=
            topology.NodeOfRank(to.first_rank + to.rank_count - 1);
    const CollectiveList calls = CostsOf(from).MessageCollectives(
        DefinitionOf(last), last.strategy, from.rank_count, leaves_node, plan_.micro_batch_size());
    for (const LayerCollective& call : calls) {
      // Activations one way, gradients the other.
      const double count = 2.0 * micro_batches_ * call.count;
      if (call.collective == Collective::kSendReceive) {
        Add(CollectivePurpose::kPipeline, call.collective,
            {std::min(first, second), std::max(first, second)}, count, call.bytes);
      } else {
        Add(CollectivePurpose::kPipeline, call.collective,
            RanksOf(is_sender ? from : to, call.group), count / 2.0, call.bytes);
      }
    }
  }

  // Adds the sum of the shared table's gradient over the stages that hold the table: one exchange
  // a step, however many layers of the rank read the table, and none if no other rank has it.
  void AddTiedTable(const StagePlan& stage, const LayerFootprint& footprint,
                    const LayerTraffic& traffic) {
    if (std::exchange(has_tied_table_, true)) return;
    const int place = rank_ - stage.first_rank;
    std::vector<int> ranks;
    for (const StagePlan& other : plan_.stages) {
      const bool holds_it = std::any_of(
          other.layer_runs.begin(), other.layer_runs.end(), [&](const StageLayerRun& run) {
            return traffic.SharesTable(problem_.model().layer_definitions()[DefinitionOf(run)]);
          });
      if (holds_it) ranks.push_back(other.first_rank + place);
    }
    // Virtual stages share ranks.
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    if (ranks.size() < 2) return;
    const CollectiveList calls =
        traffic.TiedTableCollectives(footprint, plan_.pipeline_parallel_degree());
    for (const LayerCollective& call : calls) {
      Add(CollectivePurpose::kTiedTable, Collective::kAllReduce, ranks, 1, call.bytes);
    }
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const Plan& plan_;
  const int rank_;
  const double micro_batches_;
  // Whether a layer of the rank that holds the shared table was listed.
  bool has_tied_table_ = false;
  std::vector<StepCollective> found_;
};

}  // namespace

absl::string_view CollectivePurposeName(CollectivePurpose purpose) {
  switch (purpose) {
    case CollectivePurpose::kTensor:
      return "tensor";
    case CollectivePurpose::kContext:
      return "context";
    case CollectivePurpose::kExpert:
      return "experts";
    case CollectivePurpose::kGradient:
      return "gradient";
    case CollectivePurpose::kPartialGradient:
      return "gradients of norms";
    case CollectivePurpose::kLayout:
      return "change of layout";
    case CollectivePurpose::kPipeline:
      return "pipeline";
    case CollectivePurpose::kTiedTable:
      return "tied table";
    case CollectivePurpose::kLoss:
      return "loss";
  }
  return "";
}

std::vector<StepCollective> CollectivesOfStep(const PlanningProblem& problem,
                                              const CostModel& costs, const Plan& plan, int rank) {
  return StepLister(problem, costs, plan, rank).List();
}

}  // namespace parplan
