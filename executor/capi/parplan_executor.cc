#include "executor/capi/parplan_executor.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "executor/apply/checked_plan.h"
#include "executor/capi/c_values.h"
#include "executor/report/execution_reporter.h"
#include "parplan/v1/model.pb.h"
#include "parplan/v1/topology.pb.h"
#include "proto/envelope/envelope_json.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verifier.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/topology_wire.h"
#include "proto/wire/version.h"

namespace {

// A group with its ranks as an array of int32_t.
struct Group {
  std::string purpose;
  std::vector<int32_t> ranks;

  explicit Group(const parplan::GroupSpec& spec)
      : purpose(spec.purpose), ranks(spec.ranks.begin(), spec.ranks.end()) {}
};

}  // namespace

struct parplan_plan {
  explicit parplan_plan(parplan::CheckedPlan checked) : plan(std::move(checked)) {}

  parplan::CheckedPlan plan;
  // Guards the members below, so that several threads may ask for groups.
  std::mutex mutex;
  // Groups of all ranks, made when they are first asked for, and not changed after that: programs
  // of all ranks take long where a job has thousands.
  bool has_groups = false;
  std::vector<Group> groups;
};

struct parplan_rank {
  parplan::RankProgram program;
  std::vector<Group> groups;
  std::map<int32_t, const parplan::LayerProgram*> layers;
};

struct parplan_report {
  std::unique_ptr<parplan::ExecutionReporter> reporter;
};

namespace {

using parplan::CheckedPlan;
using parplan::capi::CheckIndex;
using parplan::capi::Give;
using parplan::capi::Guarded;
using parplan::capi::Missing;
using parplan::capi::Take;
using parplan::capi::ViewOf;

// Limit for ending a report: a second less than the 10 s that parplan_report_close promises, for
// the call under way to end.
constexpr absl::Duration kCloseTimeout = absl::Seconds(9);

std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

absl::StatusOr<CheckedPlan> Load(const parplan_source& source) {
  PARPLAN_ASSIGN_OR_RETURN(parplan::TrustBundle trust,
                           parplan::TrustBundle::FromJson(ViewOf(source.trust)));
  parplan::v1::ModelSpec model_message;
  PARPLAN_RETURN_IF_ERROR(parplan::ParseJson(ViewOf(source.model), "model", &model_message));
  PARPLAN_ASSIGN_OR_RETURN(const parplan::ModelSpec model, parplan::ModelFromProto(model_message));
  parplan::v1::ClusterTopology cluster;
  PARPLAN_RETURN_IF_ERROR(parplan::ParseJson(ViewOf(source.topology), "topology", &cluster));
  PARPLAN_ASSIGN_OR_RETURN(const parplan::Topology topology, parplan::TopologyFromProto(cluster));
  PARPLAN_ASSIGN_OR_RETURN(const parplan::v1::SignedPlan envelope,
                           parplan::EnvelopeFromJson(ViewOf(source.envelope)));
  const parplan::ExpectedAudience expected = {.cluster = topology.cluster(),
                                              .job_id = TextOf(source.job_id),
                                              .node_name = TextOf(source.node_name),
                                              .topology_digest = parplan::TopologyDigest(topology)};
  const absl::Time now = source.time == 0 ? absl::Now() : absl::FromUnixSeconds(source.time);
  PARPLAN_ASSIGN_OR_RETURN(const parplan::VerifiedPlan verified,
                           parplan::PlanVerifier(std::move(trust)).Verify(envelope, expected, now));
  return CheckedPlan::Create(verified, model, topology);
}

absl::Status GiveGroup(const std::vector<Group>& groups, int32_t index, parplan_group* out) {
  PARPLAN_RETURN_IF_ERROR(CheckIndex("group", index, static_cast<int64_t>(groups.size())));
  const Group& group = groups[index];
  return Give({.size = 0,
               .purpose = group.purpose.c_str(),
               .ranks = group.ranks.data(),
               .rank_count = static_cast<int32_t>(group.ranks.size())},
              out);
}

// Makes the groups of all ranks if they are not there yet.
absl::Status GatherGroups(parplan_plan& plan) {
  const std::lock_guard<std::mutex> lock(plan.mutex);
  if (plan.has_groups) return absl::OkStatus();
  std::set<parplan::GroupSpec> all;
  for (int rank = 0; rank < plan.plan.plan().device_count; ++rank) {
    PARPLAN_ASSIGN_OR_RETURN(const parplan::RankProgram program, plan.plan.ProgramOf(rank));
    all.insert(program.groups.begin(), program.groups.end());
  }
  for (const parplan::GroupSpec& group : all) plan.groups.emplace_back(group);
  plan.has_groups = true;
  return absl::OkStatus();
}

}  // namespace

int32_t parplan_executor_abi(void) { return PARPLAN_EXECUTOR_ABI; }

const char* parplan_executor_release(void) { return parplan::kVersion; }

