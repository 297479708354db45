#include "clients/calibrate/run_problem.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "clients/calibrate/run_error.h"
#include "clients/calibrate/run_model.h"
#include "clients/calibrate/run_runtime.h"
#include "clients/calibrate/run_stages.h"
#include "clients/calibrate/run_system.h"
#include "planner/model/pass_order.h"
#include "planner/model/planning_problem.h"
#include "planner/model/stage_layers.h"

namespace parplan::accuracy {
namespace {

// The degrees of a run once everything is filled in.
struct Degrees {
  int tensor = 1;
  int context = 1;
  int data = 1;
  int pipeline = 1;
  int virtual_stage_count = 1;
  int expert = 1;
  int device_count = 0;
  int devices_per_node = 0;
};

// Experts spread over tensor-parallel ranks too (Megatron's expert tensor degree)
// hold as many parameters a rank as with `ep * etp / tp` groups of whole experts.
absl::StatusOr<int> ExpertDegree(const PublishedParallelism& said,
                                 std::vector<std::string>* assumptions) {
  const int expert = said.expert_parallel_degree;
  const int tensor = said.tensor_parallel_degree;
  const int expert_tensor =
      said.expert_tensor_parallel_degree > 0 ? said.expert_tensor_parallel_degree : tensor;
  if (expert_tensor == tensor) return expert;
  const int shards = expert * expert_tensor;
  if (shards % tensor != 0) {
    return RunFieldError("parallel.etp",
                         absl::StrCat("experts over ", expert, " x ", expert_tensor,
                                      " ranks are not modelled beside a tensor-parallel "
                                      "degree of ",
                                      tensor));
  }
  assumptions->push_back(absl::StrCat("experts over ", expert, " x ", expert_tensor,
                                      " ranks are taken as ", shards / tensor, " x ", tensor));
  return shards / tensor;
}

absl::StatusOr<Degrees> DegreesOf(const PublishedRun& run, const DeviceDescription& device,
                                  std::vector<std::string>* assumptions) {
  const PublishedParallelism& said = run.parallelism;
  Degrees degrees;
  degrees.tensor = said.tensor_parallel_degree;
  degrees.context = said.context_parallel_degree;
  degrees.pipeline = said.pipeline_parallel_degree;
  degrees.virtual_stage_count = degrees.pipeline > 1 ? said.virtual_stage_count : 1;
  degrees.device_count = run.hardware.device_count;
  degrees.devices_per_node = DevicesPerNode(run.hardware, device, assumptions);
  if (run.model.expert_count > 0) {
    PARPLAN_ASSIGN_OR_RETURN(degrees.expert, ExpertDegree(said, assumptions));
  }
  // One replica; one set of experts may take several.
  const int64_t wanted =
      int64_t{degrees.tensor} * degrees.context * degrees.pipeline * std::max(degrees.expert, 1);
  if (wanted < 1 || wanted > kMaxDeviceCount || degrees.tensor > kMaxDeviceCount ||
      degrees.context > kMaxDeviceCount || degrees.pipeline > kMaxDeviceCount) {
    return RunFieldError("parallel",
                         absl::StrCat("tp x cp x pp x ep must be 1 to ", kMaxDeviceCount));
  }
  const int replica = degrees.tensor * degrees.context * degrees.pipeline;
  const int unit = std::lcm(replica, degrees.tensor * degrees.expert * degrees.pipeline);
  if (run.hardware.device_count_assumed && degrees.device_count % unit != 0) {
    const int node = run.hardware.device_count;
    degrees.device_count = (unit + node - 1) / node * node;
    degrees.devices_per_node = std::min(degrees.devices_per_node, node);
    assumptions->push_back(absl::StrCat("the assumed ", node, " devices do not hold ", unit,
                                        " ranks; taken as ", degrees.device_count));
  }
  if (degrees.device_count % replica != 0) {
    return RunFieldError(
        "hardware.n_gpus",
        absl::StrCat(degrees.device_count, " is no multiple of tp x cp x pp = ", replica));
  }
  degrees.data = degrees.device_count / replica;
  const int said_data = said.data_parallel_degree;
  // Some count context-parallel ranks as data-parallel ones.
  if (said_data > 0 && said_data != degrees.data && said_data != degrees.data * degrees.context) {
    return RunFieldError(
        "parallel.dp",
        absl::StrCat("is ", said_data, ", but ", degrees.device_count,
                     " devices with tp x cp x pp = ", replica, " make ", degrees.data));
  }
  if (degrees.data * degrees.context % degrees.expert != 0) {
    return RunFieldError("parallel.ep", absl::StrCat(degrees.expert, " does not divide dp x cp = ",
                                                     degrees.data * degrees.context));
  }
  degrees.devices_per_node = std::min(degrees.devices_per_node, degrees.device_count);
  if (degrees.device_count % degrees.devices_per_node != 0) {
    return RunFieldError("hardware.n_gpus",
                         absl::StrCat(degrees.device_count, " devices do not fill nodes of ",
                                      degrees.devices_per_node));
  }
  return degrees;
}

absl::Status SetBatch(const PublishedRun& run, const Degrees& degrees, Plan* plan,
                      std::vector<std::string>* assumptions) {
  const int64_t samples = int64_t{run.micro_batch_size} * degrees.data;
  // Only memory is compared then, and it does not depend on a longer step.
  const bool only_memory = run.split == "memory-validation";
  if (run.global_batch_size == 0) {
    if (!only_memory) return RunFieldError("batch.gbs", "is missing");
    plan->micro_batch_count = int64_t{2} * degrees.pipeline;
    assumptions->push_back("the batch is not said; taken as two micro-batches a stage");
  } else {
    if (run.global_batch_size % samples != 0) {
      return RunFieldError("batch.gbs", absl::StrCat(run.global_batch_size,
                                                     " is no multiple of mbs x dp = ", samples));
    }
    plan->micro_batch_count = run.global_batch_size / samples;
  }
  const int group_size = run.parallelism.micro_batch_group_size;
  if (degrees.virtual_stage_count > 1 && group_size > degrees.pipeline) {
    if (IsGroupSize(group_size, degrees.pipeline, plan->micro_batch_count)) {
      plan->micro_batch_group_size = group_size;
      plan->global_batch_size = plan->micro_batch_count * samples;
      return absl::OkStatus();
    }
    assumptions->push_back(absl::StrCat("groups of ", group_size, " of ", plan->micro_batch_count,
                                        " micro-batches are taken as ", degrees.pipeline));
  }
  const int64_t rest = plan->micro_batch_count % degrees.pipeline;
  if (degrees.virtual_stage_count > 1 && rest != 0) {
    if (!only_memory) {
      return RunFieldError("batch.gbs",
                           absl::StrCat(plan->micro_batch_count,
                                        " micro-batches are no multiple "
                                        "of the stages, which interleaving needs here"));
    }
    assumptions->push_back(absl::StrCat(
        plan->micro_batch_count, " micro-batches are taken as the next multiple of the stages"));
    plan->micro_batch_count += degrees.pipeline - rest;
  }
  plan->global_batch_size = plan->micro_batch_count * samples;
  return absl::OkStatus();
}

Strategy StrategyOf(const PublishedRun& run, const RunRuntime& runtime, const Degrees& degrees) {
  Strategy strategy;
  strategy.tensor_parallel_degree = degrees.tensor;
  strategy.data_parallel_degree = degrees.data;
  strategy.context_parallel_degree = degrees.context;
  if (degrees.context > 1) strategy.context_kind = run.parallelism.context_kind;
  strategy.sequence_parallel = degrees.tensor > 1 && run.parallelism.sequence_parallel.value_or(
                                                         runtime.default_sequence_parallel);
  static constexpr ShardingLevel kLevels[] = {ShardingLevel::kNone, ShardingLevel::kOptimizer,
                                              ShardingLevel::kGradients,
                                              ShardingLevel::kParameters};
  if (degrees.data * degrees.context > 1) {
    strategy.sharding_level =
        kLevels[run.parallelism.zero_level.value_or(runtime.default_zero_level)];
  }
  return strategy;
}

absl::StatusOr<Plan> PlanOf(const PublishedRun& run, const RunRuntime& runtime,
                            const ModelSpec& model, const Degrees& degrees,
                            std::vector<std::string>* assumptions) {
  Plan plan;
  plan.device_count = degrees.device_count;
  PARPLAN_RETURN_IF_ERROR(SetBatch(run, degrees, &plan, assumptions));
  plan.virtual_stage_count = degrees.virtual_stage_count;
  if (plan.virtual_stage_count > 1) plan.schedule = Schedule::kInterleaved;
  const int stage_count = degrees.pipeline * degrees.virtual_stage_count;
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<int> layers,
                           LayersPerStage(run, stage_count, runtime.stage_split, assumptions));
  const Strategy plain = StrategyOf(run, runtime, degrees);
  const int ranks = degrees.device_count / degrees.pipeline;
  int next = 0;
  for (int index = 0; index < stage_count; ++index) {
    StagePlan stage;
    stage.first_rank = index % degrees.pipeline * ranks;
    stage.rank_count = ranks;
    if (index == 0) AppendLayer(model, next++, plain, &stage);
    for (int k = 0; k < layers[index]; ++k, ++next) {
      Strategy strategy = plain;
      // Layers after the embedding are counted from 1.
      if ((run.recompute_layer_count == 0 || k < run.recompute_layer_count) &&
          next % runtime.recompute_interval == 0) {
        strategy.set_recomputation(runtime.recomputation);
      }
      if (model.layer(next).expert_count > 0) strategy.expert_parallel_degree = degrees.expert;
      AppendLayer(model, next, strategy, &stage);
    }
    if (index == stage_count - 1) {
      // Layers that predict further tokens, and the head. The former recompute as the others do,
      // but for the first layers of stages alone, where Megatron Core leaves them out
      // (`MultiTokenPredictionLayer`, `_checkpointed_forward` with the method `block`).
      for (; next < model.layer_count(); ++next) {
        Strategy strategy = plain;
        if (model.layer(next).prediction_depth > 0 && run.recompute_layer_count == 0 &&
            next % runtime.recompute_interval == 0) {
          strategy.set_recomputation(runtime.recomputation);
        }
        if (model.layer(next).expert_count > 0) strategy.expert_parallel_degree = degrees.expert;
        AppendLayer(model, next, strategy, &stage);
      }
    }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

// Clusters by a word of what a row says about its machine; calibrations know clusters by name.
struct KnownCluster {
  absl::string_view word;
  absl::string_view cluster;
};
constexpr KnownCluster kClusters[] = {
    {"vtrain", "vtrain"}, {"selene", "selene"}, {"jean zay", "jean-zay"}, {"clariden", "clariden"}};

// Returns the cluster that the row names; empty if it names none.
std::string StatedCluster(const PublishedRun& run) {
  if (!run.cluster.empty()) return run.cluster;
  const std::string text = absl::AsciiStrToLower(run.hardware.interconnect);
  for (const KnownCluster& known : kClusters) {
    if (absl::StrContains(text, known.word)) return std::string(known.cluster);
  }
  return "";
}

// Returns the stated cluster, or else the repository that publishes the run, whose runs share who
// set the machines up and what was counted as a step. Mixtures of experts of a repository are apart
// from its other models: what their programs do beside products differs most.
std::string ClusterOf(const PublishedRun& run) {
  std::string id = StatedCluster(run);
  if (!id.empty()) return id;
  if (run.repository.empty()) return kUnnamedCluster;
  // Ids of clusters have small letters, digits and hyphens, 63 at most.
  constexpr absl::string_view kOfExperts = "-experts";
  id = absl::AsciiStrToLower(run.repository).substr(0, 63 - kOfExperts.size());
  for (char& letter : id) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(letter))) letter = '-';
  }
  if (id.front() == '-') id.front() = '0';
  return run.model.expert_count > 0 ? absl::StrCat(id, kOfExperts) : id;
}

