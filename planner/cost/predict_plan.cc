#include "planner/cost/predict_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

namespace parplan {
namespace {

// Number of costs remembered: more than definitions times strategies of usual plans. With more
// distinct costs the oldest are computed again.
constexpr size_t kKnownCount = 64;
// Number of distinct stages a stage is compared with before its layers are summed up. Not measured:
// a plan usually has a first, a last and one or two kinds of inner stages.
constexpr int kSumsCompared = 4;

bool TiesTable(const ModelSpec& model) {
  return model.layer(model.layer_count() - 1).tied_embedding;
}

RankPlace PlaceOf(const Plan& plan, int device) {
  return {.schedule = plan.schedule,
          .pipeline_parallel_degree = plan.pipeline_parallel_degree(),
          .stage_index = device,
          .virtual_stage_count = plan.virtual_stage_count,
          .micro_batch_count = plan.micro_batch_count,
          .micro_batch_group_size = plan.micro_batch_group_size,
          .communicator_count = 0};
}

// Names the largest cost beyond plain computation on the busiest stage.
void NameBottleneck(const Plan& plan, Seconds step_overhead, Prediction& prediction) {
  const double m = static_cast<double>(plan.micro_batch_count);
  const StagePrediction* busiest = nullptr;
  int busiest_index = 0;
  Seconds busiest_time;
  for (size_t i = 0; i < prediction.stages.size(); ++i) {
    const StagePrediction& stage = prediction.stages[i];
    const Seconds busy =
        (stage.forward + stage.backward) * m + stage.gradient_sync + stage.optimizer_step;
    if (busiest == nullptr || busy > busiest_time) {
      busiest = &stage;
      busiest_index = static_cast<int>(i);
      busiest_time = busy;
    }
  }
  const TimeItems& time = busiest->time;
  struct Candidate {
    Bottleneck bottleneck;
    Seconds cost;
    const char* text;
  };
  const Candidate candidates[] = {
      {Bottleneck::kMemory,
       (time[TimeItemKind::kRecompute] + time[TimeItemKind::kShardedDataParallel]) * m,
       "memory: recomputation and gathering sharded parameters, which save it, take"},
      {Bottleneck::kTensorParallel,
       (time[TimeItemKind::kTensorParallel] + time[TimeItemKind::kResharding]) * m,
       "tensor-parallel collectives take"},
      {Bottleneck::kDataParallel, busiest->gradient_sync,
       "the gradient synchronisation that nothing hides takes"},
      {Bottleneck::kPipelineBubble, prediction.step - busiest_time - step_overhead,
       "waiting of the busiest stage for other stages takes"},
  };
  // Share of the step from which a cost is named; below it the bottleneck is computation.
  constexpr double kWorthNaming = 0.1;
  const Candidate* worst = nullptr;
  for (const Candidate& candidate : candidates) {
    if (candidate.cost < prediction.step * kWorthNaming) continue;
    if (worst == nullptr || candidate.cost > worst->cost) worst = &candidate;
  }
  if (worst == nullptr) {
    const Seconds compute =
        (time[TimeItemKind::kForwardCompute] + time[TimeItemKind::kBackwardCompute]) * m;
    prediction.bottleneck = Bottleneck::kCompute;
    prediction.bottleneck_text =
        absl::StrFormat("computation takes %.0f %% of the step on stage %d",
                        100.0 * (compute / prediction.step), busiest_index);
    return;
  }
  prediction.bottleneck = worst->bottleneck;
  prediction.bottleneck_text =
      absl::StrFormat("%s %.0f %% of the step on stage %d", worst->text,
                      100.0 * (worst->cost / prediction.step), busiest_index);
}

// Returns whether some layer's states are shared by a part of the ranks with its parameters.
bool HasHybridGroups(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [](const StagePlan& stage) {
    return std::any_of(stage.layer_runs.begin(), stage.layer_runs.end(),
                       [](const StageLayerRun& run) { return run.strategy.sharding_degree > 0; });
  });
}

}  // namespace

