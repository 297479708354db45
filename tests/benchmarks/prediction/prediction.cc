// Profiles this machine, predicts plans of a small model, runs them, and says how far off the
// predictions are.
//
//   prediction [a|b|shaped|overlap] [--details] [--plans TEXT] [--real-time] [--results FILE]
//
// With --plans only those whose name contains the text, or one of several separated by commas; with
// --details the profile and the parts of each prediction too. With --results also a JSON file of
// each plan's step, predicted with and without the slow-down of work that overlaps communication,
// and measured, which `parplan-study papers --runs` takes.
//
// Ranks are processes, each bound to a core. All plans run once, then all again, and so on: what
// else a machine does in a minute is then shared by all plans. On one with other work --real-time
// keeps that off the cores, at the price of 50 ms in every busy second, for which the kernel stops
// that class.

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/job_fabric.h"
#include "executor/device/ranks/rank_environment.h"
#include "executor/device/ranks/rank_processes.h"
#include "executor/layer_probe/time_spread.h"
#include "executor/trainer/rank_trainer.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "proto/wire/part_of_node.h"
#include "tests/benchmarks/prediction/measure_profile.h"
#include "tests/benchmarks/prediction/paced_device.h"
#include "tests/benchmarks/prediction/plan_sets.h"

namespace parplan {
namespace {

constexpr int kWarmUp = 2;
constexpr int kSteps = 7;
constexpr int kRounds = 3;

struct Outcome {
  std::string name;
  // Seconds.
  double predicted = 0.0;
  // The same with a slow-down of 1.
  double predicted_without_slowdown = 0.0;
  TimeSpread measured;
  // Half the width of the 95 % interval of the median.
  absl::Duration uncertainty;
  double Error() const { return predicted / absl::ToDoubleSeconds(measured.median) - 1.0; }
};

// How long each step of a plan takes that counts.
absl::StatusOr<std::vector<absl::Duration>> RunPlan(const Plan& plan, const PlanSet& set,
                                                    JobFabric& fabric, Communicator& control) {
  const std::unique_ptr<LayerKernels> kernels =
      PaceKernels(MakeCpuKernels(ElementType::kFloat32), set.pace);
  const ModelSpec& model = set.model;
  const std::unique_ptr<DeviceMemory> memory = MakeHostMemory();
  ArrayPool pool(*memory);
  const std::unique_ptr<TokenSource> tokens =
      MakeSyntheticTokens(model.layer(0).vocabulary_size, 7);
  PARPLAN_ASSIGN_OR_RETURN(const RankProgram program,
                           RankProgram::Create(plan, model, fabric.rank()));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<RankTrainer> trainer,
                           RankTrainer::Create(program, model,
                                               {.kernels = kernels.get(),
                                                .pool = &pool,
                                                .tokens = tokens.get(),
                                                .make_group = [&](const GroupSpec& group) {
                                                  return fabric.MakeGroup(group.purpose,
                                                                          group.ranks);
                                                }}));
  std::vector<absl::Duration> samples;
  PARPLAN_RETURN_IF_ERROR(control.Barrier());
  absl::Duration last;
  for (int step = 0; step < kWarmUp + kSteps; ++step) {
    PARPLAN_RETURN_IF_ERROR(trainer->Step().status());
    const absl::Duration now = SteadyNow();
    if (step >= kWarmUp) samples.push_back(now - last);
    last = now;
  }
  return samples;
}

absl::StatusOr<PlanningProblem> MakeProblem(const PlanSet& set, const v1::Profile& measured) {
  const v1::Profile* const profiles[] = {&measured};
  PARPLAN_ASSIGN_OR_RETURN(ProfileSnapshot profile,
                           SnapshotOfNodes(profiles, measured.device_kind(), set.devices_per_node,
                                           measured.runtime_id()));
  NodeGroup group{.node_group_id = "here",
                  .device_kind = measured.device_kind(),
                  .node_count = set.device_count / set.devices_per_node,
                  .devices_per_node = set.devices_per_node,
                  .device_memory = Bytes::Of(int64_t{8} << 30)};
  std::vector<LinkTier> tiers = {{"node", set.devices_per_node}};
  if (group.node_count > 1) tiers.push_back({"network", set.device_count});
  PARPLAN_ASSIGN_OR_RETURN(Topology topology, Topology::Create("here", {group}, tiers));
  PlanningRules rules;
  rules.max_tensor_parallel_degree = set.device_count;
  // Memory may be estimated, since it is not examined here.
  rules.allow_estimates = true;
  return PlanningProblem::Create(std::make_shared<const ModelSpec>(set.model),
                                 std::make_shared<const Topology>(std::move(topology)),
                                 {{{std::make_shared<const ProfileSnapshot>(std::move(profile))}}},
                                 set.global_batch_size, std::move(rules));
}

double MillisecondsOf(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) * 1e3 + duration.nanos() * 1e-6;
}

