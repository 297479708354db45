#include "clients/calibrate/megatron_arguments.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "clients/import/megatron_layers.h"
#include "clients/import/megatron_model.h"

namespace parplan::accuracy {
namespace {

constexpr int kBertVocabularySize = 30522;

// A feature that only the name of a test reveals.
struct NamedFeature {
  absl::string_view word;
  absl::string_view reason;
};
constexpr NamedFeature kNamedFeatures[] = {
    {"muon", "the Muon optimizer is not modelled"},
    {"grpo", "reinforcement learning keeps more than one model and generates text"},
    {"distill", "distillation keeps a second model"},
    {"llava", "the vision tower is not among the arguments"},
    {"mimo", "the vision tower is not among the arguments"},
    {"hybrid-hybrid", "Mamba layers are not modelled"},
    {"flextron", "Mamba layers are not modelled"},
    {"mamba", "Mamba layers are not modelled"},
    {"offload", "offloading to the host is not modelled"},
};

void ReadModel(const RowFields& arguments, PublishedRun* run) {
  PublishedModel& model = run->model;
  model.encoder = absl::StrContains(run->id, "bert");
  model.layer_count = arguments.RequiredCount({"num-layers"});
  model.hidden_size = arguments.RequiredCount({"hidden-size"});
  model.attention_head_count = arguments.RequiredCount({"num-attention-heads"});
  model.sequence_length = arguments.RequiredCount({"seq-length", "encoder-seq-length"});
  model.head_size = arguments.Count({"kv-channels"}, 1).value_or(0);
  const int group_count = arguments.Count({"num-query-groups"}, 1).value_or(1);
  if (arguments.Flag({"group-query-attention"}).value_or(false)) {
    model.key_value_head_count = group_count;
  }
  const bool gated = arguments.Flag({"swiglu"}).value_or(false);
  model.feed_forward_kind = gated ? FeedForwardKind::kSwiglu : FeedForwardKind::kGelu;
  model.feed_forward_size = arguments.Count({"ffn-hidden-size"}, 1)
                                .value_or(MegatronFeedForwardSize(model.hidden_size, gated));
  model.vocabulary_size = arguments.Count({"vocab-size", "padded-vocab-size"}, 1)
                              .value_or(model.encoder ? kBertVocabularySize : kGpt2VocabularySize);
  model.tied_embedding = !arguments.Flag({"untie-embeddings-and-output-weights"}).value_or(false);
  model.learned_positions =
      arguments.Text({"position-embedding-type"}).value_or("learned_absolute") ==
      "learned_absolute";
  if (arguments.Flag({"multi-latent-attention"}).value_or(false)) {
    run->beyond.push_back("multi-latent attention is not modelled");
  }
  if (arguments.Has({"hybrid-override-pattern", "hybrid-layer-pattern"})) {
    run->beyond.push_back("Mamba layers are not modelled");
  }
  if (arguments.Has({"mtp-num-layers"})) {
    run->beyond.push_back("multi-token prediction is not modelled");
  }
}

void ReadExpertArguments(const RowFields& arguments, PublishedRun* run) {
  PublishedModel& model = run->model;
  model.expert_count = arguments.Count({"num-experts"}, 0).value_or(0);
  if (model.expert_count == 0) return;
  model.experts_per_token = arguments.Count({"moe-router-topk"}, 1).value_or(2);
  model.expert_feed_forward_size =
      arguments.Count({"moe-ffn-hidden-size"}, 1).value_or(model.feed_forward_size);
  model.shared_expert_feed_forward_size =
      arguments.Count({"moe-shared-expert-intermediate-size"}, 0).value_or(0);
  const nlohmann::json* interval = arguments.Any({"moe-layer-freq"});
  if (interval != nullptr && !interval->is_number()) {
    run->beyond.push_back("a pattern of layers with experts (moe-layer-freq) is not read");
  } else {
    model.expert_layer_interval = arguments.Count({"moe-layer-freq"}, 1).value_or(1);
  }
}

void ReadParallelismArguments(const RowFields& arguments, PublishedRun* run) {
  PublishedParallelism& parallelism = run->parallelism;
  const auto degree = [&arguments](const char* name, int fallback) {
    return arguments.Count({name}, 1).value_or(fallback);
  };
  parallelism.tensor_parallel_degree = degree("tensor-model-parallel-size", 1);
  parallelism.pipeline_parallel_degree = degree("pipeline-model-parallel-size", 1);
  parallelism.context_parallel_degree = degree("context-parallel-size", 1);
  parallelism.expert_parallel_degree = degree("expert-model-parallel-size", 1);
  parallelism.expert_tensor_parallel_degree = degree("expert-tensor-parallel-size", 0);
  parallelism.sequence_parallel = arguments.Flag({"sequence-parallel"}).value_or(false);
  // Megatron interleaves only what has a pipeline.
  const int layers = degree("num-layers-per-virtual-pipeline-stage", 0);
  const int pipeline = parallelism.pipeline_parallel_degree;
  if (pipeline > 1) {
    parallelism.virtual_stage_count = degree("num-virtual-stages-per-pipeline-rank", 1);
    if (layers > 0) {
      if (run->model.layer_count % (pipeline * layers) != 0) {
        arguments.Fault("num-layers-per-virtual-pipeline-stage",
                        "does not divide the layers of a stage");
      } else {
        parallelism.virtual_stage_count = run->model.layer_count / pipeline / layers;
      }
    }
  }
  const bool ends_named =
      absl::StrContains(run->id, "account_for_embedding_loss_in_pipeline_split");
  const bool embedding =
      arguments.Flag({"account-for-embedding-in-pipeline-split"}).value_or(false);
  const bool loss = arguments.Flag({"account-for-loss-in-pipeline-split"}).value_or(false);
  if (embedding != loss) {
    run->beyond.push_back("only one end of the model counts as a layer of the pipeline split");
  }
  parallelism.ends_count_as_layers = ends_named || (embedding && loss);
  if (arguments.Flag({"use-distributed-optimizer"}).value_or(false)) parallelism.zero_level = 1;
  if (arguments.Flag({"use-megatron-fsdp", "use-custom-fsdp"}).value_or(false)) {
    const std::string strategy =
        arguments.Text({"data-parallel-sharding-strategy"}).value_or("no_shard");
    if (strategy == "optim_grads_params") {
      parallelism.zero_level = 3;
    } else if (strategy == "optim_grads") {
      parallelism.zero_level = 2;
    } else if (strategy == "optim") {
      parallelism.zero_level = 1;
    } else {
      parallelism.zero_level = 0;
    }
  } else if (arguments.Flag({"use-torch-fsdp2"}).value_or(false)) {
    parallelism.zero_level = 3;
  }
}

// Sets the attention kernel if the arguments decide it.
void ReadAttention(const RowFields& arguments, PublishedRun* run) {
  const std::string backend = arguments.Text({"attention-backend"}).value_or("auto");
  const bool local = arguments.Text({"transformer-impl"}).value_or("transformer_engine") == "local";
  const bool flash = arguments.Flag({"use-flash-attn"}).value_or(false);
  if (backend == "flash" || backend == "fused" || flash) {
    run->runtime.attention_kernel = AttentionKernel::kFlash;
  } else if (backend == "unfused" || backend == "local" || local) {
    run->runtime.attention_kernel = AttentionKernel::kUnfused;
  }
}

void ReadRuntimeArguments(const RowFields& arguments, PublishedRun* run) {
  ReadAttention(arguments, run);
  PublishedRuntime& runtime = run->runtime;
  runtime.overlap_gradient_sync = arguments.Flag({"overlap-grad-reduce"}).value_or(false);
  runtime.overlap_parameter_gather = arguments.Flag({"overlap-param-gather"}).value_or(false);
  // Rates are numbers from 0 on; only whether there is dropout matters.
  const nlohmann::json* attention = arguments.Any({"attention-dropout"});
  const nlohmann::json* hidden = arguments.Any({"hidden-dropout"});
  const auto is_zero = [](const nlohmann::json* rate) {
    return rate != nullptr && rate->is_number() && rate->get<double>() == 0.0;
  };
  runtime.dropout = !(is_zero(attention) && is_zero(hidden));
  const bool bf16 = arguments.Flag({"bf16"}).value_or(false);
  const bool fp16 = arguments.Flag({"fp16"}).value_or(false);
  run->precision = fp16 ? "fp16" : bf16 ? "bf16" : "fp32";
  runtime.fp32_gradients =
      !fp16 || arguments.Flag({"accumulate-allreduce-grads-in-fp32"}).value_or(false);
  if (arguments.Has({"fp8-format", "fp4-format"})) {
    run->beyond.push_back("8-bit matrix products (fp8-format) are not modelled");
  }
  const std::string optimizer = arguments.Text({"optimizer"}).value_or("adam");
  if (optimizer != "adam" && optimizer != "sgd") {
    run->beyond.push_back(absl::StrCat("optimizer `", optimizer, "` is not modelled"));
  }
  if (arguments.Flag({"optimizer-cpu-offload", "cpu-offloading"}).value_or(false)) {
    run->beyond.push_back("offloading to the host is not modelled");
  }
  if (arguments.Flag({"recompute-activations"}).value_or(false)) run->recompute = "selective";
  if (const auto level = arguments.Text({"recompute-granularity"})) run->recompute = *level;
  if (run->recompute.empty()) run->recompute = "none";
  if (arguments.Text({"recompute-method"}).value_or("uniform") == "block") {
    run->recompute_layer_count = arguments.Count({"recompute-num-layers"}, 1).value_or(1);
  }
}

}  // namespace

void ReadMegatronArguments(const RowFields& arguments, PublishedRun* run) {
  for (const NamedFeature& feature : kNamedFeatures) {
    if (absl::StrContains(run->id, feature.word)) {
      run->beyond.push_back(std::string(feature.reason));
      break;
    }
  }
  ReadModel(arguments, run);
  ReadExpertArguments(arguments, run);
  ReadParallelismArguments(arguments, run);
  ReadRuntimeArguments(arguments, run);
  run->micro_batch_size = arguments.Count({"micro-batch-size"}, 1).value_or(0);
  run->global_batch_size = arguments.Count({"global-batch-size"}, 1).value_or(0);
}

}  // namespace parplan::accuracy
