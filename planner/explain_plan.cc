#include "planner/explain_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/status_macros.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/cost/predict_plan.h"

namespace parplan {
namespace {

constexpr absl::string_view kTimeItemNames[kTimeItemKindCount] = {"forward",
                                                                  "backward",
                                                                  "recompute",
                                                                  "tensor parallel",
                                                                  "sharded data parallel",
                                                                  "resharding",
                                                                  "launching kernels",
                                                                  "context parallel",
                                                                  "expert parallel"};

// Returns the difference of two sums of a step; 0 if rounding explains it.
Seconds Rest(Seconds whole, Seconds part) {
  // Relative; sums of some hundred terms differ by less.
  constexpr double kRounding = 1e-12;
  return whole - part > whole * kRounding ? whole - part : Seconds();
}

// Returns the time a stage works in one step.
Seconds BusyTime(const StagePrediction& stage, double micro_batch_count) {
  return (stage.forward + stage.backward) * micro_batch_count + stage.gradient_sync +
         stage.optimizer_step;
}

StepTerms StepTermsOf(const CostModel& costs, const Plan& plan, const Prediction& prediction,
                      std::vector<StageTimes> times) {
  const auto micro_batch_count = static_cast<double>(plan.micro_batch_count);
  StepTerms terms;
  for (size_t i = 1; i < prediction.stages.size(); ++i) {
    if (BusyTime(prediction.stages[i], micro_batch_count) >
        BusyTime(prediction.stages[static_cast<size_t>(terms.stage_index)], micro_batch_count)) {
      terms.stage_index = static_cast<int>(i);
    }
  }
  const StagePrediction& busiest = prediction.stages[static_cast<size_t>(terms.stage_index)];
  for (int kind = 0; kind < kTimeItemKindCount; ++kind) {
    terms.busy.duration[kind] = busiest.time.duration[kind] * micro_batch_count;
  }
  terms.overhead = costs.step_overhead();

  // The same step with fewer and fewer terms other than computation.
  const PipelineRules rules = {.schedule = plan.schedule,
                               .virtual_stage_count = plan.virtual_stage_count,
                               .micro_batch_group_size = plan.micro_batch_group_size,
                               .blocking_messages = costs.runtime().blocking_pipeline_messages,
                               .serial_messages = costs.runtime().serial_pipeline_messages};
  const auto step = [&] { return StepTime(rules, times, plan.micro_batch_count); };
  const size_t depth = prediction.stages.size();
  for (size_t i = 0; i < times.size(); ++i) {
    const StagePrediction& device = prediction.stages[i % depth];
    const Seconds both = device.gradient_sync + device.optimizer_step;
    if (both > Seconds())
      times[i].gradient_sync = times[i].gradient_sync * (device.gradient_sync / both);
  }
  const Seconds without_optimizer = step();
  for (StageTimes& stage : times) stage.gradient_sync = Seconds();
  const Seconds without_sync = step();
  for (StageTimes& stage : times) stage.send = Seconds();
  const Seconds without_messages = step();
  terms.optimizer_step = Rest(prediction.step - terms.overhead, without_optimizer);
  terms.gradient_sync = Rest(without_optimizer, without_sync);
  terms.messages = Rest(without_sync, without_messages);
  terms.bubble = Rest(without_messages, terms.busy.Total());
  return terms;
}

MemoryTerms MemoryTermsOf(const PlanEvaluator& evaluator, const Prediction& prediction) {
  MemoryTerms terms;
  terms.upper = evaluator.peak_memory_upper(0);
  for (int device = 1; device < static_cast<int>(prediction.stages.size()); ++device) {
    const Bytes upper = evaluator.peak_memory_upper(device);
    if (upper > terms.upper) {
      terms.upper = upper;
      terms.stage_index = device;
    }
  }
  terms.items = prediction.stages[static_cast<size_t>(terms.stage_index)].memory;
  terms.left = prediction.usable_memory - terms.upper;
  terms.binds = terms.left.as_double() < kBindingShare * prediction.usable_memory.as_double();
  return terms;
}

double TimeOfSample(const Prediction& prediction, const Plan& plan) {
  return prediction.step.value() / static_cast<double>(plan.global_batch_size);
}

bool LeavesNode(const CollectivePoint& point, int devices_per_node) {
  return (point.participant_count - 1) * point.rank_stride + 1 > devices_per_node;
}

// Multiplies the bandwidth of the points that use links of one kind by `factor`.
void WidenLinks(std::vector<CollectivePoint>& points, bool between_nodes, int devices_per_node,
                double factor) {
  // Points of one curve are adjacent.
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    Seconds latency = Seconds::Infinite();
    while (end < points.size() && points[end].collective == points[begin].collective &&
           points[end].participant_count == points[begin].participant_count &&
           points[end].rank_stride == points[begin].rank_stride) {
      latency = std::min(latency, points[end].duration);
      ++end;
    }
    if (end - begin == 1) latency = Seconds();
    if (LeavesNode(points[begin], devices_per_node) == between_nodes) {
      for (size_t i = begin; i < end; ++i) {
        points[i].duration = latency + (points[i].duration - latency) * (1.0 / factor);
      }
    }
    begin = end;
  }
}

void WidenLink(LinkDescription& link, double factor) {
  link.bytes_per_second_per_device *= factor;
  link.bytes_per_second_per_node *= factor;
}

void SpeedUp(std::vector<MeasuredLayer>& layers, double factor) {
  for (MeasuredLayer& layer : layers) {
    for (LayerTimingPoint& point : layer.timings) {
      point.forward = point.forward * (1.0 / factor);
      if (point.backward.has_value()) point.backward = *point.backward * (1.0 / factor);
    }
  }
}

void SpeedUp(DeviceDescription& device, double factor) {
  device.matrix_flops_16_bit *= factor;
  device.matrix_flops_fp32 *= factor;
  device.matrix_flops_8_bit *= factor;
  device.matrix_flops_4_bit *= factor;
  device.vector_flops_fp32 *= factor;
  device.memory_bytes_per_second *= factor;
  // The share of the peak clock that its power sustains stays.
  device.power_limit_watts *= factor;
}

// Returns the problem with other measurements and data sheets.
PlanningProblem WithKnowledge(const PlanningProblem& problem, std::vector<GroupKnowledge> groups) {
  Knowledge knowledge;
  knowledge.groups = std::move(groups);
  knowledge.calibration = std::make_shared<const Calibration>(problem.calibration());
  absl::StatusOr<PlanningProblem> changed =
      PlanningProblem::Create(std::make_shared<const ModelSpec>(problem.model()),
                              std::make_shared<const Topology>(problem.topology()),
                              std::move(knowledge), problem.global_batch_size(), problem.rules());
  PARPLAN_CHECK(changed.ok());
  return changed->WithUsableMemory(problem.usable_memory());
}

}  // namespace

