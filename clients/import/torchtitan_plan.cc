#include "clients/import/torchtitan_plan.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/torchtitan_settings.h"
#include "exports/layer_strategies.h"
#include "exports/pass_table.h"
#include "exports/torch_plan.h"
#include "exports/torchtitan_plan_export.h"
#include "exports/uniform_plan.h"
#include "planner/model/precision.h"
#include "planner/model/runtime_traits.h"

namespace parplan {
namespace {

constexpr char kTorchtitan[] = "torchtitan";

// torchtitan's default of training.local_batch_size.
constexpr int kDefaultLocalBatch = 8;

// The sizes of releases behind 0.3.0, in tokens, and torchtitan's default of the first.
constexpr char kMicroTokens[] = "training.num_tokens_per_microbatch_per_dp_rank";
constexpr char kStepTokens[] = "training.num_tokens_per_train_step";
constexpr char kContext[] = "training.max_context_length";
constexpr char kPasses[] = "parallelism.num_pp_microbatches";
// The modules of each stage, in 0.3.0 and behind it.
constexpr char kModules[] = "parallelism.module_fqns_per_model_part";
constexpr char kLaterModules[] = "parallelism.pipeline_parallel_module_fqns_per_model_part";
constexpr int kDefaultMicroTokens = 16384;

// The facts of the pipeline.
struct TorchtitanPipeline {
  int degree = 1;
  Schedule schedule = Schedule::kOneForwardOneBackward;
};

absl::Status ReadTorchtitanDegrees(TorchtitanSettings& settings, int device_count,
                                   UniformPlan* facts, TorchtitanPipeline* pipeline) {
  Strategy& strategy = facts->strategy;
  strategy.tensor_parallel_degree = settings.Count("parallelism.tensor_parallel_degree", 1, 1);
  strategy.context_parallel_degree = settings.Count("parallelism.context_parallel_degree", 1, 1);
  strategy.expert_parallel_degree = settings.Count("parallelism.expert_parallel_degree", 1, 1);
  pipeline->degree = settings.Count("parallelism.pipeline_parallel_degree", 1, 1);
  strategy.sequence_parallel = settings.Flag("parallelism.enable_sequence_parallel", true) &&
                               strategy.tensor_parallel_degree > 1;
  const int replicas = settings.Count("parallelism.data_parallel_replicate_degree", 1, 1);
  int shards = settings.Count("parallelism.data_parallel_shard_degree", -1, -1);
  PARPLAN_RETURN_IF_ERROR(settings.status());
  const int64_t inner = int64_t{strategy.tensor_parallel_degree} * strategy.context_parallel_degree;
  // Each count is at most 2^24: a product of two fits, a product of three may not.
  const auto divides = [device_count](int64_t product, int factor) {
    return product <= device_count && device_count % (product * factor) == 0;
  };
  if (!divides(inner, pipeline->degree) || !divides(inner * pipeline->degree, replicas)) {
    return settings.Fault(
        "parallelism.tensor_parallel_degree",
        absl::StrCat("times context, pipeline and replicate degrees is ",
                     strategy.tensor_parallel_degree, " x ", strategy.context_parallel_degree,
                     " x ", pipeline->degree, " x ", replicas, ", which does not divide ",
                     device_count, " devices"));
  }
  const int rest = static_cast<int>(device_count / (inner * pipeline->degree * replicas));
  if (shards < 0) shards = rest;
  if (shards != rest) {
    return settings.Fault("parallelism.data_parallel_shard_degree",
                          absl::StrCat("must be ", rest, " on ", device_count,
                                       " devices beside the other degrees, and is ", shards));
  }
  if (settings.Count("parallelism.expert_tensor_parallel_degree", 1,
                     strategy.tensor_parallel_degree) != strategy.tensor_parallel_degree &&
      strategy.expert_parallel_degree > 1) {
    return settings.Fault("parallelism.expert_tensor_parallel_degree",
                          "must be tensor_parallel_degree; plans have one degree for both");
  }
  strategy.data_parallel_degree = replicas * shards;
  const std::string reshard = settings.Text("parallelism.fsdp_reshard_after_forward", "default");
  if (reshard != "default" && reshard != "always" && reshard != "never") {
    return settings.Fault("parallelism.fsdp_reshard_after_forward",
                          "must be default, always or never");
  }
  const bool reshards = reshard == "always" || (reshard == "default" && pipeline->degree == 1);
  // Context-parallel ranks always share parameters.
  const int shared = shards * strategy.context_parallel_degree;
  if (shared == 1) {
    strategy.sharding_level = ShardingLevel::kNone;
  } else if (reshards) {
    strategy.sharding_level = ShardingLevel::kParameters;
  } else {
    strategy.sharding_level =
        pipeline->degree > 1 ? ShardingLevel::kOptimizer : ShardingLevel::kGradients;
  }
  if (replicas > 1 && shared > 1) strategy.sharding_degree = shared;
  if (strategy.sharding_degree > 0 && !strategy.has_experts_in_groups()) {
    return settings.Fault(
        "parallelism.expert_parallel_degree",
        absl::StrCat("is ", strategy.expert_parallel_degree, ", which must divide the ", shared,
                     " ranks of data_parallel_shard_degree and context "
                     "parallelism"));
  }
  return settings.status();
}

// Reads how context-parallel ranks share tokens. 0.3.0 gathers keys and values; earlier releases
// did by default and could pass them from rank to rank.
absl::Status ReadTorchtitanContext(TorchtitanSettings& settings, Strategy* strategy) {
  constexpr char kPath[] = "parallelism.context_parallel_rotate_method";
  const std::string method = settings.Text(kPath, "allgather");
  PARPLAN_RETURN_IF_ERROR(settings.status());
  if (method != "allgather" && method != "alltoall") {
    return settings.Fault(kPath, absl::StrCat("is `", method, "`, and is allgather or alltoall"));
  }
  if (strategy->context_parallel_degree == 1) return absl::OkStatus();
  strategy->context_kind = method == "alltoall" ? ContextKind::kRing : ContextKind::kAllGather;
  return absl::OkStatus();
}

absl::Status ReadTorchtitanSchedule(TorchtitanSettings& settings, bool has_passes,
                                    TorchtitanPipeline* pipeline) {
  const std::string name = settings.Text("parallelism.pipeline_parallel_schedule", "1F1B");
  if (pipeline->degree == 1) return settings.status();
  if (name == "1F1B") {
    pipeline->schedule = Schedule::kOneForwardOneBackward;
  } else if (name == "GPipe") {
    pipeline->schedule = Schedule::kGpipe;
  } else if (name == "Interleaved1F1B") {
    pipeline->schedule = Schedule::kInterleaved;
  } else {
    return settings.Fault(
        "parallelism.pipeline_parallel_schedule",
        absl::StrCat("is `", name, "`; plans have 1F1B, GPipe and Interleaved1F1B"));
  }
  if (!settings.Text("parallelism.pipeline_parallel_schedule_csv", "").empty() && !has_passes) {
    return settings.Fault("parallelism.pipeline_parallel_schedule_csv",
                          "names a table of passes, which must be given too");
  }
  return settings.status();
}

// Reads the stages that the file lists.
absl::Status ReadTorchtitanModules(TorchtitanSettings& settings, const ModelSpec& model,
                                   UniformPlan* facts) {
  const char* const path = settings.Has(kLaterModules) ? kLaterModules : kModules;
  if (settings.Has(kLaterModules) && settings.Has(kModules)) {
    return settings.Fault(kModules, absl::StrCat("is the name that 0.3.0 has for ", kLaterModules,
                                                 "; give one of them"));
  }
  int layer = 0;
  for (const std::vector<std::string>& stage : settings.TextLists(path)) {
    const int first = layer;
    for (size_t i = 0; i < stage.size(); ++layer) {
      if (layer == model.layer_count()) {
        return settings.Fault(
            path, absl::StrCat("goes on with `", stage[i], "` behind the model's last layer"));
      }
      for (const std::string& module : TorchModulesOf(model, layer)) {
        if (i < stage.size() && stage[i] == module) {
          ++i;
          continue;
        }
        return settings.Fault(
            path, absl::StrCat(
                      "must have `", module, "` of layer ", layer, " in stage ",
                      facts->stage_layer_counts.size(), ", and ",
                      i < stage.size() ? absl::StrCat("has `", stage[i], "`") : "ends before it"));
      }
    }
    if (layer == first) {
      return settings.Fault(path, "leaves a stage empty, and stages of a plan have layers");
    }
    facts->stage_layer_counts.push_back(layer - first);
  }
  PARPLAN_RETURN_IF_ERROR(settings.status());
  if (layer == model.layer_count()) return absl::OkStatus();
  return settings.Fault(
      path, absl::StrCat("ends before layer ", layer, " of the model's ", model.layer_count()));
}

// Divides the layers as `_generate_llm_fqn_per_model_part` of torchtitan 0.3.0 does: embedding and
// head count as so many layers, and the first stages take what is left over.
absl::Status DivideAsTorchtitan(TorchtitanSettings& settings, const ModelSpec& model,
                                const TorchtitanPipeline& pipeline, UniformPlan* facts) {
  constexpr char kPath[] = "parallelism.pipeline_parallel_layers_per_stage";
  const int input = settings.Count("parallelism.pipeline_parallel_first_stage_less_layers", 0, 1);
  const int output = settings.Count("parallelism.pipeline_parallel_last_stage_less_layers", 0, 1);
  const int layers_per_stage = settings.Count(kPath, 1, 0);
  PARPLAN_RETURN_IF_ERROR(settings.status());
  const int64_t layers = int64_t{model.layer_count()} - 2 + input + output;
  int64_t stages = int64_t{pipeline.degree} * (pipeline.schedule == Schedule::kInterleaved ? 2 : 1);
  if (layers_per_stage > 0) {
    stages = (layers + layers_per_stage - 1) / layers_per_stage;
    const bool is_single = pipeline.schedule != Schedule::kInterleaved;
    if (stages % pipeline.degree != 0 || is_single != (stages == pipeline.degree)) {
      return settings.Fault(kPath, absl::StrCat("makes ", stages, " stages on ", pipeline.degree,
                                                " ranks, which the schedule does not take"));
    }
  }
  if (stages > layers || layers / stages < input || layers / stages < output) {
    return settings.Fault("parallelism.pipeline_parallel_degree",
                          absl::StrCat("makes ", stages, " stages of ", model.layer_count() - 2,
                                       " layers, too many for torchtitan"));
  }
  for (int64_t i = 0; i < stages; ++i) {
    int64_t count = layers / stages + (i < layers % stages ? 1 : 0);
    // The weights stand for the ends, which are a layer each here.
    if (i == 0) count += 1 - input;
    if (i == stages - 1) count += 1 - output;
    facts->stage_layer_counts.push_back(static_cast<int>(count));
  }
  return absl::OkStatus();
}

bool CountsTokens(const TorchtitanSettings& settings) {
  return settings.Has(kMicroTokens) || settings.Has(kStepTokens) || settings.Has(kContext) ||
         settings.Has(kPasses);
}

// Reads the batch of releases behind 0.3.0.
absl::Status ReadTorchtitanTokens(TorchtitanSettings& settings, const ModelSpec& model,
                                  const TorchtitanPipeline& pipeline, UniformPlan* facts) {
  for (const char* const earlier :
       {"training.batch_size", "training.local_batch_size", "training.global_batch_size",
        "parallelism.pipeline_parallel_microbatch_size"}) {
    if (!settings.Has(earlier)) continue;
    return settings.Fault(earlier,
                          "is of release 0.3.0 and before, beside sizes of later ones in tokens");
  }
  const int sequence = model.layer(1).sequence_length;
  const int tokens = settings.Count(kMicroTokens, 1, kDefaultMicroTokens);
  const int of_step = settings.Count(kStepTokens, -1, -1);
  const int given = settings.Count(kPasses, 1, 1);
  PARPLAN_RETURN_IF_ERROR(settings.status());
  if (facts->strategy.context_parallel_degree > 1) {
    return settings.Fault("parallelism.context_parallel_degree",
                          "is above 1, and releases behind 0.3.0 say in the model's configuration "
                          "how its ranks share tokens, which is not read");
  }
  if (tokens % sequence != 0) {
    return settings.Fault(kMicroTokens,
                          absl::StrCat("is ", tokens, ", which is no multiple of the ", sequence,
                                       " tokens of a sample of the model"));
  }
  const int64_t passes = pipeline.degree > 1 ? given : 1;
  // Two factors of at most 2^24 each, compared before the third.
  int64_t samples = tokens / sequence * passes;
  if (samples <= kMaxImportCount) samples *= facts->strategy.data_parallel_degree;
  if (samples > kMaxImportCount || (of_step > 0 && of_step % (samples * sequence) != 0)) {
    return settings.Fault(
        kStepTokens, absl::StrCat("must be a multiple of the ", samples, " x ", sequence,
                                  " tokens of an accumulation step, at most ", kMaxImportCount));
  }
  const int64_t steps = of_step > 0 ? of_step / (samples * sequence) : 1;
  if (pipeline.degree > 1 && steps > 1) {
    return settings.Fault(kStepTokens, absl::StrCat("empties the pipeline ", steps,
                                                    " times in a step, which no plan says; raise "
                                                    "num_pp_microbatches"));
  }
  facts->global_batch_size = samples * steps;
  facts->micro_batch_count = passes * steps;
  return absl::OkStatus();
}

absl::Status ReadTorchtitanBatch(TorchtitanSettings& settings, const ModelSpec& model,
                                 const TorchtitanPipeline& pipeline, UniformPlan* facts) {
  if (CountsTokens(settings)) return ReadTorchtitanTokens(settings, model, pipeline, facts);
  const int replicas = facts->strategy.data_parallel_degree;
  const int old_local = settings.Count("training.batch_size", 1, kDefaultLocalBatch);
  const int local = settings.Count("training.local_batch_size", 1, old_local);
  const int micro = settings.Count("parallelism.pipeline_parallel_microbatch_size", 1, 1);
  const int batch = settings.Count("training.global_batch_size", -1, -1);
  PARPLAN_RETURN_IF_ERROR(settings.status());
  const int64_t whole = int64_t{local} * replicas;
  facts->global_batch_size = batch < 0 ? whole : batch;
  if (facts->global_batch_size < 1 || facts->global_batch_size % whole != 0) {
    return settings.Fault("training.global_batch_size",
                          absl::StrCat("must be a multiple of local_batch_size ", local, " times ",
                                       replicas, " replicas"));
  }
  const int64_t steps = facts->global_batch_size / whole;
  facts->micro_batch_count = steps;
  if (pipeline.degree == 1) return absl::OkStatus();
  if (local % micro != 0) {
    return settings.Fault("parallelism.pipeline_parallel_microbatch_size",
                          absl::StrCat("does not divide local_batch_size ", local));
  }
  if (steps > 1) {
    return settings.Fault("training.global_batch_size",
                          absl::StrCat("empties the pipeline ", steps,
                                       " times in a step, which no plan says; raise "
                                       "local_batch_size"));
  }
  facts->micro_batch_count = local / micro;
  return absl::OkStatus();
}

// Refuses what is reduced or gathered oftener than a level of sharding says.
absl::Status CheckTorchtitanTraffic(const TorchtitanSettings& settings, const UniformPlan& facts) {
  const bool has_pipeline = facts.pipeline_parallel_degree() > 1;
  const ShardingLevel level = facts.strategy.sharding_level;
  const bool accumulates = !has_pipeline && facts.micro_batch_count > 1;
  if (accumulates && level == ShardingLevel::kNone && facts.strategy.data_parallel_degree > 1) {
    return settings.Fault("parallelism.data_parallel_replicate_degree",
                          absl::StrCat("all-reduces gradients in each of ", facts.micro_batch_count,
                                       " accumulation steps, which no plan says"));
  }
  if (accumulates && level == ShardingLevel::kGradients) {
    return settings.Fault("parallelism.fsdp_reshard_after_forward",
                          absl::StrCat("is never with ", facts.micro_batch_count,
                                       " accumulation steps, which gather parameters each; no plan "
                                       "says so"));
  }
  if (has_pipeline && level == ShardingLevel::kParameters) {
    return settings.Fault("parallelism.fsdp_reshard_after_forward",
                          "is always beside a pipeline, which keeps gradients whole; no plan says "
                          "so");
  }
  return absl::OkStatus();
}

// Reads the recomputation that all layers have alike; `RecomputeEveryNth` does the rest.
absl::Status ReadTorchtitanRecomputation(const TorchtitanSettings& settings, UniformPlan* facts,
                                         std::vector<std::string>* notes) {
  switch (settings.recomputation()) {
    case TorchtitanRecomputation::kNone:
      return absl::OkStatus();
    case TorchtitanRecomputation::kFull:
      facts->strategy.recompute_level = RecomputeLevel::kFull;
      return absl::OkStatus();
    case TorchtitanRecomputation::kDefault:
      notes->push_back("activation checkpointing is not said; torchtitan's default is selective");
      [[fallthrough]];
    case TorchtitanRecomputation::kSelective:
      break;
  }
  const int interval = settings.recomputed_interval();
  if (interval == 0) {
    facts->strategy.recompute_level = RecomputeLevel::kSelective;
  } else if (interval == 1) {
    facts->strategy.recompute_level = RecomputeLevel::kFull;
  } else {
    notes->push_back(absl::StrCat(
        "selective activation checkpointing without `selective_ac_option = \"op\"` recomputes one "
        "of ",
        interval,
        " layers whole, as releases before 0.3.0 do; 0.3.0, to which plans are exported, "
        "has no such policy"));
  }
  return absl::OkStatus();
}

// Recomputes every `interval`-th of the decoder layers of a pipeline rank, whose stages it goes
// through in their order (`_layer_sac_count` of distributed/activation_checkpoint.py).
void RecomputeEveryNth(int interval, const ModelSpec& model, int pipeline_degree, Plan* plan) {
  LayerStrategies layers = LayerStrategiesOf(*plan);
  std::vector<int> counts(static_cast<size_t>(pipeline_degree), 0);
  int layer = 0;
  for (size_t stage = 0; stage < layers.stage_layer_counts.size(); ++stage) {
    int& count = counts[stage % counts.size()];
    for (int i = 0; i < layers.stage_layer_counts[stage]; ++i, ++layer) {
      if (layer == 0 || layer + 1 == model.layer_count()) continue;
      if (++count % interval == 0) {
        layers.strategies[static_cast<size_t>(layer)].recompute_level = RecomputeLevel::kFull;
      }
    }
  }
  plan->stages = StagesOf(layers, model, pipeline_degree, plan->device_count / pipeline_degree);
}

// Compares a size that the file names with the model's.
absl::Status CompareSize(TorchtitanSettings& settings, const std::string& path, int expected) {
  const int value = settings.Count(path, 1, expected);
  PARPLAN_RETURN_IF_ERROR(settings.status());
  if (value == expected) return absl::OkStatus();
  return settings.Fault(path, absl::StrCat("is ", value, ", and the model's is ", expected));
}

// Compares the feed-forward width of the first layer without experts, and the sizes of experts of
// the first layer with some, which a module that parplan exported names.
absl::Status CompareTorchtitanParts(TorchtitanSettings& settings, const ModelSpec& model) {
  const LayerDefinition* dense = nullptr;
  const LayerDefinition* experts = nullptr;
  for (int layer = model.layer_count() - 2; layer > 0; --layer) {
    const LayerDefinition& definition = model.layer(layer);
    (definition.has_experts() ? experts : dense) = &definition;
  }
  if (dense != nullptr) {
    PARPLAN_RETURN_IF_ERROR(CompareSize(settings, "model.hidden_dim", dense->feed_forward_size));
  }
  if (experts == nullptr) {
    if (!settings.Has("model.num_experts")) return absl::OkStatus();
    return settings.Fault("model.num_experts", "is given, and the model has no experts");
  }
  PARPLAN_RETURN_IF_ERROR(CompareSize(settings, "model.num_experts", experts->expert_count));
  PARPLAN_RETURN_IF_ERROR(CompareSize(settings, "model.top_k", experts->experts_per_token));
  return CompareSize(settings, "model.expert_hidden_dim", experts->expert_feed_forward_size);
}

absl::Status CompareTorchtitanModel(TorchtitanSettings& settings, const ModelSpec& model) {
  const LayerDefinition& layer = model.layer(1);
  PARPLAN_RETURN_IF_ERROR(CompareSize(settings, "model.dim", layer.hidden_size));
  PARPLAN_RETURN_IF_ERROR(CompareSize(settings, "model.n_layers", model.layer_count() - 2));
  PARPLAN_RETURN_IF_ERROR(CompareSize(settings, "model.n_heads", layer.attention_head_count));
  PARPLAN_RETURN_IF_ERROR(CompareSize(settings, "model.n_kv_heads", layer.key_value_head_count));
  PARPLAN_RETURN_IF_ERROR(
      CompareSize(settings, "model.vocab_size", model.layer(0).vocabulary_size));
  PARPLAN_RETURN_IF_ERROR(CompareSize(settings, "model.head_dim", layer.head_size));
  PARPLAN_RETURN_IF_ERROR(CompareTorchtitanParts(settings, model));
  PARPLAN_RETURN_IF_ERROR(CompareSize(settings, kContext, layer.sequence_length));
  return CompareSize(settings, "training.seq_len", layer.sequence_length);
}

// Compares the types of numbers with those of plans, whose parameters and optimizer states have 32
// bits beside products in the model's precision, and whose gradients go round in 32 bits.
absl::Status CheckTorchtitanNumbers(TorchtitanSettings& settings, const ModelSpec& model,
                                    std::vector<std::string>* notes) {
  const std::string kept = settings.Text("training.dtype", "float32");
  const std::string products = settings.Text("training.mixed_precision_param", "");
  const std::string reduced = settings.Text("training.mixed_precision_reduce", "float32");
  const std::string converters = absl::StrJoin(settings.Texts("model.converters"), ", ");
  const bool is_offloaded = settings.Flag("training.enable_cpu_offload", false);
  PARPLAN_RETURN_IF_ERROR(settings.status());
  if (is_offloaded) {
    return settings.Fault("training.enable_cpu_offload",
                          "keeps parameters, gradients and optimizer states outside the devices, "
                          "which plans do not describe");
  }
  if (kept != "float32") {
    return settings.Fault(
        "training.dtype",
        absl::StrCat("keeps parameters and optimizer states in ", kept, ", and plans in 32 bits"));
  }
  const Precision precision = model.precision();
  if ((products == "float32" && precision == Precision::kBf16) ||
      (products == "bfloat16" && precision == Precision::kFp32)) {
    return settings.Fault(
        "training.mixed_precision_param",
        absl::StrCat("is ", products, ", and the model's precision is ", TraitsOf(precision).name));
  }
  if (reduced != "float32") {
    notes->push_back(absl::StrCat("training.mixed_precision_reduce ", reduced,
                                  ": the runtime `torchtitan` is predicted with gradients that go "
                                  "round in 32 bits"));
  }
  if (!converters.empty()) {
    notes->push_back(
        absl::StrCat("model.converters ", converters, ": the precision is that of the model file"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TorchtitanPlanImport> ImportTorchtitanPlan(const NamedText& config,
                                                          const std::optional<NamedText>& passes,
                                                          absl::string_view function,
                                                          const ModelSpec& model,
                                                          int device_count) {
  PARPLAN_RETURN_IF_ERROR(RequireDecoderModel(model, kTorchtitan));
  if (device_count < 1 || device_count > kMaxImportCount) {
    return ImportError(Reason::kSpecInvalid, config.name, "",
                       "needs the number of devices, which is not among the settings");
  }
  PARPLAN_ASSIGN_OR_RETURN(TorchtitanSettings settings, TorchtitanSettings::Read(config, function));
  PARPLAN_RETURN_IF_ERROR(CompareTorchtitanModel(settings, model));
  TorchtitanPlanImport import;
  PARPLAN_RETURN_IF_ERROR(CheckTorchtitanNumbers(settings, model, &import.notes));
  UniformPlan facts;
  facts.device_count = device_count;
  TorchtitanPipeline pipeline;
  PARPLAN_RETURN_IF_ERROR(ReadTorchtitanDegrees(settings, device_count, &facts, &pipeline));
  PARPLAN_RETURN_IF_ERROR(ReadTorchtitanContext(settings, &facts.strategy));
  PARPLAN_RETURN_IF_ERROR(ReadTorchtitanSchedule(settings, passes.has_value(), &pipeline));
  if (pipeline.degree == 1) {
    facts.stage_layer_counts = {model.layer_count()};
  } else if (settings.Has(kModules) || settings.Has(kLaterModules)) {
    PARPLAN_RETURN_IF_ERROR(ReadTorchtitanModules(settings, model, &facts));
  } else {
    PARPLAN_RETURN_IF_ERROR(DivideAsTorchtitan(settings, model, pipeline, &facts));
  }
  const int stage_count = static_cast<int>(facts.stage_layer_counts.size());
  const bool is_interleaved = pipeline.schedule == Schedule::kInterleaved;
  if (stage_count % pipeline.degree != 0 || is_interleaved != (stage_count > pipeline.degree)) {
    return settings.Fault("parallelism.pipeline_parallel_schedule",
                          absl::StrCat("does not take ", stage_count, " stages on ",
                                       pipeline.degree, " pipeline ranks"));
  }
  facts.virtual_stage_count = stage_count / pipeline.degree;
  PARPLAN_RETURN_IF_ERROR(ReadTorchtitanBatch(settings, model, pipeline, &facts));
  PARPLAN_RETURN_IF_ERROR(ReadTorchtitanRecomputation(settings, &facts, &import.notes));
  PARPLAN_RETURN_IF_ERROR(CheckTorchtitanTraffic(settings, facts));
  if (!passes.has_value() && is_interleaved && facts.micro_batch_count % pipeline.degree != 0) {
    return settings.Fault(
        "parallelism.pipeline_parallel_microbatch_size",
        absl::StrCat("makes ", facts.micro_batch_count, " micro-batches, and ", pipeline.degree,
                     " pipeline ranks take a multiple of their number"));
  }
  PARPLAN_RETURN_IF_ERROR(CheckTorchtitanPlan(facts, model, *FindRuntime(kTorchtitan)));
  import.plan = PlanOf(facts, model);
  import.plan.schedule = pipeline.schedule;
  if (settings.recomputed_interval() > 1) {
    RecomputeEveryNth(settings.recomputed_interval(), model, pipeline.degree, &import.plan);
  }
  PARPLAN_RETURN_IF_ERROR(CheckTorchPlan(import.plan, model, kTorchtitan, /*may_gather=*/true));
  if (passes.has_value()) {
    PARPLAN_RETURN_IF_ERROR(
        CheckPassTable(passes->text, passes->name, PipelineShapeOf(import.plan)));
  }
  if (!settings.unknown().empty()) {
    import.notes.push_back(absl::StrCat("Not known, and ignored: ", settings.unknown(), "."));
  }
  return import;
}

absl::StatusOr<TorchtitanModelImport> ImportTorchtitanModel(const NamedText& config,
                                                            absl::string_view function,
                                                            const ModelFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(TorchtitanSettings settings, TorchtitanSettings::Read(config, function));
  ModelFacts facts;
  for (const char* const part : {"model.num_experts", "model.kv_lora_rank"}) {
    if (!settings.Has(part)) continue;
    return settings.Fault(part,
                          "is of a model whose sizes the file does not have all: give a model file "
                          "with --model");
  }
  TransformerRunFacts run;
  run.kind = v1::LAYER_KIND_DECODER;
  run.feed_forward_kind = v1::FEED_FORWARD_KIND_SWIGLU;
  run.layer_count = settings.Count("model.n_layers", 1, 0);
  run.hidden_size = settings.Count("model.dim", 1, 0);
  run.attention_head_count = settings.Count("model.n_heads", 1, 0);
  run.key_value_head_count = settings.Count("model.n_kv_heads", 1, 0);
  run.head_size = settings.Count("model.head_dim", 1, 0);
  run.feed_forward_size = settings.Count("model.hidden_dim", 1, 0);
  run.sequence_length = settings.Count("training.seq_len", 1, settings.Count(kContext, 1, 0));
  facts.runs = {run};
  facts.model_id = ModelIdFrom(settings.Text("model.name", kTorchtitan));
  facts.vocabulary_size = settings.Count("model.vocab_size", 1, 0);
  facts.tied_embedding = settings.Flag("model.enable_weight_tying", false);
  facts.precision = settings.Text("training.mixed_precision_param", "bfloat16") == "float32"
                        ? v1::PRECISION_FP32
                        : v1::PRECISION_BF16;
  PARPLAN_RETURN_IF_ERROR(settings.status());
  PARPLAN_RETURN_IF_ERROR(ApplyModelFlags(flags, &facts));
  TorchtitanModelImport import;
  if (const std::vector<std::string> missing = MissingModelFacts(facts); !missing.empty()) {
    return FieldError(Reason::kSpecInvalid, config.name,
                      absl::StrCat("the file does not have all sizes of the model: give a model "
                                   "file with --model, or ",
                                   absl::StrJoin(missing, ", ")));
  }
  PARPLAN_ASSIGN_OR_RETURN(import.model, BuildModelSpec(facts, config.name));
  import.notes.push_back("layers are taken as gated decoder layers without experts and biases");
  return import;
}

}  // namespace parplan
