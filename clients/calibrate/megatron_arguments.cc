#include "clients/calibrate/megatron_arguments.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "clients/import/argument_list.h"
#include "clients/import/megatron_degrees.h"
#include "clients/import/megatron_graphs.h"
#include "clients/import/megatron_layers.h"
#include "clients/import/megatron_model.h"
#include "clients/import/megatron_rules.h"
#include "planner/model/recompute_modules.h"

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

// Features that only these arguments switch on.
struct SwitchedFeature {
  const char* argument;
  absl::string_view reason;
};
constexpr SwitchedFeature kSwitchedFeatures[] = {
    {"multi-latent-attention", "multi-latent attention is not modelled"},
    {"hybrid-override-pattern", "Mamba layers are not modelled"},
    {"hybrid-layer-pattern", "Mamba layers are not modelled"},
    {"mtp-num-layers", "multi-token prediction is not modelled"},
    {"window-size", "attention within windows is not modelled"},
    {"fp8-format", "8-bit matrix products (fp8-format) are not modelled"},
    {"fp4-format", "4-bit matrix products (fp4-format) are not modelled"},
    {"optimizer-cpu-offload", "offloading to the host is not modelled"},
    {"cpu-offloading", "offloading to the host is not modelled"},
};

// Arguments of other releases, and those of today with the same meaning.
struct RenamedArgument {
  const char* name;
  const char* today;
};
constexpr RenamedArgument kRenamedArguments[] = {{"encoder-seq-length", "seq-length"},
                                                 {"use-custom-fsdp", "use-megatron-fsdp"}};

// Counts that some releases write as 0 for none.
bool MayBeZero(absl::string_view name) {
  return name == "num-experts" || name == "moe-shared-expert-intermediate-size" ||
         name == "mtp-num-layers";
}

