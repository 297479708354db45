#include "clients/import/megatron_plan.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/argument_list.h"
#include "clients/import/megatron_ends.h"
#include "clients/import/megatron_model.h"
#include "clients/import/megatron_rules.h"
#include "exports/megatron_layout.h"
#include "exports/uniform_plan.h"

namespace parplan {
namespace {

constexpr char kMegatron[] = "Megatron-LM";

// Compares the arguments of the model with `model`.
class ModelComparison {
 public:
  ModelComparison(const ArgumentList& arguments, const ModelSpec& model)
      : arguments_(arguments), model_(model) {}

  absl::Status Compare() {
    if (!arguments_.Has("num-layers")) {
      return arguments_.Fault("num-layers", "is missing");
    }
    CompareShapes();
    CompareExperts();
    CompareTraining();
    return status_;
  }

 private:
  void CompareCount(absl::string_view name, int expected) {
    const int value = arguments_.Count(name, expected);
    if (value != expected)
      Fault(name, absl::StrCat("is ", value, ", and the model's is ", expected));
  }
  void CompareSwitch(absl::string_view name, bool expected) {
    if (arguments_.Has(name) == expected) return;
    Fault(name,
          expected ? "is missing, and the model needs it" : "is given, and the model lacks it");
  }
  void Fault(absl::string_view name, absl::string_view rule) {
    if (status_.ok()) status_ = arguments_.Fault(name, rule);
  }

  void CompareShapes() {
    CompareCount("num-layers", model_.layer_count() - 2);
    CompareCount("vocab-size", model_.layer(0).vocabulary_size);
    for (int layer = 1; layer + 1 < model_.layer_count(); ++layer) {
      const LayerDefinition& definition = model_.layer(layer);
      CompareCount("hidden-size", definition.hidden_size);
      CompareCount("num-attention-heads", definition.attention_head_count);
      CompareCount("kv-channels", definition.head_size);
      CompareCount("seq-length", definition.sequence_length);
      if (definition.expert_count == 0) {
        CompareCount("ffn-hidden-size", definition.feed_forward_size);
      }
      const int groups = arguments_.Has("group-query-attention")
                             ? arguments_.Count("num-query-groups", 1)
                             : definition.attention_head_count;
      if (groups != definition.key_value_head_count) {
        Fault("num-query-groups", absl::StrCat("leaves ", groups,
                                               " key-value heads, and the model "
                                               "has ",
                                               definition.key_value_head_count));
      }
      CompareSwitch("swiglu", definition.feed_forward_kind == FeedForwardKind::kSwiglu);
    }
    CompareSwitch("untie-embeddings-and-output-weights",
                  !model_.layer(model_.layer_count() - 1).tied_embedding);
  }

  void CompareExperts() {
    const size_t layer_count = static_cast<size_t>(model_.layer_count()) - 2;
    const std::string text = arguments_.Text("moe-layer-freq", "1");
    const std::optional<std::vector<bool>> pattern = ReadMegatronExpertLayers(text, layer_count);
    if (!pattern.has_value() || pattern->size() != layer_count) {
      return Fault("moe-layer-freq",
                   absl::StrCat("must be a number or lists of 0 and 1 for ", layer_count,
                                " layers, such as `([0]*3+[1]*5)`, and is `", text, "`"));
    }
    const bool has_experts = arguments_.Has("num-experts");
    for (size_t i = 0; i < layer_count; ++i) {
      const int layer = static_cast<int>(i) + 1;
      const LayerDefinition& definition = model_.layer(layer);
      if (definition.expert_count == 0) {
        if (has_experts && (*pattern)[i]) {
          return Fault("num-experts", absl::StrCat("gives layer ", layer,
                                                   " experts, and the "
                                                   "model's has none"));
        }
        continue;
      }
      if (!has_experts) return Fault("num-experts", "is missing, and the model has experts");
      if (!(*pattern)[i]) {
        return Fault("moe-layer-freq", absl::StrCat("gives layer ", layer,
                                                    " no experts, and the "
                                                    "model's has some"));
      }
      CompareCount("num-experts", definition.expert_count);
      CompareCount("moe-router-topk", definition.experts_per_token);
      CompareCount("moe-ffn-hidden-size", definition.expert_feed_forward_size);
      if (arguments_.Count("moe-shared-expert-intermediate-size", 0) !=
          definition.shared_expert_feed_forward_size) {
        Fault("moe-shared-expert-intermediate-size",
              absl::StrCat("must be ", definition.shared_expert_feed_forward_size));
      }
    }
  }