void PrintProfile(const v1::Profile& profile) {
  for (const v1::LayerTiming& timing : profile.layer_timings()) {
    std::printf("  %s on %d, %d samples: forward %.3f ms, backward %.3f ms, of %d\n",
                timing.layer_definition_id().c_str(), timing.tensor_parallel_degree(),
                timing.micro_batch_size(), MillisecondsOf(timing.forward_duration()),
                MillisecondsOf(timing.backward_duration()), timing.sample_count());
  }
  for (const v1::OptimizerTiming& timing : profile.optimizer_timings()) {
    std::printf("  optimizer, %lld parameters: %.3f ms\n",
                static_cast<long long>(timing.parameter_count()),
                MillisecondsOf(timing.median_duration()));
  }
  for (const v1::CollectiveTiming& timing : profile.collective_timings()) {
    std::printf("  %s of %d, stride %d, %lld bytes: %.4f ms\n",
                v1::Collective_Name(timing.collective()).c_str(), timing.participant_count(),
                timing.rank_stride(), static_cast<long long>(timing.message_size_bytes()),
                MillisecondsOf(timing.median_duration()));
  }
  for (const std::string& note : profile.provenance().notes()) std::printf("  %s\n", note.c_str());
}

void PrintItems(const Prediction& prediction) {
  for (const StagePrediction& stage : prediction.stages) {
    std::printf("    forward %.2f backward %.2f sync %.2f optimizer %.2f send %.2f;",
                stage.forward.milliseconds(), stage.backward.milliseconds(),
                stage.gradient_sync.milliseconds(), stage.optimizer_step.milliseconds(),
                stage.send.milliseconds());
    for (int kind = 0; kind < kTimeItemKindCount; ++kind) {
      std::printf(" %.2f", stage.time.duration[kind].milliseconds());
    }
    std::printf("\n");
  }
}

// Returns the correlation of two orders of plans, from -1 to 1 (Spearman).
double RankCorrelation(const std::vector<Outcome>& outcomes) {
  const auto ranks = [&](auto value) {
    std::vector<int> order(outcomes.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return value(outcomes[a]) < value(outcomes[b]); });
    std::vector<double> rank(outcomes.size());
    for (size_t k = 0; k < order.size(); ++k) rank[order[k]] = static_cast<double>(k);
    return rank;
  };
  const std::vector<double> a = ranks([](const Outcome& o) { return o.predicted; });
  const std::vector<double> b =
      ranks([](const Outcome& o) { return absl::ToDoubleSeconds(o.measured.median); });
  double squares = 0.0;
  for (size_t k = 0; k < a.size(); ++k) squares += (a[k] - b[k]) * (a[k] - b[k]);
  const auto n = static_cast<double>(a.size());
  return 1.0 - 6.0 * squares / (n * (n * n - 1.0));
}

