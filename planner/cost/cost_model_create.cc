// Creation of a cost model: the source of each number.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/problem_needs.h"
#include "planner/model/cluster_range.h"

namespace parplan {

namespace {

// Returns the collectives of `profile` and, for each shape of an all-reduce that has no all-to-all,
// half of the all-reduce as one: links carry as much in an all-to-all as in an all-gather, and an
// all-reduce takes as long as two of these.
ProfileSnapshot WithAllToAlls(const ProfileSnapshot& profile) {
  ProfileSnapshot::Content content = {.digest = profile.digest(),
                                      .device_kind = profile.device_kind(),
                                      .devices_per_node = profile.devices_per_node(),
                                      .collectives = profile.collectives()};
  std::set<GroupShape> measured;
  for (const CollectivePoint& point : profile.collectives()) {
    if (point.collective == Collective::kAllToAll) {
      measured.insert({point.participant_count, point.rank_stride});
    }
  }
  for (CollectivePoint point : profile.collectives()) {
    if (point.collective != Collective::kAllReduce ||
        measured.contains({point.participant_count, point.rank_stride})) {
      continue;
    }
    point.collective = Collective::kAllToAll;
    point.duration = point.duration * 0.5;
    content.collectives.push_back(point);
  }
  absl::StatusOr<ProfileSnapshot> made = ProfileSnapshot::Create(std::move(content));
  PARPLAN_CHECK(made.ok());
  return *std::move(made);
}

absl::Status MissingError(const std::vector<std::string>& missing, const PlanningProblem& problem) {
  std::map<std::string, std::string> metadata = {{"count", absl::StrCat(missing.size())}};
  // More would not be read, and details of an error have 8 KiB in the metadata of a call.
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
          : problem.has_hardware()
              ? ". Measure them, or set allow_estimates to fill them from the nearest ones "
                "and from the data sheet of the device"
              : ". Measure them, or set allow_estimates to fill them from the nearest ones"),
      metadata);
}

// Largest sum of memory, in bytes, that cannot overflow in any plan: a quarter of the range of
// `Bytes` leaves room for the factors of upper bounds.
constexpr double kLargestTotalBytes = 0x1p61;