absl::StatusOr<Topology> TopologyOf(const Degrees& degrees, const Hardware& hardware,
                                    const PublishedRun& run) {
  NodeGroup group;
  group.node_group_id = "nodes";
  group.device_kind = hardware.device.device_id;
  group.devices_per_node = degrees.devices_per_node;
  group.node_count = degrees.device_count / degrees.devices_per_node;
  group.device_memory = hardware.device.memory;
  std::vector<LinkTier> tiers = {{"node", degrees.devices_per_node}};
  if (group.node_count > 1) tiers.push_back({"cluster", degrees.device_count});
  return Topology::Create(ClusterOf(run), {group}, std::move(tiers), hardware.fabric.fabric_id);
}

absl::Status CheckDegrees(const PublishedModel& model, const Degrees& degrees) {
  const int key_value =
      model.key_value_head_count > 0 ? model.key_value_head_count : model.attention_head_count;
  if (model.attention_head_count % degrees.tensor != 0 || key_value % degrees.tensor != 0) {
    return RunFieldError("parallel.tp",
                         absl::StrCat(degrees.tensor, " does not divide the heads (",
                                      model.attention_head_count, ", key/value ", key_value, ")"));
  }
  if (degrees.context > 1 && model.sequence_length % (2 * degrees.context) != 0) {
    return RunFieldError(
        "parallel.cp", absl::StrCat("twice ", degrees.context, " does not divide the sequence of ",
                                    model.sequence_length));
  }
  if (degrees.expert > 1 && model.expert_count % degrees.expert != 0) {
    return RunFieldError("parallel.ep", absl::StrCat(degrees.expert, " does not divide the ",
                                                     model.expert_count, " experts"));
  }
  return absl::OkStatus();
}