// Returns the text of a value on a command line.
std::string TextOf(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Appends the argument in the words of a command line.
void AppendWords(const ArgumentRule& rule, const nlohmann::json& value,
                 std::vector<std::string>* words) {
  const absl::string_view name = rule.name;
  if (value.is_boolean()) {
    if (value.get<bool>()) words->push_back(absl::StrCat("--", name));
    return;
  }
  if (value.is_array() && rule.kind == ArgumentKind::kTexts) {
    std::vector<std::string> items;
    for (const nlohmann::json& item : value) items.push_back(TextOf(item));
    if (!items.empty()) words->push_back(absl::StrCat("--", name, "=", absl::StrJoin(items, " ")));
    return;
  }
  std::string text = TextOf(value);
  if (value.is_number_float() && value.get<double>() == std::floor(value.get<double>())) {
    text = absl::StrCat(value.get<double>());
  }
  if (text == "0" && MayBeZero(name)) return;
  words->push_back(absl::StrCat("--", name, "=", text));
}

// Returns the rules of arguments that set the model or the plan.
const std::vector<ArgumentRule>& ReadRules() {
  static const auto* const rules = [] {
    auto* read = new std::vector<ArgumentRule>;
    for (const ArgumentRule& rule : MegatronRules()) {
      if (rule.kind != ArgumentKind::kIgnored && rule.kind != ArgumentKind::kRefused) {
        read->push_back(rule);
      }
    }
    return read;
  }();
  return *rules;
}

// Returns whether a value leaves its feature off: false, 0 of a count (`mtp-num-layers`), an empty
// text or list, and a window without limits, which Megatron writes as -1 to either side.
bool IsOff(const nlohmann::json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0.0;
  if (value.is_array()) {
    return std::all_of(value.begin(), value.end(),
                       [](const nlohmann::json& item) { return item == -1; });
  }
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.empty() || text == "0";
}

// Reads the members of the row that are arguments of the model or the plan.
absl::StatusOr<ArgumentList> ReadArgumentList(const RowFields& fields) {
  std::vector<std::string> words;
  for (const ArgumentRule& rule : ReadRules()) {
    const std::string name(rule.name);
    const nlohmann::json* value = fields.Any({name.c_str()});
    for (const RenamedArgument& renamed : kRenamedArguments) {
      if (value == nullptr && name == renamed.today) value = fields.Any({renamed.name});
    }
    if (value != nullptr) AppendWords(rule, *value, &words);
  }
  return ArgumentList::FromWords("model.args", words, ReadRules());
}

// Expresses the layers with experts as every n-th one from some layer on.
void SetExpertLayers(const std::vector<bool>& has_experts, PublishedRun* run) {
  const int count = static_cast<int>(has_experts.size());
  const auto next = [&](int from) {
    return static_cast<int>(std::find(has_experts.begin() + from, has_experts.end(), true) -
                            has_experts.begin());
  };
  const int first = next(0);
  const int second = first < count ? next(first + 1) : count;
  const int interval = std::max(second - first, 1);
  for (int layer = 0; layer < count; ++layer) {
    const bool expected = layer >= first && (layer - first) % interval == 0;
    if (has_experts[static_cast<size_t>(layer)] == expected) continue;
    run->beyond.push_back("a pattern of layers with experts (moe-layer-freq) is not modelled");
    return;
  }
  run->model.dense_layer_count = first;
  run->model.expert_layer_interval = interval;
}

absl::Status SetModel(const ArgumentList& arguments, PublishedRun* run) {
  PublishedModel& model = run->model;
  model.encoder = absl::StrContains(run->id, "bert");
  for (const char* const name :
       {"num-layers", "hidden-size", "num-attention-heads", "seq-length"}) {
    if (!arguments.Has(name)) return arguments.Fault(name, "is missing");
  }
  PARPLAN_ASSIGN_OR_RETURN(const MegatronSizes sizes, ReadMegatronSizes(arguments));
  const TransformerRunFacts& layer = sizes.dense;
  model.layer_count = layer.layer_count;
  model.hidden_size = layer.hidden_size;
  model.attention_head_count = layer.attention_head_count;
  model.sequence_length = layer.sequence_length;
  model.head_size = layer.head_size;
  if (layer.key_value_head_count != layer.attention_head_count) {
    model.key_value_head_count = layer.key_value_head_count;
  }
  const bool is_gated = layer.feed_forward_kind == v1::FEED_FORWARD_KIND_SWIGLU;
  model.feed_forward_kind = is_gated ? FeedForwardKind::kSwiglu : FeedForwardKind::kGelu;
  model.feed_forward_size = layer.feed_forward_size;
  model.vocabulary_size = sizes.vocabulary_size > 0 ? sizes.vocabulary_size
                          : model.encoder           ? kBertVocabularySize
                                                    : kGpt2VocabularySize;
  model.tied_embedding = sizes.tied_embedding;
  model.learned_positions = sizes.position_count > 0;
  run->precision = sizes.precision == v1::PRECISION_FP16   ? "fp16"
                   : sizes.precision == v1::PRECISION_BF16 ? "bf16"
                                                           : "fp32";
  if (!sizes.mixture.has_value()) return absl::OkStatus();
  model.expert_count = sizes.mixture->expert_count;
  model.experts_per_token = sizes.mixture->experts_per_token;
  model.expert_feed_forward_size = sizes.mixture->expert_feed_forward_size;
  model.shared_expert_feed_forward_size = sizes.mixture->shared_expert_feed_forward_size;
  model.expert_latent_size = sizes.mixture->expert_latent_size;
  SetExpertLayers(sizes.has_experts, run);
  return absl::OkStatus();
}

// Reads how many virtual stages a pipeline rank has.
absl::Status SetVirtualStages(const ArgumentList& arguments, PublishedRun* run) {
  constexpr absl::string_view kLayers = "num-layers-per-virtual-pipeline-stage";
  PublishedParallelism& parallelism = run->parallelism;
  const int pipeline = parallelism.pipeline_parallel_degree;
  // Megatron interleaves only what has a pipeline.
  if (pipeline == 1) return absl::OkStatus();
  if (arguments.Has(kLayers) && run->model.layer_count % pipeline != 0) {
    return arguments.Fault(kLayers, "does not divide the layers of a stage");
  }
  PARPLAN_ASSIGN_OR_RETURN(parallelism.virtual_stage_count,
                           ReadMegatronVirtualStages(arguments, run->model.layer_count / pipeline));
  constexpr absl::string_view kGroup = "microbatch-group-size-per-virtual-pipeline-stage";
  if (arguments.Has(kGroup)) parallelism.micro_batch_group_size = arguments.Count(kGroup, pipeline);
  return absl::OkStatus();
}

absl::Status SetParallelism(const ArgumentList& arguments, PublishedRun* run) {
  PARPLAN_ASSIGN_OR_RETURN(const MegatronDegrees degrees, ReadMegatronDegrees(arguments));
  PublishedParallelism& parallelism = run->parallelism;
  parallelism.tensor_parallel_degree = degrees.tensor;
  parallelism.pipeline_parallel_degree = degrees.pipeline;
  parallelism.context_parallel_degree = degrees.context;
  parallelism.context_kind = degrees.context_kind;
  if (degrees.context_exchange > 1) {
    run->beyond.push_back("rings of groups that exchange tokens for heads are not read");
  }
  if (degrees.optimizer_instances > 1) {
    run->beyond.push_back("replicas of sharded groups are not read");
  }
  parallelism.expert_parallel_degree = degrees.expert;
  parallelism.expert_tensor_parallel_degree = degrees.expert_tensor;
  parallelism.sequence_parallel = degrees.sequence_parallel;
  PARPLAN_RETURN_IF_ERROR(SetVirtualStages(arguments, run));
  const bool ends_named =
      absl::StrContains(run->id, "account_for_embedding_loss_in_pipeline_split");
  const bool embedding = arguments.Has("account-for-embedding-in-pipeline-split");
  const bool loss = arguments.Has("account-for-loss-in-pipeline-split");
  if (embedding != loss) {
    run->beyond.push_back("only one end of the model counts as a layer of the pipeline split");
  }
  parallelism.ends_count_as_layers = ends_named || (embedding && loss);
  if (arguments.Has("use-distributed-optimizer") || arguments.Has("use-megatron-fsdp")) {
    parallelism.zero_level =
        static_cast<int>(degrees.sharding_level) - static_cast<int>(ShardingLevel::kNone);
  }
  const Recomputation& recomputation = degrees.recomputation;
  run->recompute = recomputation.level == RecomputeLevel::kFull   ? "full"
                   : recomputation.level == RecomputeLevel::kNone ? "none"
                                                                  : "selective";
  for (const RecomputeModule module : recomputation.modules.Modules()) {
    run->recompute_modules.emplace_back(RecomputeModuleName(module));
  }
  run->recompute_layer_count = degrees.recomputed_layer_count;
  run->micro_batch_size = arguments.Count("micro-batch-size", 0);
  run->global_batch_size = arguments.Count("global-batch-size", 0);
  return absl::OkStatus();
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

// Reads settings of the runtime, of which `list` has those that the importers read as well.
void ReadRuntimeArguments(const RowFields& arguments, const ArgumentList& list, PublishedRun* run) {
  ReadAttention(arguments, run);
  PublishedRuntime& runtime = run->runtime;
  if (!FindMegatronWholeGraphs(list).empty()) runtime.cuda_graphs = true;
  if (list.Has("moe-pad-expert-input-to-capacity")) runtime.fixed_expert_counts = true;
  runtime.overlap_gradient_sync = arguments.Flag({"overlap-grad-reduce"}).value_or(false);
  runtime.overlap_parameter_gather = arguments.Flag({"overlap-param-gather"}).value_or(false);
  // Rates are numbers from 0 on; only whether there is dropout matters.
  const nlohmann::json* attention = arguments.Any({"attention-dropout"});
  const nlohmann::json* hidden = arguments.Any({"hidden-dropout"});
  const auto is_zero = [](const nlohmann::json* rate) {
    return rate != nullptr && rate->is_number() && rate->get<double>() == 0.0;
  };
  runtime.dropout = !(is_zero(attention) && is_zero(hidden));
  runtime.fp32_gradients = run->precision != "fp16" ||
                           arguments.Flag({"accumulate-allreduce-grads-in-fp32"}).value_or(false);
}

}  // namespace

void ReadMegatronArguments(const RowFields& arguments, PublishedRun* run) {
  for (const NamedFeature& feature : kNamedFeatures) {
    if (absl::StrContains(run->id, feature.word)) {
      run->beyond.push_back(std::string(feature.reason));
      break;
    }
  }
  for (const SwitchedFeature& feature : kSwitchedFeatures) {
    const nlohmann::json* value = arguments.Any({feature.argument});
    if (value != nullptr && !IsOff(*value)) run->beyond.push_back(std::string(feature.reason));
  }
  const absl::StatusOr<ArgumentList> list = ReadArgumentList(arguments);
  absl::Status status = list.status();
  if (status.ok()) status = SetModel(*list, run);
  if (status.ok()) status = SetParallelism(*list, run);
  if (!status.ok()) return arguments.Fault(status);
  if (arguments.Flag({"use-torch-fsdp2"}).value_or(false)) run->parallelism.zero_level = 3;
  ReadRuntimeArguments(arguments, *list, run);
}

}  // namespace parplan::accuracy