TensorParallelReach ReachOf(const Plan& plan, const Topology& topology) {
  for (const StagePlan& stage : plan.stages) {
    const int devices_per_node =
        topology.node_group(topology.GroupOfRank(stage.first_rank)).devices_per_node;
    for (const StageLayerRun& run : stage.layer_runs) {
      const int stride = run.strategy.tensor_stride();
      const int block = run.strategy.tensor_parallel_degree * stride;
      if (block - stride >= devices_per_node) return TensorParallelReach::kAcrossNodes;
      // Groups begin at multiples of a block.
      if (devices_per_node % block == 0) continue;
      for (int begin = stage.first_rank; begin < stage.first_rank + stage.rank_count;
           begin += block) {
        for (int first = begin; first < begin + stride; ++first) {
          const int last = first + block - stride;
          if (topology.NodeOfRank(first) != topology.NodeOfRank(last)) {
            return TensorParallelReach::kAcrossNodes;
          }
        }
      }
    }
  }
  return TensorParallelReach::kWithinNode;
}

PlanEvaluator::PlanEvaluator(const PlanningProblem& problem, const CostModel& costs)
    : problem_(problem), costs_(costs), has_tied_table_(TiesTable(problem.model())) {
  known_.resize(kKnownCount);
}

const LayerCost& PlanEvaluator::CostOf(GroupIndex group, int definition_index,
                                       const Strategy& strategy, const Plan& plan) {
  const int64_t micro_batch = plan.micro_batch_size();
  const int depth = plan.pipeline_parallel_degree();
  for (const Known& known : known_) {
    if (known.definition_index == definition_index && known.micro_batch_size == micro_batch &&
        known.pipeline_parallel_degree == depth && known.group == group &&
        known.strategy == strategy) {
      return known.cost;
    }
  }
  Known& known = known_[next_known_];
  next_known_ = (next_known_ + 1) % known_.size();
  const LayerCost cost =
      costs_.group(group).CostOfLayer(definition_index, strategy, micro_batch, depth);
  known = {group, definition_index, strategy, micro_batch, depth, cost};
  return known.cost;
}

bool PlanEvaluator::AreAlike(const StageLayerRun& one, const StageLayerRun& other) const {
  const std::vector<int>& definition_of_layer = problem_.model().definition_of_layer();
  return definition_of_layer[one.first_layer_index] ==
             definition_of_layer[other.first_layer_index] &&
         one.strategy == other.strategy;
}

bool PlanEvaluator::SameLayers(const StagePlan& a, const StagePlan& b) const {
  return std::equal(a.layer_runs.begin(), a.layer_runs.end(), b.layer_runs.begin(),
                    b.layer_runs.end(),
                    [this](const StageLayerRun& one, const StageLayerRun& other) {
                      return one.layer_count == other.layer_count && AreAlike(one, other);
                    });
}

int PlanEvaluator::SumOf(const Plan& plan, const StagePlan& stage, const StageLayerRun& sent) {
  const GroupIndex group = GroupOf(stage);
  for (int i = sum_count_ - 1; i >= std::max(0, sum_count_ - kSumsCompared); --i) {
    const StageSum& sum = sums_[i];
    if (sum.group != group || !SameLayers(*sum.stage, stage)) continue;
    if (!stage.is_empty() || AreAlike(*sum.sent, sent)) return i;
  }
  if (sum_count_ == static_cast<int>(sums_.size())) sums_.emplace_back();
  AddSum(plan, stage, sent, sums_[sum_count_]);
  return sum_count_++;
}

void PlanEvaluator::AddSum(const Plan& plan, const StagePlan& stage, const StageLayerRun& sent,
                           StageSum& sum) {
  const std::vector<int>& definition_of_layer = problem_.model().definition_of_layer();
  sum = {};
  sum.stage = &stage;
  sum.sent = &sent;
  sum.group = GroupOf(stage);
  const StageLayerRun* previous = nullptr;
  for (const StageLayerRun& run : stage.layer_runs) {
    const int definition = definition_of_layer[run.first_layer_index];
    const LayerCost& cost = CostOf(sum.group, definition, run.strategy, plan);
    const auto count = static_cast<double>(run.layer_count);
    sum.forward += cost.forward * count;
    sum.backward += cost.backward * count;
    sum.backward_weights += cost.backward_weights * count;
    sum.gradient_sync += cost.gradient_sync * count;
    sum.optimizer_step += cost.optimizer_step * count;
    for (int kind = 0; kind < kTimeItemKindCount; ++kind) {
      sum.time.duration[kind] += cost.time.duration[kind] * count;
    }
    sum.memory.Add(cost.memory, run.layer_count);
    sum.communicator_count = std::max(
        sum.communicator_count, CommunicatorCount(run.strategy, plan.pipeline_parallel_degree(),
                                                  /*has_tied_table_elsewhere=*/false));
    if (previous != nullptr && previous->strategy != run.strategy) {
      const Seconds move = costs_.group(sum.group).TransitionTime(
          definition, previous->strategy, run.strategy, plan.micro_batch_size());
      sum.time[TimeItemKind::kResharding] += move;
      sum.forward += move * 0.5;
      sum.backward += move * 0.5;
    }
    previous = &run;
  }
  if (!stage.is_empty()) return;
  const LayerMemory passage = costs_.group(sum.group).MemoryOfPassage(
      definition_of_layer[sent.first_layer_index], sent.strategy, plan.micro_batch_size());
  sum.memory.Add(passage, 1);
  sum.communicator_count = CommunicatorCount(sent.strategy, plan.pipeline_parallel_degree(),
                                             /*has_tied_table_elsewhere=*/false);
}