  void CompareTraining() {
    CompareSwitch("bf16", model_.precision() == Precision::kBf16);
    CompareSwitch("fp16", model_.precision() == Precision::kFp16);
    const char* const expected = model_.optimizer() == Optimizer::kSgd ? "sgd" : "adam";
    const std::string optimizer = arguments_.Text("optimizer", "adam");
    if (optimizer != expected) {
      Fault("optimizer", absl::StrCat("is `", optimizer, "`, and the model's is ", expected));
    }
  }

  const ArgumentList& arguments_;
  const ModelSpec& model_;
  absl::Status status_;
};

absl::Status ReadMegatronSharding(const ArgumentList& arguments, Strategy* strategy) {
  const bool has_strategy = arguments.Has("data-parallel-sharding-strategy");
  strategy->sharding_level =
      arguments.Has("use-distributed-optimizer") ? ShardingLevel::kOptimizer : ShardingLevel::kNone;
  if (!arguments.Has("use-megatron-fsdp")) {
    if (has_strategy) {
      return arguments.Fault("data-parallel-sharding-strategy", "needs --use-megatron-fsdp");
    }
  } else {
    const std::string name = arguments.Text("data-parallel-sharding-strategy", "no_shard");
    if (name == "no_shard") {
      strategy->sharding_level = ShardingLevel::kNone;
    } else if (name == "optim") {
      strategy->sharding_level = ShardingLevel::kOptimizer;
    } else if (name == "optim_grads") {
      strategy->sharding_level = ShardingLevel::kGradients;
    } else if (name == "optim_grads_params") {
      strategy->sharding_level = ShardingLevel::kParameters;
    } else {
      return arguments.Fault("data-parallel-sharding-strategy",
                             absl::StrCat("must be no_shard, optim, optim_grads or "
                                          "optim_grads_params, and is `",
                                          name, "`"));
    }
  }
  if (arguments.Has("overlap-param-gather") && !arguments.Has("overlap-grad-reduce")) {
    return arguments.Fault("overlap-param-gather", "needs --overlap-grad-reduce");
  }
  if (arguments.Has("overlap-param-gather") && !arguments.Has("use-distributed-optimizer") &&
      !arguments.Has("use-megatron-fsdp")) {
    return arguments.Fault("overlap-param-gather",
                           "needs --use-distributed-optimizer or --use-megatron-fsdp");
  }
  return absl::OkStatus();
}

absl::Status ReadMegatronRecomputation(const ArgumentList& arguments, UniformPlan* facts) {
  const bool has_method = arguments.Has("recompute-method");
  const bool has_count = arguments.Has("recompute-num-layers");
  const bool has_modules = arguments.Has("recompute-modules");
  const bool is_short = arguments.Has("recompute-activations");
  const std::string granularity =
      arguments.Text("recompute-granularity", is_short ? "selective" : "");
  if (is_short && granularity != "selective") {
    return arguments.Fault("recompute-activations", "contradicts --recompute-granularity");
  }
  if (granularity != "full" && has_method) {
    return arguments.Fault("recompute-method", "needs --recompute-granularity full");
  }
  if (granularity != "full" && has_count) {
    return arguments.Fault("recompute-num-layers", "needs --recompute-granularity full");
  }
  if (granularity != "selective" && has_modules) {
    return arguments.Fault("recompute-modules", "needs --recompute-granularity selective");
  }
  if (granularity.empty()) return absl::OkStatus();
  if (granularity == "selective") {
    if (arguments.Text("recompute-modules", "core_attn") != "core_attn") {
      return arguments.Fault("recompute-modules",
                             "must be core_attn, the only part that a plan recomputes by itself");
    }
    facts->strategy.recompute_level = RecomputeLevel::kSelective;
    return absl::OkStatus();
  }
  if (granularity != "full") {
    return arguments.Fault("recompute-granularity",
                           absl::StrCat("must be full or selective, and is `", granularity, "`"));
  }
  if (!has_method) return arguments.Fault("recompute-method", "is missing");
  if (!has_count) return arguments.Fault("recompute-num-layers", "is missing");
  facts->strategy.recompute_level = RecomputeLevel::kFull;
  const int count = arguments.Count("recompute-num-layers", 1);
  const std::string method = arguments.Text("recompute-method", "");
  if (method == "block") {
    facts->recomputed_layer_count = count;
  } else if (method != "uniform") {
    return arguments.Fault("recompute-method",
                           absl::StrCat("must be uniform or block, and is `", method, "`"));
  } else if (count != 1) {
    return arguments.Fault("recompute-num-layers",
                           absl::StrCat("is ", count,
                                        ", and a plan keeps the input of each layer "
                                        "that it recomputes"));
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
    if (stages[i].empty()) {
      return arguments.Fault(kName, absl::StrCat("leaves stage ", i,
                                                 " empty, and stages of a plan "
                                                 "have layers"));
    }
    layers += stages[i];
    facts->stage_layer_counts.push_back(static_cast<int>(stages[i].size()));
  }
  const size_t decoders = static_cast<size_t>(model.layer_count()) - 2;
  if (layers != absl::StrCat("E", std::string(decoders, 't'), "L")) {
    return arguments.Fault(kName,
                           absl::StrCat("must hold the embedding E, then the model's ", decoders,
                                        " layers t, then the loss L, and no layers m"));
  }
  facts->virtual_stage_count = stage_count / pipeline;
  return absl::OkStatus();
}

// Divides the layers evenly, as Megatron-LM does without a layout.
absl::Status ReadEvenStages(const ArgumentList& arguments, const ModelSpec& model, int pipeline,
                            UniformPlan* facts) {
  if (HasMegatronEnds(arguments)) {
    return ReadMegatronEnds(arguments, model, pipeline, facts);
  }
  const int decoders = model.layer_count() - 2;
  const bool by_layers = arguments.Has("num-layers-per-virtual-pipeline-stage");
  const bool by_stages = arguments.Has("num-virtual-stages-per-pipeline-rank");
  if (by_layers && by_stages) {
    return arguments.Fault("num-layers-per-virtual-pipeline-stage",
                           "contradicts --num-virtual-stages-per-pipeline-rank");
  }
  if (decoders % pipeline != 0) {
    return arguments.Fault("pipeline-model-parallel-size",
                           absl::StrCat("does not divide ", decoders,
                                        " layers; give --pipeline-model-parallel-layout"));
  }
  int virtual_count = arguments.Count("num-virtual-stages-per-pipeline-rank", 1);
  if (by_layers) {
    const int layers = arguments.Count("num-layers-per-virtual-pipeline-stage", 1);
    if (decoders / pipeline % layers != 0) {
      return arguments.Fault(
          "num-layers-per-virtual-pipeline-stage",
          absl::StrCat("does not divide the ", decoders / pipeline, " layers of a pipeline rank"));
    }
    virtual_count = decoders / pipeline / layers;
  }
  if (virtual_count > decoders / pipeline || decoders / pipeline % virtual_count != 0) {
    return arguments.Fault(
        "num-virtual-stages-per-pipeline-rank",
        absl::StrCat("does not divide the ", decoders / pipeline, " layers of a pipeline rank"));
  }
  const int stage_count = pipeline * virtual_count;
  facts->virtual_stage_count = virtual_count;
  facts->stage_layer_counts.assign(static_cast<size_t>(stage_count), decoders / stage_count);
  ++facts->stage_layer_counts.front();
  ++facts->stage_layer_counts.back();
  return absl::OkStatus();
}

absl::Status ReadMegatronDegrees(const ArgumentList& arguments, int device_count,
                                 UniformPlan* facts, int* pipeline) {
  Strategy& strategy = facts->strategy;
  strategy.tensor_parallel_degree = arguments.Count("tensor-model-parallel-size", 1);
  strategy.context_parallel_degree = arguments.Count("context-parallel-size", 1);
  *pipeline = arguments.Count("pipeline-model-parallel-size", 1);
  const int64_t inner = int64_t{strategy.tensor_parallel_degree} * strategy.context_parallel_degree;
  // Each count is at most 2^24: a product of two fits, a product of three may not.
  if (inner > device_count || device_count % (inner * *pipeline) != 0) {
    return arguments.Fault(
        "tensor-model-parallel-size",
        absl::StrCat("times --context-parallel-size and --pipeline-model-parallel-size is ",
                     strategy.tensor_parallel_degree, " x ", strategy.context_parallel_degree,
                     " x ", *pipeline, ", which does not divide ", device_count, " devices"));
  }
  strategy.data_parallel_degree = static_cast<int>(device_count / (inner * *pipeline));
  strategy.sequence_parallel =
      arguments.Has("sequence-parallel") && strategy.tensor_parallel_degree > 1;
  const std::string kind = arguments.Text("cp-comm-type", "p2p");
  if (strategy.context_parallel_degree > 1 && kind == "a2a") {
    strategy.context_kind = ContextKind::kUlysses;
  } else if (kind != "p2p" && kind != "a2a") {
    return arguments.Fault("cp-comm-type", absl::StrCat("must be p2p or a2a, and is `", kind, "`"));
  }
  const int expert = arguments.Count("expert-model-parallel-size", 1);
  const int shared = strategy.data_parallel_degree * strategy.context_parallel_degree;
  if (shared % expert != 0) {
    return arguments.Fault("expert-model-parallel-size",
                           absl::StrCat("is ", expert, ", which does not divide the ", shared,
                                        " data- and context-parallel ranks of a stage"));
  }
  if (expert > 1 && !arguments.Has("num-experts")) {
    return arguments.Fault("expert-model-parallel-size", "needs --num-experts");
  }
  strategy.expert_parallel_degree = expert;
  const int tensor = strategy.tensor_parallel_degree;
  if (arguments.Count("expert-tensor-parallel-size", tensor) != tensor) {
    return arguments.Fault("expert-tensor-parallel-size",
                           "must be --tensor-model-parallel-size; plans have one degree for both");
  }
  return absl::OkStatus();
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
  constexpr absl::string_view kGroup = "microbatch-group-size-per-virtual-pipeline-stage";
  if (arguments.Count(kGroup, pipeline) != pipeline) {
    return arguments.Fault(kGroup, "must be --pipeline-model-parallel-size, as in plans");
  }
  if (facts->virtual_stage_count > 1 && facts->micro_batch_count % pipeline != 0) {
    return arguments.Fault(
        "micro-batch-size",
        absl::StrCat("makes ", facts->micro_batch_count, " micro-batches, and ", pipeline,
                     " pipeline ranks with virtual stages take a "
                     "multiple of their number"));
  }
  return absl::OkStatus();
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
  if (device_count < 1 || device_count > kMaxImportCount) {
    return ImportError(Reason::kSpecInvalid, arguments.file_name(), "",
                       "needs the number of devices, which is not among the arguments");
  }
  if (check == MegatronModelCheck::kCompare) {
    PARPLAN_RETURN_IF_ERROR(ModelComparison(arguments, model).Compare());
  }
  UniformPlan facts;
  facts.device_count = device_count;
  int pipeline = 1;
  PARPLAN_RETURN_IF_ERROR(ReadMegatronDegrees(arguments, device_count, &facts, &pipeline));
  PARPLAN_RETURN_IF_ERROR(ReadMegatronSharding(arguments, &facts.strategy));
  PARPLAN_RETURN_IF_ERROR(ReadMegatronRecomputation(arguments, &facts));
  PARPLAN_RETURN_IF_ERROR(arguments.Has("pipeline-model-parallel-layout")
                              ? ReadMegatronLayout(arguments, model, pipeline, &facts)
                              : ReadEvenStages(arguments, model, pipeline, &facts));
  if (facts.virtual_stage_count > 1 && pipeline == 1) {
    return arguments.Fault("pipeline-model-parallel-size",
                           "is 1, and virtual stages need a pipeline");
  }
  PARPLAN_RETURN_IF_ERROR(ReadMegatronBatch(arguments, pipeline, &facts));
  MegatronPlanImport import;
  import.plan = PlanOf(facts, model);
  if (!arguments.ignored().empty()) {
    import.notes.push_back(absl::StrCat(
        "Ignored, since they change neither shape nor parallelism: ", arguments.ignored(), "."));
  }
  return import;
}

}  // namespace parplan