int32_t parplan_plan_load(const parplan_source* source, parplan_plan** plan, parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (plan == nullptr) return Missing("plan");
    *plan = nullptr;
    PARPLAN_ASSIGN_OR_RETURN(const parplan_source read, Take(source));
    PARPLAN_ASSIGN_OR_RETURN(CheckedPlan checked, Load(read));
    *plan = new parplan_plan(std::move(checked));
    return absl::OkStatus();
  });
}

void parplan_plan_free(parplan_plan* plan) { delete plan; }

int32_t parplan_plan_get_info(const parplan_plan* plan, parplan_plan_info* info,
                              parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (plan == nullptr) return Missing("plan");
    const parplan::Plan& value = plan->plan.plan();
    return Give({.size = 0,
                 .name = plan->plan.name().c_str(),
                 .device_count = value.device_count,
                 .layer_count = plan->plan.model().layer_count(),
                 .pipeline_parallel_degree = value.pipeline_parallel_degree(),
                 .virtual_stage_count = value.virtual_stage_count,
                 .global_batch_size = value.global_batch_size,
                 .micro_batch_count = value.micro_batch_count,
                 .schedule = static_cast<int32_t>(value.schedule),
                 .predicted_step_seconds = plan->plan.prediction().step.value(),
                 .predicted_peak_memory_bytes = plan->plan.prediction().peak_memory.count(),
                 .expire_time = absl::ToUnixSeconds(plan->plan.expire_time())},
                info);
  });
}

int32_t parplan_plan_get_layer(const parplan_plan* plan, int32_t layer, parplan_layer* out,
                               parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (plan == nullptr) return Missing("plan");
    PARPLAN_RETURN_IF_ERROR(CheckIndex("layer", layer, plan->plan.model().layer_count()));
    int32_t stage_index = 0;
    for (const parplan::StagePlan& stage : plan->plan.plan().stages) {
      for (const parplan::StageLayerRun& run : stage.layer_runs) {
        if (layer >= run.first_layer_index + run.layer_count) continue;
        const parplan::Strategy& strategy = run.strategy;
        return Give({.size = 0,
                     .stage_index = stage_index,
                     .first_rank = stage.first_rank,
                     .rank_count = stage.rank_count,
                     .tensor_parallel_degree = strategy.tensor_parallel_degree,
                     .data_parallel_degree = strategy.data_parallel_degree,
                     .context_parallel_degree = strategy.context_parallel_degree,
                     .sharding = static_cast<int32_t>(strategy.sharding_level),
                     .recompute = static_cast<int32_t>(strategy.recompute_level),
                     .context_kind = static_cast<int32_t>(strategy.context_kind),
                     .sequence_parallel = strategy.sequence_parallel ? 1 : 0,
                     .tensor_innermost =
                         strategy.rank_order == parplan::RankOrder::kTensorInnermost ? 1 : 0},
                    out);
      }
      ++stage_index;
    }
    return absl::InternalError("a plan that was checked leaves a layer out");
  });
}

int32_t parplan_plan_group_count(parplan_plan* plan, int32_t* count, parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (plan == nullptr) return Missing("plan");
    if (count == nullptr) return Missing("count");
    PARPLAN_RETURN_IF_ERROR(GatherGroups(*plan));
    *count = static_cast<int32_t>(plan->groups.size());
    return absl::OkStatus();
  });
}

int32_t parplan_plan_get_group(parplan_plan* plan, int32_t index, parplan_group* group,
                               parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (plan == nullptr) return Missing("plan");
    PARPLAN_RETURN_IF_ERROR(GatherGroups(*plan));
    return GiveGroup(plan->groups, index, group);
  });
}

int32_t parplan_rank_open(const parplan_plan* plan, int32_t rank, parplan_rank** out,
                          parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (out == nullptr) return Missing("out");
    *out = nullptr;
    if (plan == nullptr) return Missing("plan");
    PARPLAN_RETURN_IF_ERROR(CheckIndex("rank", rank, plan->plan.plan().device_count));
    PARPLAN_ASSIGN_OR_RETURN(parplan::RankProgram program, plan->plan.ProgramOf(rank));
    auto opened = std::make_unique<parplan_rank>();
    opened->program = std::move(program);
    for (const parplan::GroupSpec& group : opened->program.groups) {
      opened->groups.emplace_back(group);
    }
    for (const parplan::StageProgram& stage : opened->program.stages) {
      for (const parplan::LayerProgram& layer : stage.layers) {
        opened->layers[layer.layer_index] = &layer;
      }
    }
    *out = opened.release();
    return absl::OkStatus();
  });
}

void parplan_rank_free(parplan_rank* rank) { delete rank; }

int32_t parplan_rank_group_count(const parplan_rank* rank, int32_t* count, parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (rank == nullptr) return Missing("rank");
    if (count == nullptr) return Missing("count");
    *count = static_cast<int32_t>(rank->groups.size());
    return absl::OkStatus();
  });
}