Seconds PlanEvaluator::SendTime(const Plan& plan, int index) {
  const StagePlan& stage = plan.stages[index];
  const StagePlan& next = plan.stages[index + 1];
  const Topology& topology = problem_.topology();
  // Returns whether the rank's counterpart is on another node.
  const auto node_changes = [&](int rank) {
    return topology.NodeOfRank(stage.first_rank + rank) !=
           topology.NodeOfRank(next.first_rank + rank);
  };
  const Hop hop = {.from_sum = sum_of_stage_[index],
                   .to_sum = sum_of_stage_[index + 1],
                   .leaves_node = node_changes(0) || node_changes(stage.rank_count - 1)};
  if (last_hop_ == hop) return last_send_;
  const StageLayerRun& last = *sums_[hop.from_sum].sent;
  // A stage without layers changes no layout.
  const Strategy& received = next.is_empty() ? last.strategy : next.layer_runs.front().strategy;
  last_hop_ = hop;
  last_send_ =
      costs_.SendTime(sums_[hop.from_sum].group, sums_[hop.to_sum].group,
                      problem_.model().definition_of_layer()[last.first_layer_index], last.strategy,
                      received, stage.rank_count, hop.leaves_node, plan.micro_batch_size());
  return last_send_;
}

void PlanEvaluator::SumDevice(const Plan& plan, int device) {
  const int depth = plan.pipeline_parallel_degree();
  RankPlace place = PlaceOf(plan, device);
  memory_of_device_.clear();
  for (int index = device; index < static_cast<int>(plan.stages.size()); index += depth) {
    const StageSum& sum = sums_[sum_of_stage_[index]];
    memory_of_device_.push_back(&sum.memory);
    place.communicator_count = std::max(place.communicator_count, sum.communicator_count);
  }
  const bool is_edge = device == 0 || device + 1 == depth;
  if (has_tied_table_ && is_edge && depth > 1) ++place.communicator_count;
  DeviceSum& sum = devices_[device];
  const GroupCosts& costs = costs_.group(sums_[sum_of_stage_[device]].group);
  sum.memory =
      MemoryOfRank(memory_of_device_, place, costs_.runtime(), costs.memory_coefficients());
  const MemoryOverheads& overheads = costs.overheads();
  sum.lower = Bytes::Of(
      static_cast<int64_t>(sum.memory.total.Total().as_double() * overheads.lower_factor));
  sum.upper = overheads.Upper(overheads.DeviceMemory(
      sum.memory.tensor_bound, depth, plan.stages[device].rank_count, place.communicator_count));
  // The device also shows what its allocator keeps for later.
  sum.upper = std::max(sum.upper, sum.memory.total.Total());
}

