#include "planner/cost/cost_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/base/check.h"
#include "planner/base/error.h"

namespace parplan {
namespace {

// Collectives of one layer over its tensor-parallel group, each over the
// activations of the micro-batch, as numbers of all-reduces. With sequence
// parallelism each is a reduce-scatter and an all-gather instead.
struct TensorParallelTraffic {
  // Half all-reduces: an all-gather or a reduce-scatter.
  int forward_halves = 0;
  int backward_halves = 0;
};

// Megatron-LM: the attention and the feed-forward part each end in one
// all-reduce, and begin with one in the backward pass. A table split by rows
// sums once; a head split by classes sums the gradient of its input once.
TensorParallelTraffic TrafficOf(LayerKind kind, bool sequence_parallel) {
  switch (kind) {
    case LayerKind::kEncoder:
    case LayerKind::kDecoder:
      return {4, 4};
    case LayerKind::kCrossDecoder:
      return {6, 6};
    case LayerKind::kEmbedding:
    case LayerKind::kPatchEmbedding:
      return sequence_parallel ? TensorParallelTraffic{1, 1} : TensorParallelTraffic{2, 0};
    case LayerKind::kHead:
      return sequence_parallel ? TensorParallelTraffic{1, 1} : TensorParallelTraffic{0, 2};
  }
  return {};
}

// Bytes the optimizer keeps per parameter: two fp32 moments for Adam, and fp32
// master weights when training in 16 bits.
int64_t OptimizerBytesPerParameter(Precision precision, Optimizer optimizer) {
  const int64_t moments = optimizer == Optimizer::kAdam ? 8 : 0;
  const int64_t master = precision == Precision::kFp32 ? 0 : 4;
  return moments + master;
}

Bytes SharedOver(Bytes total, int ranks) { return Bytes::Of((total.count() + ranks - 1) / ranks); }

std::vector<int> Divisors(int value) {
  std::vector<int> divisors;
  for (int i = 1; i <= value; ++i) {
    if (value % i == 0) divisors.push_back(i);
  }
  return divisors;
}

// What the strategies of a problem can ask of the measurements.
struct ProblemNeeds {
  std::vector<int> tensor_parallel_degrees;
  std::set<GroupShape> tensor_groups;
  std::set<GroupShape> data_groups;
  std::set<GroupShape> pipeline_pairs;
};

// True when some transformer layer can be split `degree` times by heads.
bool SplitsSomeLayer(const ModelSpec& model, int degree) {
  return std::any_of(model.layer_definitions().begin(), model.layer_definitions().end(),
                     [degree](const LayerDefinition& layer) {
                       return IsTransformer(layer.kind) &&
                              layer.attention_head_count % degree == 0 &&
                              layer.key_value_head_count % degree == 0;
                     });
}

ProblemNeeds NeedsOf(const PlanningProblem& problem) {
  ProblemNeeds needs;
  std::set<int> degrees = {1};
  for (int depth : Divisors(problem.device_count())) {
    if (depth > problem.max_pipeline_parallel_degree()) break;
    const int ranks = problem.device_count() / depth;
    if (depth > 1) needs.pipeline_pairs.insert({2, ranks});
    for (int tensor : Divisors(ranks)) {
      if (tensor > problem.max_tensor_parallel_degree()) break;
      if (tensor > 1 && !SplitsSomeLayer(problem.model(), tensor)) continue;
      const int data = ranks / tensor;
      if (data > problem.global_batch_size()) continue;
      degrees.insert(tensor);
      if (tensor > 1) {
        needs.tensor_groups.insert({tensor, 1});
        if (data > 1) needs.tensor_groups.insert({tensor, data});
      }
      if (data > 1) {
        needs.data_groups.insert({data, tensor});
        if (tensor > 1) needs.data_groups.insert({data, 1});
      }
    }
  }
  needs.tensor_parallel_degrees.assign(degrees.begin(), degrees.end());
  return needs;
}

// Resolves one collective on many shapes; what is missing or estimated goes to
// `notes`.
void ResolveShapes(Collective collective, const std::set<GroupShape>& shapes, bool allow_estimates,
                   CollectiveTimes& times, ResolutionNotes& notes) {
  std::vector<std::string> other_stride;
  std::vector<std::string> estimated;
  for (const GroupShape& shape : shapes) {
    const CollectiveTimes::Source source = times.Resolve(collective, shape);
    const bool is_estimate = source == CollectiveTimes::Source::kEstimated;
    if (source == CollectiveTimes::Source::kMissing || (is_estimate && !allow_estimates)) {
      notes.missing.push_back(
          absl::StrCat(CollectiveName(collective), " on ", GroupShapeText(shape)));
    } else if (is_estimate) {
      estimated.push_back(GroupShapeText(shape));
    } else if (source == CollectiveTimes::Source::kOtherStride) {
      other_stride.push_back(GroupShapeText(shape));
    }
  }
  const auto note = [&](const char* from, const std::vector<std::string>& shapes_noted) {
    if (shapes_noted.empty()) return;
    notes.estimated.push_back(absl::StrCat(CollectiveName(collective), ": taken from ", from,
                                           " for ", absl::StrJoin(shapes_noted, "; ")));
  };
  note("the nearest stride of as many ranks", other_stride);
  note("the most similar group", estimated);
}

absl::Status MissingError(const std::vector<std::string>& missing, bool allow_estimates) {
  std::map<std::string, std::string> metadata = {{"count", absl::StrCat(missing.size())}};
  constexpr size_t kMaxListed = 100;
  for (size_t i = 0; i < std::min(missing.size(), kMaxListed); ++i) {
    metadata[absl::StrCat("missing", i)] = missing[i];
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing,
      absl::StrCat(
          "the profile lacks ", missing.size(), " measurement(s): ", absl::StrJoin(missing, "; "),
          allow_estimates ? ". There is nothing similar to estimate them from: measure them"
                          : ". Measure them, or set allow_estimates to fill them from the "
                            "nearest ones"),
      std::move(metadata));
}

// Bytes up to which sums of memory can't overflow, whatever the plan.
constexpr double kLargestTotalBytes = 0x1p61;

// More than any plan can hold or move: every layer whole, with all samples of the
// step at once. In doubles, which do not overflow.
double WorstTotalBytes(const PlanningProblem& problem, const std::vector<LayerProfile>& layers,
                       const std::vector<int>& degrees) {
  constexpr double kBytesPerParameter = 32.0;
  double total = 0.0;
  for (const ModelLayerRun& run : problem.model().layer_runs()) {
    double worst = 0.0;
    for (const int degree : degrees) {
      const LayerProfile& layer = layers[run.definition_index];
      const double per_sample = std::max(layer.ActivationPerSample(degree).as_double(),
                                         layer.CheckpointPerSample(degree).as_double());
      worst =
          std::max(worst, static_cast<double>(layer.ParameterCount(degree)) * kBytesPerParameter +
                              per_sample * static_cast<double>(problem.global_batch_size()));
    }
    total += worst * run.layer_count;
  }
  return total;
}

constexpr double kDefaultOverlapSlowdown = 1.2;  // middle of the 1.1 to 1.3 published
constexpr int64_t kDefaultContextBytes = int64_t{1} << 30;

}  // namespace

Seconds OverlappedTime(Seconds compute, Seconds communication, double slowdown) {
  return std::max(compute, communication) + std::min(compute, communication) * (slowdown - 1.0);
}

absl::StatusOr<CostModel> CostModel::Create(const PlanningProblem& problem) {
  const ProfileSnapshot& profile = problem.profile();
  const ModelSpec& model = problem.model();
  const bool allow_estimates = problem.rules().allow_estimates;
  const ProblemNeeds needs = NeedsOf(problem);
  ResolutionNotes notes;

  CostModel costs;
  costs.precision_ = model.precision();
  costs.optimizer_ = model.optimizer();
  for (const LayerDefinition& definition : model.layer_definitions()) {
    costs.layers_.push_back(LayerProfile::Resolve(
        definition, model.precision(), profile.FindLayer(definition, model.precision()),
        {needs.tensor_parallel_degrees, allow_estimates}, notes));
  }

  costs.collectives_ = CollectiveTimes(profile, problem.node_group().devices_per_node);
  for (const Collective half : {Collective::kAllGather, Collective::kReduceScatter}) {
    std::set<GroupShape> shapes = needs.tensor_groups;
    shapes.insert(needs.data_groups.begin(), needs.data_groups.end());
    ResolveShapes(half, shapes, allow_estimates, costs.collectives_, notes);
  }
  std::set<GroupShape> all_reduce_shapes = needs.tensor_groups;
  all_reduce_shapes.insert(needs.data_groups.begin(), needs.data_groups.end());
  ResolveShapes(Collective::kAllReduce, all_reduce_shapes, allow_estimates, costs.collectives_,
                notes);
  ResolveShapes(Collective::kSendReceive, needs.pipeline_pairs, allow_estimates, costs.collectives_,
                notes);

  if (profile.overlap_slowdown().has_value()) {
    costs.overlap_slowdown_ = *profile.overlap_slowdown();
  } else if (!needs.data_groups.empty()) {
    costs.overlap_slowdown_ = kDefaultOverlapSlowdown;
    if (!allow_estimates) notes.missing.push_back("overlap_slowdown");
    notes.estimated.push_back(absl::StrCat("overlap_slowdown taken as ", kDefaultOverlapSlowdown));
  }
  if (profile.context_memory().has_value()) {
    costs.context_memory_ = *profile.context_memory();
  } else {
    costs.context_memory_ = Bytes::Of(kDefaultContextBytes);
    if (!allow_estimates) notes.missing.push_back("context_memory_bytes");
    notes.estimated.push_back("context_memory_bytes taken as 1 GiB");
  }

  if (!notes.missing.empty()) return MissingError(notes.missing, allow_estimates);
  if (WorstTotalBytes(problem, costs.layers_, needs.tensor_parallel_degrees) +
          costs.context_memory_.as_double() >
      kLargestTotalBytes) {
    return FieldError(Reason::kSpecInvalid, "global_batch_size",
                      "activations of all layers and samples together are beyond 2^61 bytes; use a "
                      "smaller batch or model, or look for a wrong size in the profile");
  }
  std::sort(notes.estimated.begin(), notes.estimated.end());
  costs.estimated_items_ = std::move(notes.estimated);
  const bool any_measured = std::any_of(costs.layers_.begin(), costs.layers_.end(),
                                        [](const LayerProfile& layer) { return layer.measured(); });
  costs.confidence_ = !any_measured                    ? Confidence::kEstimated
                      : costs.estimated_items_.empty() ? Confidence::kMeasured
                                                       : Confidence::kMixed;
  return costs;
}

LayerCost CostModel::CostOfLayer(int definition_index, const Strategy& strategy,
                                 int64_t micro_batch_size) const {
  const LayerProfile& layer = layers_[definition_index];
  const LayerDefinition& definition = layer.definition();
  const int tensor = strategy.tensor_parallel_degree;
  const int data = strategy.data_parallel_degree;
  PARPLAN_CHECK(micro_batch_size % data == 0);
  const double samples = static_cast<double>(micro_batch_size / data);
  const bool recompute = strategy.recompute_level == RecomputeLevel::kFull;
  const bool shards_parameters = strategy.sharding_level == ShardingLevel::kParameters && data > 1;
  const int64_t element = BytesPerElement(precision_);

  LayerCost cost;
  const Seconds forward = layer.Forward(tensor, samples);
  const Seconds backward = layer.Backward(tensor, samples);
  const Seconds again = recompute ? forward : Seconds();
  cost.time[TimeItemKind::kForwardCompute] = forward;
  cost.time[TimeItemKind::kBackwardCompute] = backward;
  cost.time[TimeItemKind::kRecompute] = again;

  // Tensor parallelism: exposed, since the next matrix waits for it.
  Seconds tensor_forward;
  Seconds tensor_backward;
  if (tensor > 1) {
    const double message = samples * definition.sequence_length * definition.hidden_size *
                           static_cast<double>(element);
    const GroupShape group{tensor, strategy.tensor_stride()};
    const Seconds half = strategy.sequence_parallel
                             ? (collectives_.Time(Collective::kAllGather, group, message) +
                                collectives_.Time(Collective::kReduceScatter, group, message)) *
                                   0.5
                             : collectives_.Time(Collective::kAllReduce, group, message) * 0.5;
    const TensorParallelTraffic traffic = TrafficOf(definition.kind, strategy.sequence_parallel);
    tensor_forward = half * traffic.forward_halves;
    tensor_backward = half * (traffic.backward_halves + (recompute ? traffic.forward_halves : 0));
  }
  cost.time[TimeItemKind::kTensorParallel] = tensor_forward + tensor_backward;

  // Data parallelism: gradients are made equal once a step, parameters that
  // are sharded are gathered for every pass.
  const Bytes parameters = Bytes::Of(layer.ParameterCount(tensor) * element);
  Seconds shard_forward;
  Seconds shard_backward;
  if (data > 1) {
    const GroupShape group{data, strategy.data_stride()};
    const double message = parameters.as_double();
    const Seconds gather = collectives_.Time(Collective::kAllGather, group, message);
    const Seconds scatter = collectives_.Time(Collective::kReduceScatter, group, message);
    const Seconds busy_backward = backward + again;
    if (shards_parameters) {
      shard_forward = OverlappedTime(forward, gather, overlap_slowdown_) - forward;
      shard_backward =
          OverlappedTime(busy_backward, gather + scatter, overlap_slowdown_) - busy_backward;
    } else if (strategy.sharding_level == ShardingLevel::kGradients) {
      // Gradients are kept in parts, so every micro-batch scatters its own; the
      // parameters are gathered once, after the optimizer's step.
      shard_backward = OverlappedTime(busy_backward, scatter, overlap_slowdown_) - busy_backward;
      cost.gradient_sync = gather;
    } else {
      const Seconds exchange = strategy.sharding_level == ShardingLevel::kNone
                                   ? collectives_.Time(Collective::kAllReduce, group, message)
                                   : gather + scatter;
      cost.gradient_sync =
          OverlappedTime(busy_backward, exchange, overlap_slowdown_) - busy_backward;
    }
  }
  cost.time[TimeItemKind::kShardedDataParallel] = shard_forward + shard_backward;
  cost.forward = forward + tensor_forward + shard_forward;
  cost.backward = backward + again + tensor_backward + shard_backward;

  // Model states.
  const Bytes optimizer =
      Bytes::Of(layer.ParameterCount(tensor) * OptimizerBytesPerParameter(precision_, optimizer_));
  const ShardingLevel level = strategy.sharding_level;
  cost.parameters = shards_parameters ? SharedOver(parameters, data) : parameters;
  cost.gradients = level >= ShardingLevel::kGradients ? SharedOver(parameters, data) : parameters;
  cost.optimizer_states =
      level >= ShardingLevel::kOptimizer ? SharedOver(optimizer, data) : optimizer;

  // Activations.
  const int64_t whole_samples = micro_batch_size / data;
  const Bytes activations = layer.ActivationPerSample(tensor) * whole_samples;
  if (recompute) {
    cost.kept_per_micro_batch =
        std::min(activations, layer.CheckpointPerSample(tensor) * whole_samples);
    cost.transient = activations - cost.kept_per_micro_batch;
  } else {
    cost.kept_per_micro_batch = activations;
  }
  // While a sharded layer runs backward its parameters are whole, those of the
  // next one are being fetched, and its gradient is whole until scattered.
  if (shards_parameters) cost.transient += parameters * 3;
  return cost;
}

Seconds CostModel::TransitionTime(int definition_index, const Strategy& from, const Strategy& to,
                                  int64_t micro_batch_size) const {
  const bool same_layout = from.tensor_parallel_degree == to.tensor_parallel_degree &&
                           from.data_parallel_degree == to.data_parallel_degree &&
                           from.rank_order == to.rank_order;
  if (same_layout) return Seconds();
  const LayerDefinition& definition = layers_[definition_index].definition();
  // All ranks of a tensor-parallel group need the activations of its samples,
  // of which each holds a part.
  const auto gather = [&](const Strategy& strategy) {
    const double samples = static_cast<double>(micro_batch_size / strategy.data_parallel_degree);
    const double message = samples * definition.sequence_length * definition.hidden_size *
                           static_cast<double>(BytesPerElement(precision_));
    return collectives_.Time(Collective::kAllGather,
                             {strategy.tensor_parallel_degree, strategy.tensor_stride()}, message);
  };
  // Widening the group gathers activations in the forward pass, narrowing it
  // gathers their gradients in the backward pass; the other way ranks keep a
  // slice. Equal degrees on other ranks gather both ways.
  if (from.tensor_parallel_degree < to.tensor_parallel_degree) return gather(to);
  if (from.tensor_parallel_degree > to.tensor_parallel_degree) return gather(from);
  return gather(from) + gather(to);
}

Seconds CostModel::SendTime(int definition_index, const Strategy& strategy, int rank_count,
                            int64_t micro_batch_size) const {
  const LayerDefinition& definition = layers_[definition_index].definition();
  double message = static_cast<double>(micro_batch_size / strategy.data_parallel_degree) *
                   definition.sequence_length * definition.hidden_size *
                   static_cast<double>(BytesPerElement(precision_));
  if (strategy.sequence_parallel) message /= strategy.tensor_parallel_degree;
  return collectives_.Time(Collective::kSendReceive, {2, rank_count}, message);
}

}  // namespace parplan