PlanTerms TermsOf(const PlanningProblem& problem, const CostModel& costs, const Plan& plan) {
  PlanEvaluator evaluator(problem, costs);
  PlanTerms terms;
  terms.plan = plan;
  terms.prediction = evaluator.Predict(plan);
  terms.step = StepTermsOf(costs, plan, terms.prediction,
                           {evaluator.stage_times().begin(), evaluator.stage_times().end()});
  terms.memory = MemoryTermsOf(evaluator, terms.prediction);
  return terms;
}

PlanExplanation Explain(PlanTerms plan, PlanTerms rival) {
  PlanExplanation explanation;
  explanation.time_ratio =
      TimeOfSample(rival.prediction, rival.plan) / TimeOfSample(plan.prediction, plan.plan);
  const double samples = static_cast<double>(plan.plan.global_batch_size) /
                         static_cast<double>(rival.plan.global_batch_size);
  const auto add = [&](absl::string_view name, Seconds of_plan, Seconds of_rival) {
    if (of_plan == Seconds() && of_rival == Seconds()) return;
    explanation.differences.push_back({name, of_plan, of_rival * samples});
  };
  for (int kind = 0; kind < kTimeItemKindCount; ++kind) {
    add(kTimeItemNames[kind], plan.step.busy.duration[kind], rival.step.busy.duration[kind]);
  }
  add("waiting for other stages", plan.step.bubble, rival.step.bubble);
  add("messages between stages", plan.step.messages, rival.step.messages);
  add("gradient synchronisation", plan.step.gradient_sync, rival.step.gradient_sync);
  add("optimizer step", plan.step.optimizer_step, rival.step.optimizer_step);
  add("host time outside the layers", plan.step.overhead, rival.step.overhead);
  const auto size = [](const PlanExplanation::Difference& difference) {
    return std::max(difference.plan, difference.rival) -
           std::min(difference.plan, difference.rival);
  };
  std::stable_sort(explanation.differences.begin(), explanation.differences.end(),
                   [&size](const auto& a, const auto& b) { return size(a) > size(b); });
  explanation.plan = std::move(plan);
  explanation.rival = std::move(rival);
  return explanation;
}

absl::string_view ResourceName(Resource resource) {
  switch (resource) {
    case Resource::kMemory:
      return "memory";
    case Resource::kIntraNodeBandwidth:
      return "bandwidth inside nodes";
    case Resource::kInterNodeBandwidth:
      return "bandwidth between nodes";
    case Resource::kDevices:
      return "speed of devices";
  }
  return "";
}