Seconds PlanEvaluator::Run(const Plan& plan) {
  const int stage_count = static_cast<int>(plan.stages.size());
  const int depth = plan.pipeline_parallel_degree();
  times_.resize(stage_count);
  sum_of_stage_.resize(stage_count);
  devices_.resize(depth);
  sum_count_ = 0;
  // The first stage has layers.
  const StageLayerRun* sent = &plan.stages.front().layer_runs.back();
  for (int index = 0; index < stage_count; ++index) {
    const StagePlan& stage = plan.stages[index];
    if (!stage.is_empty()) sent = &stage.layer_runs.back();
    const int sum_index = SumOf(plan, stage, *sent);
    sum_of_stage_[index] = sum_index;
    const StageSum& sum = sums_[sum_index];
    times_[index] = {sum.forward, sum.backward, Seconds(), sum.gradient_sync + sum.optimizer_step,
                     sum.backward_weights};
  }
  last_hop_ = {};
  for (int index = 0; index + 1 < stage_count && depth > 1; ++index) {
    times_[index].send = SendTime(plan, index);
  }
  for (int device = 0; device < depth; ++device) SumDevice(plan, device);
  const PipelineRules rules = {.schedule = plan.schedule,
                               .virtual_stage_count = plan.virtual_stage_count,
                               .micro_batch_group_size = plan.micro_batch_group_size,
                               .blocking_messages = costs_.runtime().blocking_pipeline_messages,
                               .serial_messages = costs_.runtime().serial_pipeline_messages};
  return schedule_.StepTime(rules, times_, plan.micro_batch_count) + costs_.step_overhead();
}

PlanScore PlanEvaluator::Evaluate(const Plan& plan) {
  PlanScore score;
  score.step = Run(plan);
  for (const DeviceSum& device : devices_) {
    score.peak_memory = std::max(score.peak_memory, device.memory.total.Total());
    score.peak_memory_upper = std::max(score.peak_memory_upper, device.upper);
  }
  return score;
}

Prediction PlanEvaluator::Predict(const Plan& plan) {
  Prediction prediction;
  prediction.step = Run(plan);
  prediction.usable_memory = problem_.usable_memory();
  prediction.samples_per_second =
      static_cast<double>(plan.global_batch_size) / prediction.step.value();
  const int depth = plan.pipeline_parallel_degree();
  const bool splits = TraitsOf(plan.schedule).backward_split == BackwardSplit::kInputsThenWeights;
  const auto micro_batches = static_cast<double>(plan.micro_batch_count);
  for (int device = 0; device < depth; ++device) {
    StagePrediction& stage = prediction.stages.emplace_back();
    for (int index = device; index < static_cast<int>(plan.stages.size()); index += depth) {
      const StageSum& sum = sums_[sum_of_stage_[index]];
      stage.forward += sum.forward;
      stage.backward += sum.backward;
      if (splits) stage.backward_weights += sum.backward_weights;
      stage.gradient_sync += sum.gradient_sync;
      stage.optimizer_step += sum.optimizer_step;
      stage.send += times_[index].send;
      for (int kind = 0; kind < kTimeItemKindCount; ++kind) {
        stage.time.duration[kind] += sum.time.duration[kind];
      }
    }
    const RankMemory& memory = devices_[device].memory;
    stage.in_flight_micro_batch_count = memory.in_flight_micro_batch_count;
    stage.memory = memory.total;
    const Seconds busy = (stage.forward + stage.backward) * micro_batches + stage.gradient_sync +
                         stage.optimizer_step;
    stage.idle_ratio = std::max(0.0, 1.0 - (busy + costs_.step_overhead()) / prediction.step);
    prediction.peak_memory = std::max(prediction.peak_memory, stage.peak_memory());
    prediction.peak_memory_lower = std::max(prediction.peak_memory_lower, devices_[device].lower);
    prediction.peak_memory_upper = std::max(prediction.peak_memory_upper, devices_[device].upper);
  }
  const RangeFactors& range = costs_.step_range(ReachOf(plan, problem_.topology()));
  prediction.step_lower = prediction.step * range.lower;
  prediction.step_upper = prediction.step * range.upper;
  prediction.range_basis = range.basis;
  NameBottleneck(plan, costs_.step_overhead(), prediction);
  prediction.confidence = costs_.confidence();
  prediction.estimated_items = costs_.estimated_items();
  const auto add_item = [&prediction](const char* item) {
    prediction.estimated_items.emplace_back(item);
    if (prediction.confidence == Confidence::kMeasured) prediction.confidence = Confidence::kMixed;
  };
  if (splits) add_item(kSplitBackwardItem);
  if (costs_.estimates_hybrid_groups() && HasHybridGroups(plan)) add_item(kHybridGroupsItem);
  return prediction;
}

Prediction PredictPlan(const PlanningProblem& problem, const CostModel& costs, const Plan& plan) {
  return PlanEvaluator(problem, costs).Predict(plan);
}

}  // namespace parplan