// Returns more bytes than any plan can hold or move: every layer whole, with all samples of the
// step at once. Doubles do not overflow.
double WorstTotalBytes(const PlanningProblem& problem, const GroupCosts& group,
                       const std::vector<int>& degrees) {
  constexpr double kBytesPerParameter = 32.0;
  double total = 0.0;
  for (const ModelLayerRun& run : problem.model().layer_runs()) {
    double worst = 0.0;
    for (const int degree : degrees) {
      const LayerDefinition& definition = problem.model().layer_definitions()[run.definition_index];
      if (definition.kind == LayerKind::kOpaque && !SplitsOverTensorRanks(definition, degree)) {
        continue;
      }
      Strategy strategy;
      strategy.tensor_parallel_degree = degree;
      const LayerFootprint layer = group.layer_source(run.definition_index)
                                       .Footprint(strategy, /*pipeline_parallel_degree=*/2);
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

// Middle of the 1.1 to 1.3 that Galvatron 2's documentation calls usual (docs/papers.md 1.6).
constexpr double kDefaultOverlapSlowdown = 1.2;
constexpr int64_t kDefaultContextBytes = int64_t{1} << 30;

// Returns a range that covers both. The basis names both classes.
RangeFactors Covering(const RangeFactors& a, const RangeFactors& b) {
  RangeFactors both = a;
  both.lower = std::min(a.lower, b.lower);
  both.median = std::max(a.median, b.median);
  both.upper = std::max(a.upper, b.upper);
  both.residual_count = std::min(a.residual_count, b.residual_count);
  if (a.basis != b.basis) both.basis = absl::StrCat(a.basis, "; ", b.basis);
  return both;
}

// Returns how many times slower computation and communication run while they overlap. A number that
// was not measured is added to `notes` if the plans of the problem can overlap them at all.
double OverlapSlowdown(const ProfileSnapshot& profile, std::optional<double> estimate,
                       bool allow_estimates, bool has_overlap, ResolutionNotes& notes) {
  if (profile.overlap_slowdown().has_value()) return *profile.overlap_slowdown();
  const double slowdown = estimate.value_or(kDefaultOverlapSlowdown);
  if (has_overlap) {
    if (!allow_estimates) notes.missing.push_back("overlap_slowdown");
    notes.estimated.push_back(absl::StrCat("overlap_slowdown taken as ", slowdown));
  }
  return slowdown;
}

// Finds the measurements of groups of hybrid sharding. There may be hundreds without, so these are
// one item of the plans that have such groups; without any measurement the items of other groups
// say it.
void ResolveHybridGroups(const std::set<GroupShape>& groups, const ProfileSnapshot& profile,
                         CollectiveCosts& collectives, ResolutionNotes& notes) {
  if (groups.empty() || profile.collectives().empty()) return;
  ResolutionNotes of_groups;
  for (const Collective collective :
       {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce}) {
    collectives.Resolve(collective, groups, of_groups);
  }
  notes.estimates_hybrid_groups = !of_groups.estimated.empty();
}

}  // namespace

void GroupCosts::ResolveOverheads(const ProfileSnapshot& profile, bool allow_estimates,
                                  ResolutionNotes& notes) {
  const bool from_data_sheet = device_.has_value() && allow_estimates;
  // A measured context contains everything a process holds before its first tensor, except
  // communicators where the profile has their memory apart.
  memory_coefficients_ = coefficients_;
  if (profile.context_memory().has_value() || !from_data_sheet) {
    memory_coefficients_[Coefficient::kContextMemory] = static_cast<double>(kDefaultContextBytes);
    memory_coefficients_[Coefficient::kCommunicatorMemory] = 0.0;
    memory_coefficients_[Coefficient::kWorkspaceMemory] = 0.0;
    memory_coefficients_[Coefficient::kFragmentation] = 0.0;
  }
  if (profile.context_memory().has_value()) {
    memory_coefficients_[Coefficient::kContextMemory] = profile.context_memory()->as_double();
    memory_coefficients_[Coefficient::kCommunicatorMemory] =
        profile.communicator_memory().value_or(Bytes()).as_double();
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

void GroupCosts::ResolveOptimizer(const ProfileSnapshot& profile) {
  std::vector<SizeCurve::Point> points;
  for (const OptimizerPoint& point : profile.optimizers()) {
    if (point.optimizer != optimizer_ || point.precision != precision_) continue;
    points.push_back({static_cast<double>(point.parameter_count), point.duration});
  }
  if (!points.empty()) optimizer_time_.emplace(std::move(points));
}

void GroupCosts::ResolveRanges(const PlanningProblem& problem, Confidence confidence) {
  const Calibration& calibration = problem.calibration();
  ResidualKey key;
  key.confidence = confidence;
  if (device_.has_value()) key.device_family = device_->device_family;
  key.quantity = ResidualQuantity::kPeakMemory;
  overheads_.upper_factor = calibration.UpperFactor(key, problem.rules().out_of_memory_risk);
  overheads_.lower_factor = std::min(1.0, calibration.Range(key).lower);
  key.quantity = ResidualQuantity::kStepDuration;
  key.tensor_parallel_reach = TensorParallelReach::kWithinNode;
  step_within_node_ = StepRangeOn(calibration, problem.topology().cluster(), key);
  key.tensor_parallel_reach = TensorParallelReach::kAcrossNodes;
  step_across_nodes_ = StepRangeOn(calibration, problem.topology().cluster(), key);
}

GroupCosts::GroupCosts(const PlanningProblem& problem, GroupIndex group, const ProblemNeeds& needs,
                       ResolutionNotes& notes)
    : precision_(problem.model().precision()),
      optimizer_(problem.model().optimizer()),
      runtime_(problem.rules().runtime),
      devices_per_node_(problem.node_group(group).devices_per_node) {
  const ModelSpec& model = problem.model();
  const ProfileSnapshot& profile = problem.profile(group);
  const bool allow_estimates = problem.rules().allow_estimates;
  std::optional<FabricTime> fabric;
  std::string family;
  const Hardware* const hardware = problem.hardware(group);
  if (hardware != nullptr) {
    family = hardware->device.device_family;
    device_ = hardware->device;
  }
  coefficients_ = problem.calibration().Resolve(family, problem.topology().cluster());
  if (hardware != nullptr) fabric.emplace(hardware->fabric, coefficients_, devices_per_node_);

  const LayerNeeds layer_needs = {
      .tensor_parallel_degrees = needs.tensor_parallel_degrees,
      .allow_estimates = allow_estimates,
      .sequence_parallel = allow_estimates && runtime_.sequence_parallel};
  for (const LayerDefinition& definition : model.layer_definitions()) {
    layers_.push_back(LayerSource::Resolve(problem, group, definition, layer_needs, notes));
  }

  // Only changes of layout take all-to-alls from a profile.
  std::optional<ProfileSnapshot> completed;
  if (runtime_.exchanges_layouts && !profile.collectives().empty()) {
    completed = WithAllToAlls(profile);
  }
  CollectiveCosts collectives(completed.has_value() ? *completed : profile, devices_per_node_,
                              fabric, allow_estimates);
  std::set<GroupShape> shapes = needs.tensor_groups;
  shapes.insert(needs.data_groups.begin(), needs.data_groups.end());
  const GroupShape everyone{problem.device_count(), 1};
  for (const Collective collective :
       {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce}) {
    std::set<GroupShape> needed = shapes;
    if (runtime_.sums_loss && collective == Collective::kAllReduce && problem.device_count() > 1) {
      needed.insert(everyone);
    }
    collectives.Resolve(collective, needed, notes);
  }
  ResolveHybridGroups(needs.hybrid_groups, profile, collectives, notes);
  collectives.Resolve(Collective::kSendReceive, needs.pipeline_pairs, notes);
  if (runtime_.exchanges_layouts) {
    collectives.Resolve(Collective::kAllToAll, needs.stage_groups, notes);
  }
  if (runtime_.sums_loss && collectives.Knows(Collective::kAllReduce, everyone)) {
    loss_sum_ = collectives.Time(Collective::kAllReduce, everyone, kLossBytes);
  }
  const bool has_overlap = !needs.data_groups.empty() ||
                           (runtime_.tensor_parallel_overlap != TensorParallelOverlap::kNone &&
                            !needs.tensor_groups.empty());
  const std::optional<double> contention =
      device_.has_value() && allow_estimates
          ? std::optional<double>(coefficients_[Coefficient::kContention])
          : std::nullopt;
  const double slowdown = OverlapSlowdown(profile, contention, allow_estimates, has_overlap, notes);
  traffic_ = LayerTraffic(problem, group, std::move(collectives), slowdown,
                          coefficients_[Coefficient::kExpertImbalance]);
  ResolveOptimizer(profile);
  ResolveOverheads(profile, allow_estimates, notes);
}

absl::StatusOr<CostModel> CostModel::Create(const PlanningProblem& problem) {
  const ProblemNeeds needs = NeedsOf(problem);
  ResolutionNotes notes;

  CostModel costs;
  costs.runtime_ = problem.rules().runtime;
  for (int i = 0; i < problem.group_count(); ++i) {
    const GroupIndex group(i);
    ResolutionNotes group_notes;
    costs.groups_.push_back(GroupCosts(problem, group, needs, group_notes));
    const std::string prefix = problem.group_count() == 1
                                   ? ""
                                   : absl::StrCat(problem.node_group(group).node_group_id, ": ");
    for (const std::string& item : group_notes.missing) notes.missing.push_back(prefix + item);
    for (const std::string& item : group_notes.estimated) notes.estimated.push_back(prefix + item);
    costs.estimates_hybrid_groups_ |= group_notes.estimates_hybrid_groups;
  }
  if (!notes.missing.empty()) return MissingError(notes.missing, problem);
  for (const GroupCosts& group : costs.groups_) {
    if (WorstTotalBytes(problem, group, needs.tensor_parallel_degrees) +
            group.overheads_.context.as_double() >
        kLargestTotalBytes) {
      return FieldError(Reason::kSpecInvalid, "global_batch_size",
                        "activations of all layers and samples together are beyond 2^61 bytes; use "
                        "a smaller batch or model, or look for a wrong size in the profile");
    }
  }
  std::sort(notes.estimated.begin(), notes.estimated.end());
  costs.estimated_items_ = std::move(notes.estimated);
  const bool any_measured =
      std::any_of(costs.groups_.begin(), costs.groups_.end(), [](const GroupCosts& group) {
        return std::any_of(group.layers_.begin(), group.layers_.end(),
                           [](const LayerSource& layer) { return layer.measured(); });
      });
  costs.confidence_ = !any_measured                    ? Confidence::kEstimated
                      : costs.estimated_items_.empty() ? Confidence::kMeasured
                                                       : Confidence::kMixed;
  for (GroupCosts& group : costs.groups_) {
    group.ResolveRanges(problem, costs.confidence_);
    const bool is_first = &group == &costs.groups_.front();
    costs.step_overhead_ = std::max(costs.step_overhead_, group.step_overhead_ + group.loss_sum_);
    costs.step_within_node_ = is_first ? group.step_within_node_
                                       : Covering(costs.step_within_node_, group.step_within_node_);
    costs.step_across_nodes_ = is_first
                                   ? group.step_across_nodes_
                                   : Covering(costs.step_across_nodes_, group.step_across_nodes_);
  }
  return costs;
}

}  // namespace parplan