bool HasResource(const PlanningProblem& problem, Resource resource) {
  const std::vector<NodeGroup>& groups = problem.topology().node_groups();
  if (resource == Resource::kIntraNodeBandwidth) {
    return std::any_of(groups.begin(), groups.end(),
                       [](const NodeGroup& group) { return group.devices_per_node > 1; });
  }
  if (resource == Resource::kInterNodeBandwidth) {
    return groups.size() > 1 || groups.front().node_count > 1;
  }
  return true;
}

namespace {

// Returns what is known of a group if it has `factor` times as much of a resource but memory.
GroupKnowledge GroupWithMore(const PlanningProblem& problem, GroupIndex group, Resource resource,
                             double factor) {
  const ProfileSnapshot& profile = problem.profile(group);
  ProfileSnapshot::Content content = {.digest = profile.digest(),
                                      .device_kind = profile.device_kind(),
                                      .devices_per_node = profile.devices_per_node(),
                                      .layers = profile.layers(),
                                      .collectives = profile.collectives(),
                                      .optimizers = profile.optimizers(),
                                      .overlap_slowdown = profile.overlap_slowdown(),
                                      .context_memory = profile.context_memory(),
                                      .communicator_memory = profile.communicator_memory()};
  std::optional<Hardware> hardware;
  if (problem.hardware(group) != nullptr) hardware = *problem.hardware(group);
  if (resource == Resource::kDevices) {
    SpeedUp(content.layers, factor);
    for (OptimizerPoint& point : content.optimizers) {
      point.duration = point.duration * (1.0 / factor);
    }
    if (hardware.has_value()) SpeedUp(hardware->device, factor);
  } else {
    const bool between_nodes = resource == Resource::kInterNodeBandwidth;
    WidenLinks(content.collectives, between_nodes, problem.node_group(group).devices_per_node,
               factor);
    if (hardware.has_value()) {
      FabricDescription& fabric = hardware->fabric;
      WidenLink(between_nodes ? fabric.inter_node : fabric.intra_node, factor);
    }
  }
  absl::StatusOr<ProfileSnapshot> snapshot = ProfileSnapshot::Create(std::move(content));
  PARPLAN_CHECK(snapshot.ok());
  GroupKnowledge more;
  more.profile = std::make_shared<const ProfileSnapshot>(*std::move(snapshot));
  if (hardware.has_value()) more.hardware = std::make_shared<const Hardware>(*std::move(hardware));
  return more;
}

}  // namespace

PlanningProblem WithMore(const PlanningProblem& problem, Resource resource, double factor) {
  PARPLAN_CHECK(factor >= 1.0);
  if (resource == Resource::kMemory) {
    return problem.WithUsableMemory(
        Bytes::Of(static_cast<int64_t>(problem.usable_memory().as_double() * factor)));
  }
  std::vector<GroupKnowledge> groups;
  for (int i = 0; i < problem.group_count(); ++i) {
    groups.push_back(GroupWithMore(problem, GroupIndex(i), resource, factor));
  }
  return WithKnowledge(problem, std::move(groups));
}

absl::StatusOr<std::vector<Sensitivity>> Sensitivities(const PlanningProblem& problem,
                                                       const Plan& plan, double factor,
                                                       const PlannerOfProblem& planner) {
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  const double before = TimeOfSample(PredictPlan(problem, costs, plan), plan);
  std::vector<Sensitivity> sensitivities;
  for (int i = 0; i < kResourceCount; ++i) {
    const auto resource = static_cast<Resource>(i);
    if (!HasResource(problem, resource)) continue;
    const PlanningProblem more = WithMore(problem, resource, factor);
    PARPLAN_ASSIGN_OR_RETURN(const CostModel costs_of_more, CostModel::Create(more));
    Sensitivity sensitivity;
    sensitivity.resource = resource;
    sensitivity.factor = factor;
    const Prediction kept = PredictPlan(more, costs_of_more, plan);
    sensitivity.kept_step = kept.step;
    double after = TimeOfSample(kept, plan);
    PARPLAN_ASSIGN_OR_RETURN(PlanningResult result, planner(more));
    if (auto* found = std::get_if<PlanFound>(&result)) {
      sensitivity.plan_changes = !(found->plan == plan);
      after = std::min(after, TimeOfSample(found->prediction, found->plan));
      sensitivity.best = PredictedPlan{std::move(found->plan), std::move(found->prediction)};
    }
    sensitivity.gain = std::max(0.0, 1.0 - after / before);
    sensitivities.push_back(std::move(sensitivity));
  }
  return sensitivities;
}

}  // namespace parplan