std::string JobKey(const PublishedRun& run, const RunQuestion& question) {
  return absl::StrJoin(
      {run.source, ModelKey(run.model), run.precision,
       absl::StrCat(question.plan.device_count, " ", question.hardware->device.device_id),
       absl::StrCat("gbs ", question.plan.global_batch_size)},
      ", ");
}

}  // namespace

absl::StatusOr<RunQuestion> QuestionOf(const PublishedRun& run) {
  RunQuestion question;
  question.id = run.id;
  std::vector<std::string>* assumptions = &question.assumptions;
  PARPLAN_ASSIGN_OR_RETURN(const RunRuntime runtime, RuntimeOf(run, assumptions));
  PARPLAN_ASSIGN_OR_RETURN(DeviceDescription device, DeviceOf(run.hardware));
  PARPLAN_ASSIGN_OR_RETURN(const Degrees degrees, DegreesOf(run, device, assumptions));
  PARPLAN_RETURN_IF_ERROR(CheckDegrees(run.model, degrees));
  PARPLAN_ASSIGN_OR_RETURN(ModelSpec model, ModelOf(run, runtime));
  PARPLAN_ASSIGN_OR_RETURN(question.plan, PlanOf(run, runtime, model, degrees, assumptions));
  FabricDescription fabric =
      FabricOf(run.hardware, device, degrees.devices_per_node, degrees.device_count, assumptions);
  if (run.model.predictions_share_weights) {
    assumptions->push_back("each layer that predicts a further token has weights of its own");
  }
  if (run.offloaded_layer_count > 0) {
    assumptions->push_back("activations kept on the host are taken as kept on the device");
  }
  question.device_memory = device.memory;
  question.hardware =
      std::make_shared<const Hardware>(Hardware{std::move(device), std::move(fabric)});
  PARPLAN_ASSIGN_OR_RETURN(Topology topology, TopologyOf(degrees, *question.hardware, run));
  question.model = std::make_shared<const ModelSpec>(std::move(model));
  question.topology = std::make_shared<const Topology>(std::move(topology));
  question.has_stated_cluster = !StatedCluster(run).empty();
  question.runtime = runtime.traits;
  question.memory_view = runtime.memory_view;
  question.job_key = JobKey(run, question);
  question.plan_key =
      absl::StrCat(PlanGist(question.plan), ", ", question.plan.micro_batch_count,
                   " micro-batches, ", question.plan.virtual_stage_count, " virtual stages",
                   question.plan.micro_batch_group_size == 0
                       ? ""
                       : absl::StrCat(", groups of ", question.plan.micro_batch_group_size),
                   run.parallelism.sequence_parallel.value_or(runtime.default_sequence_parallel)
                       ? ", sequence parallel"
                       : "");
  return question;
}

}  // namespace parplan::accuracy