void PrintSummary(std::vector<Outcome> outcomes) {
  std::vector<double> errors;
  for (const Outcome& outcome : outcomes) errors.push_back(std::abs(outcome.Error()));
  std::sort(errors.begin(), errors.end());
  const auto by_prediction = std::min_element(
      outcomes.begin(), outcomes.end(),
      [](const Outcome& a, const Outcome& b) { return a.predicted < b.predicted; });
  const auto by_measurement = std::min_element(
      outcomes.begin(), outcomes.end(),
      [](const Outcome& a, const Outcome& b) { return a.measured.median < b.measured.median; });
  const size_t middle = errors.size() / 2;
  const double median =
      errors.size() % 2 == 1 ? errors[middle] : (errors[middle - 1] + errors[middle]) / 2.0;
  std::printf(
      "%zu plans: median error %.1f %%, worst %.1f %%; predicted best `%s` takes %.1f %% "
      "longer than the best, `%s`; rank correlation %.2f\n",
      errors.size(), 100.0 * median, 100.0 * errors.back(), by_prediction->name.c_str(),
      100.0 * (absl::FDivDuration(by_prediction->measured.median, by_measurement->measured.median) -
               1.0),
      by_measurement->name.c_str(), RankCorrelation(outcomes));
}

struct Choices {
  std::string set_name = "a";
  // Parts of plans' names, separated by commas.
  std::string plans;
  bool details = false;
  bool real_time = false;
  // A file to write, or empty.
  std::string results_path;
};

absl::Status WriteResults(const Choices& choices, const v1::Profile& profile,
                          const std::vector<Outcome>& outcomes) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Outcome& outcome : outcomes) {
    rows.push_back({{"set", choices.set_name},
                    {"plan", outcome.name},
                    {"slowdown", profile.overlap_slowdown()},
                    {"predicted_ms", 1e3 * outcome.predicted},
                    {"predicted_without_slowdown_ms", 1e3 * outcome.predicted_without_slowdown},
                    {"measured_ms", absl::ToDoubleMilliseconds(outcome.measured.median)},
                    {"median_uncertainty_ms", absl::ToDoubleMilliseconds(outcome.uncertainty)},
                    {"p10_ms", absl::ToDoubleMilliseconds(outcome.measured.p10)},
                    {"p90_ms", absl::ToDoubleMilliseconds(outcome.measured.p90)}});
  }
  std::ofstream file(choices.results_path);
  file << rows.dump(1) << "\n";
  if (!file.flush()) {
    return absl::InvalidArgumentError("can't write " + choices.results_path);
  }
  return absl::OkStatus();
}

