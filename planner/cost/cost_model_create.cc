// Creation of a cost model: the needs of a problem, and the source of each number.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "planner/cost/cost_model.h"

namespace parplan {
namespace {

std::vector<int> Divisors(int value) {
  std::vector<int> divisors;
  for (int i = 1; i <= value; ++i) {
    if (value % i == 0) divisors.push_back(i);
  }
  return divisors;
}

// The measurements that strategies of a problem can need.
struct ProblemNeeds {
  std::vector<int> tensor_parallel_degrees;
  std::set<GroupShape> tensor_groups;
  std::set<GroupShape> data_groups;
  std::set<GroupShape> pipeline_pairs;
};

// Returns whether the heads of some transformer layer can be split `degree` times.
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
  const bool shares_tokens = problem.hardware() != nullptr && problem.rules().allow_estimates;
  std::set<int> degrees = {1};
  for (int depth : Divisors(problem.device_count())) {
    if (depth > problem.max_pipeline_parallel_degree()) break;
    const int ranks = problem.device_count() / depth;
    if (depth > 1) needs.pipeline_pairs.insert({2, ranks});
    for (int tensor : Divisors(ranks)) {
      if (tensor > problem.max_tensor_parallel_degree()) break;
      if (tensor > 1 && !SplitsSomeLayer(problem.model(), tensor)) continue;
      const int data = ranks / tensor;
      // If there are more ranks than samples they must share tokens, which only data sheets price.
      if (data > problem.global_batch_size() && !shares_tokens) continue;
      degrees.insert(tensor);
      if (data > problem.global_batch_size()) continue;
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

absl::Status MissingError(const std::vector<std::string>& missing, const PlanningProblem& problem) {
  std::map<std::string, std::string> metadata = {{"count", absl::StrCat(missing.size())}};
  constexpr size_t kMaxListed = 100;
  for (size_t i = 0; i < std::min(missing.size(), kMaxListed); ++i) {
    metadata[absl::StrCat("missing", i)] = missing[i];
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing,
      absl::StrCat(
          "the profile lacks ", missing.size(), " measurement(s): ", absl::StrJoin(missing, "; "),
          problem.rules().allow_estimates
              ? ". There is nothing similar to estimate them from, and the device is in no "
                "library: measure them"
          : problem.hardware() != nullptr
              ? ". Measure them, or set allow_estimates to fill them from the nearest ones "
                "and from the data sheet of the device"
              : ". Measure them, or set allow_estimates to fill them from the nearest ones"),
      std::move(metadata));
}

// Largest sum of memory, in bytes, that cannot overflow in any plan: a quarter of the range of
// `Bytes` leaves room for the factors of upper bounds.
constexpr double kLargestTotalBytes = 0x1p61;

// Returns more bytes than any plan can hold or move: every layer whole, with all samples of the
// step at once. Doubles do not overflow.
double WorstTotalBytes(const PlanningProblem& problem, const std::vector<LayerSource>& layers,
                       const std::vector<int>& degrees) {
  constexpr double kBytesPerParameter = 32.0;
  double total = 0.0;
  for (const ModelLayerRun& run : problem.model().layer_runs()) {
    double worst = 0.0;
    for (const int degree : degrees) {
      Strategy strategy;
      strategy.tensor_parallel_degree = degree;
      const LayerFootprint layer =
          layers[run.definition_index].Footprint(strategy, /*pipeline_parallel_degree=*/2);
      const double parameters =
          static_cast<double>(layer.parameter_count + layer.expert_parameter_count);
      const double per_sample = layer.activations.Kept(RecomputeLevel::kNone) +
                                layer.activations.backward + layer.activations.logits;
      worst = std::max(worst, parameters * kBytesPerParameter +
                                  per_sample * static_cast<double>(problem.global_batch_size()));
    }
    total += worst * run.layer_count;
  }
  return total;
}

constexpr double kDefaultOverlapSlowdown = 1.2;  // middle of the 1.1 to 1.3 published
constexpr int64_t kDefaultContextBytes = int64_t{1} << 30;

}  // namespace

void CostModel::ResolveOverheads(const PlanningProblem& problem, bool has_overlap,
                                 ResolutionNotes& notes) {
  const ProfileSnapshot& profile = problem.profile();
  const bool allow_estimates = problem.rules().allow_estimates;
  const bool from_data_sheet = device_.has_value() && allow_estimates;
  if (profile.overlap_slowdown().has_value()) {
    overlap_slowdown_ = *profile.overlap_slowdown();
  } else {
    overlap_slowdown_ =
        from_data_sheet ? coefficients_[Coefficient::kContention] : kDefaultOverlapSlowdown;
  }
  if (!profile.overlap_slowdown().has_value() && has_overlap) {
    if (!allow_estimates) notes.missing.push_back("overlap_slowdown");
    notes.estimated.push_back(absl::StrCat("overlap_slowdown taken as ", overlap_slowdown_));
  }

  // A measured context contains everything a process holds before its first tensor.
  memory_coefficients_ = coefficients_;
  if (profile.context_memory().has_value() || !from_data_sheet) {
    memory_coefficients_[Coefficient::kContextMemory] = static_cast<double>(kDefaultContextBytes);
    memory_coefficients_[Coefficient::kCommunicatorMemory] = 0.0;
    memory_coefficients_[Coefficient::kWorkspaceMemory] = 0.0;
    memory_coefficients_[Coefficient::kFragmentation] = 0.0;
  }
  if (profile.context_memory().has_value()) {
    memory_coefficients_[Coefficient::kContextMemory] = profile.context_memory()->as_double();
  } else if (from_data_sheet) {
    notes.estimated.push_back("context, communicators, workspace and fragmentation: typical sizes");
  } else {
    if (!allow_estimates) notes.missing.push_back("context_memory_bytes");
    notes.estimated.push_back("context_memory_bytes taken as 1 GiB");
  }
  overheads_.context = Bytes::Ceil(memory_coefficients_[Coefficient::kContextMemory]);
  overheads_.communicator = Bytes::Ceil(memory_coefficients_[Coefficient::kCommunicatorMemory]);
  overheads_.workspace = Bytes::Ceil(memory_coefficients_[Coefficient::kWorkspaceMemory]);
  overheads_.fragmentation = memory_coefficients_[Coefficient::kFragmentation];

  if (device_.has_value() && !optimizer_time_.has_value()) {
    notes.estimated.push_back("optimizer step: from the memory bandwidth of the data sheet");
  }
  if (from_data_sheet) {
    step_overhead_ = Seconds::Of(coefficients_[Coefficient::kStepOverhead]);
  }
}

void CostModel::ResolveOptimizer(const PlanningProblem& problem) {
  std::vector<SizeCurve::Point> points;
  for (const OptimizerPoint& point : problem.profile().optimizers()) {
    if (point.optimizer != optimizer_ || point.precision != precision_) continue;
    points.push_back({static_cast<double>(point.parameter_count), point.duration});
  }
  if (!points.empty()) optimizer_time_.emplace(std::move(points));
}

void CostModel::ResolveRanges(const PlanningProblem& problem) {
  const Calibration& calibration = problem.calibration();
  ResidualKey key;
  key.confidence = confidence_;
  if (device_.has_value()) key.device_family = device_->device_family;
  key.quantity = ResidualQuantity::kPeakMemory;
  overheads_.upper_factor = calibration.UpperFactor(key, problem.rules().out_of_memory_risk);
  overheads_.lower_factor = std::min(1.0, calibration.Range(key).lower);
  key.quantity = ResidualQuantity::kStepDuration;
  key.tensor_parallel_reach = TensorParallelReach::kWithinNode;
  step_within_node_ = calibration.Range(key);
  key.tensor_parallel_reach = TensorParallelReach::kAcrossNodes;
  step_across_nodes_ = calibration.Range(key);
}

absl::StatusOr<CostModel> CostModel::Create(const PlanningProblem& problem) {
  const ModelSpec& model = problem.model();
  const bool allow_estimates = problem.rules().allow_estimates;
  const ProblemNeeds needs = NeedsOf(problem);
  ResolutionNotes notes;

  CostModel costs;
  costs.precision_ = model.precision();
  costs.optimizer_ = model.optimizer();
  costs.runtime_ = problem.rules().runtime;
  costs.device_count_ = problem.device_count();
  costs.devices_per_node_ = problem.node_group().devices_per_node;
  if (const LayerDefinition& head = model.layer(model.layer_count() - 1); head.tied_embedding) {
    costs.tied_vocabulary_size_ = head.vocabulary_size;
  }
  std::optional<FabricTime> fabric;
  std::string family;
  if (const Hardware* const hardware = problem.hardware(); hardware != nullptr) {
    family = hardware->device.device_family;
    costs.device_ = hardware->device;
  }
  costs.coefficients_ = problem.calibration().Resolve(family, problem.topology().cluster());
  if (problem.hardware() != nullptr) {
    fabric.emplace(problem.hardware()->fabric, costs.coefficients_,
                   problem.node_group().devices_per_node);
  }

  const LayerNeeds layer_needs = {
      .tensor_parallel_degrees = needs.tensor_parallel_degrees,
      .allow_estimates = allow_estimates,
      .sequence_parallel = allow_estimates && costs.runtime_.sequence_parallel};
  for (const LayerDefinition& definition : model.layer_definitions()) {
    costs.layers_.push_back(LayerSource::Resolve(problem, definition, layer_needs, notes));
  }

  costs.collectives_ = CollectiveCosts(problem.profile(), problem.node_group().devices_per_node,
                                       fabric, allow_estimates);
  std::set<GroupShape> shapes = needs.tensor_groups;
  shapes.insert(needs.data_groups.begin(), needs.data_groups.end());
  for (const Collective collective :
       {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce}) {
    costs.collectives_.Resolve(collective, shapes, notes);
  }
  costs.collectives_.Resolve(Collective::kSendReceive, needs.pipeline_pairs, notes);
  const bool has_overlap = !needs.data_groups.empty() ||
                           (costs.runtime_.overlap_tensor_parallel && !needs.tensor_groups.empty());
  costs.ResolveOptimizer(problem);
  costs.ResolveOverheads(problem, has_overlap, notes);

  if (!notes.missing.empty()) return MissingError(notes.missing, problem);
  if (WorstTotalBytes(problem, costs.layers_, needs.tensor_parallel_degrees) +
          costs.overheads_.context.as_double() >
      kLargestTotalBytes) {
    return FieldError(Reason::kSpecInvalid, "global_batch_size",
                      "activations of all layers and samples together are beyond 2^61 bytes; use a "
                      "smaller batch or model, or look for a wrong size in the profile");
  }
  std::sort(notes.estimated.begin(), notes.estimated.end());
  costs.estimated_items_ = std::move(notes.estimated);
  const bool any_measured = std::any_of(costs.layers_.begin(), costs.layers_.end(),
                                        [](const LayerSource& layer) { return layer.measured(); });
  costs.confidence_ = !any_measured                    ? Confidence::kEstimated
                      : costs.estimated_items_.empty() ? Confidence::kMeasured
                                                       : Confidence::kMixed;
  costs.ResolveRanges(problem);
  return costs;
}

}  // namespace parplan