int32_t parplan_rank_get_group(const parplan_rank* rank, int32_t index, parplan_group* group,
                               parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (rank == nullptr) return Missing("rank");
    return GiveGroup(rank->groups, index, group);
  });
}

int32_t parplan_rank_get_layer_groups(const parplan_rank* rank, int32_t layer,
                                      parplan_layer_groups* groups, parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (rank == nullptr) return Missing("rank");
    const auto found = rank->layers.find(layer);
    if (found == rank->layers.end()) {
      return absl::OutOfRangeError(
          absl::StrCat("layer ", layer, " is not on rank ", rank->program.rank));
    }
    return Give({.size = 0,
                 .tensor = found->second->tensor_group,
                 .context = found->second->context_group,
                 .gradient = found->second->gradient_group},
                groups);
  });
}

int32_t parplan_rank_pass_count(const parplan_rank* rank, int32_t* count, parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (rank == nullptr) return Missing("rank");
    if (count == nullptr) return Missing("count");
    *count = static_cast<int32_t>(rank->program.passes.size());
    return absl::OkStatus();
  });
}

int32_t parplan_rank_get_pass(const parplan_rank* rank, int32_t index, parplan_pass* pass,
                              parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (rank == nullptr) return Missing("rank");
    const std::vector<parplan::PipelinePass>& passes = rank->program.passes;
    PARPLAN_RETURN_IF_ERROR(CheckIndex("pass", index, static_cast<int64_t>(passes.size())));
    return Give({.size = 0,
                 .stage_index = passes[index].stage_index,
                 .is_backward = passes[index].is_backward() ? 1 : 0,
                 .micro_batch = passes[index].micro_batch},
                pass);
  });
}

int32_t parplan_report_open_with(const parplan_plan* plan, const parplan_server* server,
                                 parplan_report** out, parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (out == nullptr) return Missing("out");
    *out = nullptr;
    if (plan == nullptr) return Missing("plan");
    PARPLAN_ASSIGN_OR_RETURN(const parplan_server read, Take(server));
    const parplan::ChannelOptions channel = {.target = TextOf(read.target),
                                             .use_tls = read.use_tls != 0,
                                             .ca_file = TextOf(read.ca_file),
                                             .certificate_file = TextOf(read.certificate_file),
                                             .key_file = TextOf(read.key_file),
                                             .server_name = TextOf(read.server_name),
                                             .token_file = TextOf(read.token_file)};
    // Errors of the files are returned here; the background could not report them.
    PARPLAN_RETURN_IF_ERROR(parplan::MakeServerSink(channel).status());
    auto opened = std::make_unique<parplan_report>();
    opened->reporter = std::make_unique<parplan::ExecutionReporter>(
        parplan::ReporterOptions{.plan = plan->plan.name(), .close_timeout = kCloseTimeout},
        [channel] { return parplan::MakeServerSink(channel); });
    *out = opened.release();
    return absl::OkStatus();
  });
}

int32_t parplan_report_open(const parplan_plan* plan, const char* target, parplan_report** out,
                            parplan_error* error) {
  parplan_server server = {};
  server.size = sizeof(server);
  server.target = target;
  return parplan_report_open_with(plan, &server, out, error);
}

int32_t parplan_report_add(parplan_report* report, const parplan_window* window,
                           parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (report == nullptr) return Missing("report");
    PARPLAN_ASSIGN_OR_RETURN(const parplan_window read, Take(window));
    // A shorter time would round to 0, which the server refuses together with all windows that
    // travel with it.
    constexpr double kShortestStep = 1e-9;
    if (read.rank < 0 || read.first_step < 0 || read.step_count < 1 || read.peak_memory_bytes < 0 ||
        !(read.median_step_seconds >= kShortestStep) || read.median_step_seconds > 1e6) {
      return absl::InvalidArgumentError(
          "a window has a rank, at least one step, and a step time of 1e-9 s to 1e6 s");
    }
    parplan::v1::MeasuredWindow message;
    message.set_rank(read.rank);
    message.set_first_step(read.first_step);
    message.set_step_count(read.step_count);
    message.set_peak_memory_bytes(read.peak_memory_bytes);
    *message.mutable_median_step_duration() =
        parplan::DurationToProto(parplan::Seconds::Of(read.median_step_seconds));
    report->reporter->Add({message});
    return absl::OkStatus();
  });
}

int32_t parplan_report_close(parplan_report* report, const char* failure, int64_t* lost_count,
                             parplan_error* error) {
  return Guarded(error, [&]() -> absl::Status {
    if (report == nullptr) return Missing("report");
    const std::unique_ptr<parplan_report> closed(report);
    const parplan::ReportSummary summary = closed->reporter->Finish(
        failure == nullptr ? absl::OkStatus() : absl::AbortedError(failure));
    if (lost_count != nullptr) *lost_count = summary.lost_count;
    return absl::OkStatus();
  });
}