absl::Status RunRank(const RankEnvironment& environment, const Choices& choices) {
  if (choices.real_time) {
    const sched_param priority{.sched_priority = 10};
    if (::sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
      return absl::PermissionDeniedError("--real-time needs the right to it (CAP_SYS_NICE)");
    }
  }
  const PlanSet set = MakePlanSet(choices.set_name);
  JobFabricOptions options = environment.ToFabricOptions();
  if (choices.set_name == "shaped") {
    options.shape = [&set](int from, int to) {
      return from / set.devices_per_node == to / set.devices_per_node
                 ? LinkShape()
                 : LinkShape{.bytes_per_second = 200e6, .latency = absl::Microseconds(50)};
    };
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<JobFabric> fabric,
                           JobFabric::Join(std::move(options)));
  std::vector<int> all(set.device_count);
  std::iota(all.begin(), all.end(), 0);
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> control,
                           fabric->MakeGroup("prediction", all));
  const bool speaks = fabric->rank() == 0;
  if (speaks) {
    std::printf("set %s: %d ranks%s, %d rounds of %d steps of each plan\n",
                choices.set_name.c_str(), set.device_count,
                choices.real_time ? ", real-time class" : "", kRounds, kSteps);
  }
  const absl::Duration start = SteadyNow();
  PARPLAN_ASSIGN_OR_RETURN(
      const v1::Profile profile,
      MeasureProfile(set, set.device_count == 2 ? absl::Seconds(70) : absl::Seconds(90), *fabric));
  const absl::Duration taken = absl::Trunc(SteadyNow() - start, absl::Milliseconds(100));
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem, MakeProblem(set, profile));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  v1::Profile without_slowdown = profile;
  without_slowdown.set_overlap_slowdown(1.0);
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem free_problem, MakeProblem(set, without_slowdown));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel free_costs, CostModel::Create(free_problem));
  if (speaks) {
    std::printf("%s, profiled in %s, overlap slowdown %.2f\n", profile.device_kind().c_str(),
                absl::FormatDuration(taken).c_str(), profile.overlap_slowdown());
    if (choices.details) {
      PrintProfile(profile);
      for (const std::string& item : costs.estimated_items()) {
        std::printf("  estimated: %s\n", item.c_str());
      }
    }
  }
  std::vector<NamedPlan> plans;
  for (const NamedPlan& named : set.plans) {
    for (const absl::string_view part : absl::StrSplit(choices.plans, ',')) {
      if (!absl::StrContains(named.name, part)) continue;
      plans.push_back(named);
      break;
    }
  }
  std::vector<std::vector<absl::Duration>> samples(plans.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t k = 0; k < plans.size(); ++k) {
      PARPLAN_ASSIGN_OR_RETURN(const std::vector<absl::Duration> more,
                               RunPlan(plans[k].plan, set, *fabric, *control));
      samples[k].insert(samples[k].end(), more.begin(), more.end());
    }
  }
  if (!speaks) return absl::OkStatus();
  std::printf("%-24s %10s %10s %19s %8s\n", "plan", "predicted", "measured", "p10 to p90", "error");
  std::vector<Outcome> outcomes;
  for (size_t k = 0; k < plans.size(); ++k) {
    const Prediction prediction = PredictPlan(problem, costs, plans[k].plan);
    outcomes.push_back({plans[k].name, prediction.step.value(),
                        PredictPlan(free_problem, free_costs, plans[k].plan).step.value(),
                        SpreadOf(samples[k]), MedianUncertainty(samples[k])});
    const TimeSpread& measured = outcomes.back().measured;
    std::printf("%-24s %7.1f ms %7.1f ms %8.1f to %7.1f %+6.1f %%\n", plans[k].name.c_str(),
                prediction.step.milliseconds(), absl::ToDoubleMilliseconds(measured.median),
                absl::ToDoubleMilliseconds(measured.p10), absl::ToDoubleMilliseconds(measured.p90),
                100.0 * outcomes.back().Error());
    if (choices.details) PrintItems(prediction);
  }
  if (!outcomes.empty()) PrintSummary(outcomes);
  if (!choices.results_path.empty()) return WriteResults(choices, profile, outcomes);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Choices choices;
  for (int k = 1; k < argc; ++k) {
    if (std::strcmp(argv[k], "--details") == 0) {
      choices.details = true;
    } else if (std::strcmp(argv[k], "--real-time") == 0) {
      choices.real_time = true;
    } else if (std::strcmp(argv[k], "--plans") == 0 && k + 1 < argc) {
      choices.plans = argv[++k];
    } else if (std::strcmp(argv[k], "--results") == 0 && k + 1 < argc) {
      choices.results_path = argv[++k];
    } else {
      choices.set_name = argv[k];
    }
  }
  const auto environment = RankEnvironment::FromEnvironment();
  if (!environment.ok()) {
    std::fprintf(stderr, "%s\n", environment.status().ToString().c_str());
    return 2;
  }
  if (!environment->has_value()) {
    std::vector<std::string> arguments = {"/proc/self/exe"};
    arguments.insert(arguments.end(), argv + 1, argv + argc);
    auto ranks = RankProcesses::Start({.rank_count = MakePlanSet(choices.set_name).device_count,
                                       .argv = std::move(arguments),
                                       .heeds_signals = true,
                                       .time_limit = absl::Minutes(20)});
    const absl::Status status = ranks.ok() ? (*ranks)->Wait() : ranks.status();
    if (status.ok()) return 0;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  const absl::Status status = RunRank(**environment, choices);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return absl::IsUnavailable(status) || absl::IsAborted(status) ? kExitAfterAnother : 1;
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) { return parplan::Main(argc, argv); }
