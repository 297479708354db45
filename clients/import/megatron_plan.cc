#include "clients/import/megatron_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/argument_list.h"
#include "clients/import/megatron_comparison.h"
#include "clients/import/megatron_degrees.h"
#include "clients/import/megatron_ends.h"
#include "clients/import/megatron_rules.h"
#include "exports/megatron_layout.h"
#include "exports/uniform_plan.h"
#include "planner/model/pass_order.h"

namespace parplan {
namespace {

constexpr char kMegatron[] = "Megatron-LM";

// Checks that `layers`, those of a layout in their order, are those of the model.
absl::Status CheckLayers(const ArgumentList& arguments, const ModelSpec& model,
                         const std::string& layers) {
  const auto decoders = static_cast<size_t>(DecoderLayerCount(model));
  const auto predictions = static_cast<size_t>(FurtherTokenCount(model));
  if (layers == absl::StrCat("E", std::string(decoders, 't'), std::string(predictions, 'm'), "L")) {
    return absl::OkStatus();
  }
  return arguments.Fault(
      "pipeline-model-parallel-layout",
      absl::StrCat("must hold the embedding E, then the model's ", decoders, " layers t, then its ",
                   predictions, " layers m for further tokens, then the loss L"));
}

// Checks what the program demands of layers that predict further tokens: they are in one stage,
// which is a last virtual stage of its rank. `first_last` is the first of these.
absl::Status CheckFurtherTokens(const ArgumentList& arguments,
                                const std::vector<std::string>& stages, int first_last) {
  int holders = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (!absl::StrContains(stages[i], 'm')) continue;
    ++holders;
    if (holders == 1 && static_cast<int>(i) >= first_last) continue;
    return arguments.Fault("pipeline-model-parallel-layout",
                           "must have all layers m in one stage, a last virtual stage of its rank");
  }
  return absl::OkStatus();
}

// Reads the layers of each stage from a layout.
absl::Status ReadMegatronLayout(const ArgumentList& arguments, const ModelSpec& model, int pipeline,
                                UniformPlan* facts) {
  constexpr absl::string_view kName = "pipeline-model-parallel-layout";
  for (const char* const other :
       {"num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"}) {
    if (arguments.Has(other)) {
      return arguments.Fault(other, "contradicts --pipeline-model-parallel-layout");
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<std::string> stages,
                           ParseMegatronLayout(arguments.Text(kName, ""), arguments.Field(kName)));
  const int stage_count = static_cast<int>(stages.size());
  if (stage_count % pipeline != 0) {
    return arguments.Fault(kName, absl::StrCat("has ", stage_count, " stages, which ", pipeline,
                                               " pipeline ranks do not divide"));
  }
  std::string layers;
  for (int i = 0; i < stage_count; ++i) {
    if (stages[i].empty() && (i == 0 || i + 1 == stage_count)) {
      return arguments.Fault(kName,
                             absl::StrCat("leaves stage ", i, " empty, where the program has ",
                                          i == 0 ? "the embedding: begin with E"
                                                 : "the loss: end with L, with no bar behind it"));
    }
    layers += stages[i];
    facts->stage_layer_counts.push_back(static_cast<int>(stages[i].size()));
  }
  PARPLAN_RETURN_IF_ERROR(CheckLayers(arguments, model, layers));
  facts->virtual_stage_count = stage_count / pipeline;
  PARPLAN_RETURN_IF_ERROR(CheckFurtherTokens(arguments, stages, stage_count - pipeline));
  return absl::OkStatus();
}

// Divides the layers evenly, as Megatron-LM does without a layout.
absl::Status ReadEvenStages(const ArgumentList& arguments, const ModelSpec& model, int pipeline,
                            UniformPlan* facts) {
  if (HasMegatronEnds(arguments)) {
    return ReadMegatronEnds(arguments, model, pipeline, facts);
  }
  const int decoders = DecoderLayerCount(model);
  if (decoders % pipeline != 0) {
    return arguments.Fault("pipeline-model-parallel-size",
                           absl::StrCat("does not divide ", decoders,
                                        " layers; give --pipeline-model-parallel-layout"));
  }
  PARPLAN_ASSIGN_OR_RETURN(const int virtual_count,
                           ReadMegatronVirtualStages(arguments, decoders / pipeline));
  if (virtual_count > decoders / pipeline || decoders / pipeline % virtual_count != 0) {
    return arguments.Fault(
        "num-virtual-stages-per-pipeline-rank",
        absl::StrCat("does not divide the ", decoders / pipeline, " layers of a pipeline rank"));
  }
  const int stage_count = pipeline * virtual_count;
  facts->virtual_stage_count = virtual_count;
  facts->stage_layer_counts.assign(static_cast<size_t>(stage_count), decoders / stage_count);
  ++facts->stage_layer_counts.front();
  // Layers that predict further tokens are beside the head.
  facts->stage_layer_counts.back() += 1 + FurtherTokenCount(model);
  return absl::OkStatus();
}

// Checks that the tensor degree divides heads and groups of queries, as TransformerConfig of
// Megatron Core does. Core 0.14 and 0.15 refuse every other degree. 0.16 and later take a multiple
// of the groups too: ranks then gather queries, keys and values of all groups and keep a part
// (get_query_key_value_tensors in transformer/attention.py), which has no counterpart here.
absl::Status CheckTensorDegreeOfHeads(const ArgumentList& arguments, const ModelSpec& model,
                                      int tensor) {
  constexpr absl::string_view kName = "tensor-model-parallel-size";
  for (const LayerDefinition& layer : model.layer_definitions()) {
    if (!HasAttention(layer.kind)) continue;
    const int heads = layer.attention_head_count;
    const int groups = layer.key_value_head_count;
    if (heads % tensor != 0) {
      return arguments.Fault(kName, absl::StrCat("is ", tensor, ", which does not divide the ",
                                                 heads, " heads of --num-attention-heads"));
    }
    if (groups % tensor == 0) continue;
    return arguments.Fault(
        kName,
        absl::StrCat(
            "is ", tensor, ", which does not divide the ", groups,
            " groups of --num-query-groups; ",
            tensor % groups == 0
                ? "core 0.14 and 0.15 refuse that, and later releases gather queries, keys and "
                  "values of all groups on each rank, which plans do not describe: use a divisor "
                  "of the groups"
                : "no release takes a degree that neither divides the groups nor is a multiple of "
                  "them"));
  }
  return absl::OkStatus();
}

// Sets the tensor degree of experts if it is not that of the rest of their layers.
absl::Status SetExpertTensorDegree(const ArgumentList& arguments, const MegatronDegrees& degrees,
                                   Strategy* strategy) {
  if (degrees.expert_tensor == degrees.tensor) return absl::OkStatus();
  constexpr absl::string_view kName = "expert-tensor-parallel-size";
  if (!arguments.Has("num-experts")) return arguments.Fault(kName, "needs --num-experts");
  if (strategy->rank_count() % degrees.expert_tensor != 0) {
    return arguments.Fault(
        kName, absl::StrCat("is ", degrees.expert_tensor, ", which does not divide the ",
                            strategy->rank_count(), " ranks of a stage"));
  }
  if (degrees.tensor > 1 && !degrees.sequence_parallel) {
    return arguments.Fault(kName, "needs --sequence-parallel beside tensor parallelism");
  }
  strategy->expert_tensor_parallel_degree = degrees.expert_tensor;
  return absl::OkStatus();
}

// Sets the ranks that share the optimizer's states if they are not all with the same parameters.
absl::Status SetShardingDegree(const ArgumentList& arguments, const MegatronDegrees& degrees,
                               Strategy* strategy) {
  if (degrees.optimizer_instances == 1) return absl::OkStatus();
  constexpr absl::string_view kName = "num-distributed-optimizer-instances";
  const int replicas = strategy->replica_count();
  if (degrees.optimizer_instances >= replicas || replicas % degrees.optimizer_instances != 0) {
    return arguments.Fault(
        kName, absl::StrCat("is ", degrees.optimizer_instances, ", which is no divisor of the ",
                            replicas, " data- and context-parallel ranks of a stage below it"));
  }
  strategy->sharding_degree = replicas / degrees.optimizer_instances;
  if (!strategy->has_experts_in_groups()) {
    return arguments.Fault(kName, absl::StrCat("is ", degrees.optimizer_instances,
                                               ", which parts the ranks that share experts"));
  }
  return absl::OkStatus();
}

// Sets the strategy of the layers.
absl::Status SetStrategy(const ArgumentList& arguments, const MegatronDegrees& degrees,
                         UniformPlan* facts) {
  Strategy& strategy = facts->strategy;
  strategy.tensor_parallel_degree = degrees.tensor;
  strategy.context_parallel_degree = degrees.context;
  const int64_t inner = int64_t{degrees.tensor} * degrees.context;
  // Each count is at most 2^24: a product of two fits, a product of three may not.
  if (inner > facts->device_count || facts->device_count % (inner * degrees.pipeline) != 0) {
    return arguments.Fault(
        "tensor-model-parallel-size",
        absl::StrCat("times --context-parallel-size and --pipeline-model-parallel-size is ",
                     degrees.tensor, " x ", degrees.context, " x ", degrees.pipeline,
                     ", which does not divide ", facts->device_count, " devices"));
  }
  strategy.data_parallel_degree =
      static_cast<int>(facts->device_count / (inner * degrees.pipeline));
  strategy.sequence_parallel = degrees.sequence_parallel && degrees.tensor > 1;
  if (degrees.context > 1) {
    strategy.context_kind = degrees.context_kind;
    strategy.context_exchange_degree = degrees.context_exchange;
  }
  PARPLAN_RETURN_IF_ERROR(SetExpertTensorDegree(arguments, degrees, &strategy));
  const int own_tensor = strategy.expert_tensor_parallel_degree;
  if (own_tensor > 0 && strategy.rank_count() / own_tensor % degrees.expert != 0) {
    return arguments.Fault(
        "expert-model-parallel-size",
        absl::StrCat("times --expert-tensor-parallel-size is ", degrees.expert, " x ", own_tensor,
                     ", which does not divide the ", strategy.rank_count(), " ranks of a stage"));
  }
  const int shared = strategy.data_parallel_degree * degrees.context;
  if (own_tensor == 0 && shared % degrees.expert != 0) {
    return arguments.Fault("expert-model-parallel-size",
                           absl::StrCat("is ", degrees.expert, ", which does not divide the ",
                                        shared, " data- and context-parallel ranks of a stage"));
  }
  if (degrees.expert > 1 && !arguments.Has("num-experts")) {
    return arguments.Fault("expert-model-parallel-size", "needs --num-experts");
  }
  strategy.expert_parallel_degree = degrees.expert;
  strategy.sharding_level = degrees.sharding_level;
  PARPLAN_RETURN_IF_ERROR(SetShardingDegree(arguments, degrees, &strategy));
  strategy.set_recomputation(degrees.recomputation);
  facts->recomputed_layer_count = degrees.recomputed_layer_count;
  return absl::OkStatus();
}

// Drops the modules that no layer of the model has, which the program does not miss; `mla_up_proj`
// it refuses without latent attention. Notes what was dropped.
absl::Status DropAbsentModules(const ArgumentList& arguments, const ModelSpec& model,
                               Strategy* strategy, std::vector<std::string>* notes) {
  std::vector<RecomputeModule> present;
  std::vector<std::string> absent;
  const std::vector<LayerDefinition>& layers = model.layer_definitions();
  for (const RecomputeModule module : strategy->recompute_modules.Modules()) {
    const bool has = std::any_of(layers.begin(), layers.end(), [module](const auto& layer) {
      return HasRecomputeModule(layer, module);
    });
    if (has) {
      present.push_back(module);
    } else {
      absent.emplace_back(RecomputeModuleName(module));
    }
    if (!has && module == RecomputeModule::kLatentUpProjection) {
      return arguments.Fault("recompute-modules",
                             "names `mla_up_proj`, which needs --multi-latent-attention");
    }
  }
  if (absent.empty()) return absl::OkStatus();
  notes->push_back(
      absl::StrCat("Ignored of --recompute-modules, since no layer has them as a part of "
                   "its own: ",
                   absl::StrJoin(absent, ", "), "."));
  if (present.empty()) {
    strategy->set_recomputation(RecomputeLevel::kNone);
  } else if (present.size() == 1 && present[0] == RecomputeModule::kCoreAttention) {
    strategy->set_recomputation(RecomputeLevel::kSelective);
  } else {
    PARPLAN_ASSIGN_OR_RETURN(
        const RecomputeModules modules,
        RecomputeModules::Create(present, arguments.Field("recompute-modules")));
    strategy->set_recomputation(Recomputation(modules));
  }
  return absl::OkStatus();
}

// Reads the micro-batches of a group, which the program asks for with virtual stages alone.
absl::Status ReadMegatronGroups(const ArgumentList& arguments, int pipeline, UniformPlan* facts) {
  if (facts->virtual_stage_count == 1) return absl::OkStatus();
  constexpr absl::string_view kGroup = "microbatch-group-size-per-virtual-pipeline-stage";
  const int group = arguments.Count(kGroup, pipeline);
  const int64_t count = facts->micro_batch_count;
  if (IsGroupSize(group, pipeline, count)) {
    facts->micro_batch_group_size = group == pipeline ? 0 : group;
    return absl::OkStatus();
  }
  const absl::string_view argument = arguments.Has(kGroup) ? kGroup : "micro-batch-size";
  if (count < pipeline) {
    return arguments.Fault(
        "micro-batch-size",
        absl::StrCat("makes ", count, " micro-batches, and ", pipeline,
                     " pipeline ranks with virtual stages take as many as they are, or more"));
  }
  if (group < pipeline || group > count) {
    return arguments.Fault(argument, absl::StrCat("makes groups of ", group, ", and ", pipeline,
                                                  " pipeline ranks with virtual stages take ",
                                                  pipeline, " to all ", count, " micro-batches"));
  }
  return arguments.Fault(
      argument, absl::StrCat("makes ", count, " micro-batches in groups of ", group,
                             ", the last of which has ", count % group, "; ", pipeline,
                             " pipeline ranks with virtual stages take none below ", pipeline,
                             ": set --", kGroup));
}

absl::Status ReadMegatronBatch(const ArgumentList& arguments, int pipeline, UniformPlan* facts) {
  if (!arguments.Has("micro-batch-size")) {
    return arguments.Fault("micro-batch-size", "is missing");
  }
  const int64_t whole =
      int64_t{arguments.Count("micro-batch-size", 1)} * facts->strategy.data_parallel_degree;
  // Without an argument the program takes one micro-batch a step.
  facts->global_batch_size =
      arguments.Has("global-batch-size") ? arguments.Count("global-batch-size", 1) : whole;
  if (facts->global_batch_size % whole != 0) {
    return arguments.Fault(
        "micro-batch-size",
        absl::StrCat("times ", facts->strategy.data_parallel_degree, " replicas is ", whole,
                     ", which does not divide --global-batch-size ", facts->global_batch_size));
  }
  facts->micro_batch_count = facts->global_batch_size / whole;
  return ReadMegatronGroups(arguments, pipeline, facts);
}

}  // namespace

absl::StatusOr<MegatronPlanImport> ImportMegatronPlan(const NamedText& file, const ModelSpec& model,
                                                      int device_count) {
  PARPLAN_ASSIGN_OR_RETURN(const ArgumentList arguments, ArgumentList::Read(file, MegatronRules()));
  return MegatronPlanOf(arguments, model, device_count, MegatronModelCheck::kCompare);
}

absl::StatusOr<MegatronPlanImport> MegatronPlanOf(const ArgumentList& arguments,
                                                  const ModelSpec& model, int device_count,
                                                  MegatronModelCheck check) {
  PARPLAN_RETURN_IF_ERROR(RequireDecoderModel(model, kMegatron));
  if (device_count < 1) {
    return ImportError(Reason::kSpecInvalid, arguments.file_name(), "",
                       "needs the number of devices, which is not among the arguments");
  }
  if (device_count > kMaxImportCount) {
    return ImportError(Reason::kSpecInvalid, arguments.file_name(), "",
                       absl::StrCat("is for ", device_count, " devices, which is too large a ",
                                    "number: at most ", kMaxImportCount, " are read"));
  }
  if (check == MegatronModelCheck::kCompare) {
    PARPLAN_RETURN_IF_ERROR(CompareMegatronModel(arguments, model));
  }
  UniformPlan facts;
  facts.device_count = device_count;
  PARPLAN_ASSIGN_OR_RETURN(const MegatronDegrees degrees, ReadMegatronDegrees(arguments));
  const int pipeline = degrees.pipeline;
  PARPLAN_RETURN_IF_ERROR(SetStrategy(arguments, degrees, &facts));
  PARPLAN_RETURN_IF_ERROR(CheckTensorDegreeOfHeads(arguments, model, degrees.tensor));
  for (const LayerDefinition& layer : model.layer_definitions()) {
    const int own_tensor = facts.strategy.expert_tensor_parallel_degree;
    if (own_tensor == 0 || layer.expert_feed_forward_size % own_tensor == 0) continue;
    return arguments.Fault("expert-tensor-parallel-size",
                           absl::StrCat("is ", own_tensor, ", which does not divide the width of ",
                                        layer.expert_feed_forward_size, " of an expert"));
  }
  PARPLAN_RETURN_IF_ERROR(arguments.Has("pipeline-model-parallel-layout")
                              ? ReadMegatronLayout(arguments, model, pipeline, &facts)
                              : ReadEvenStages(arguments, model, pipeline, &facts));
  if (facts.virtual_stage_count > 1 && pipeline == 1) {
    return arguments.Fault("pipeline-model-parallel-size",
                           "is 1, and virtual stages need a pipeline");
  }
  PARPLAN_RETURN_IF_ERROR(ReadMegatronBatch(arguments, pipeline, &facts));
  MegatronPlanImport import;
  PARPLAN_RETURN_IF_ERROR(DropAbsentModules(arguments, model, &facts.strategy, &import.notes));
  import.plan = PlanOf(facts, model);
  if (arguments.Has("use-checkpoint-args")) {
    import.notes.push_back(
        "--use-checkpoint-args takes the sizes of the model from a checkpoint, which is not read; "
        "those of the other arguments, and defaults, stand for them.");
  }
  if (arguments.Has("num-query-groups") && !arguments.Has("group-query-attention")) {
    import.notes.push_back(
        "--num-query-groups does nothing without --group-query-attention, as in the program.");
  }
  if (!arguments.replaced().empty()) {
    import.notes.push_back(absl::StrCat(
        "Given several times, of which the last counts, as in the program: ", arguments.replaced(),
        "."));
  }
  if (!arguments.ignored().empty()) {
    import.notes.push_back(absl::StrCat(
        "Ignored, since they change neither shape nor parallelism: ", arguments.ignored(), "."));
  }
  return import;
}

}  // namespace parplan
