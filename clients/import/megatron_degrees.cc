#include "clients/import/megatron_degrees.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

constexpr absl::string_view kVirtualStageLayers = "num-layers-per-virtual-pipeline-stage";
constexpr absl::string_view kVirtualStagesPerRank = "num-virtual-stages-per-pipeline-rank";
constexpr absl::string_view kContextSizes = "hierarchical-context-parallel-sizes";
// An older way to name the module `moe`.
constexpr absl::string_view kExpertRecompute = "moe-layer-recompute";

absl::Status ReadMegatronSharding(const ArgumentList& arguments, MegatronDegrees* degrees) {
  const bool has_strategy = arguments.Has("data-parallel-sharding-strategy");
  degrees->sharding_level =
      arguments.Has("use-distributed-optimizer") ? ShardingLevel::kOptimizer : ShardingLevel::kNone;
  if (!arguments.Has("use-megatron-fsdp")) {
    if (has_strategy) {
      return arguments.Fault("data-parallel-sharding-strategy", "needs --use-megatron-fsdp");
    }
  } else {
    const std::string name = arguments.Text("data-parallel-sharding-strategy", "no_shard");
    if (name == "no_shard") {
      degrees->sharding_level = ShardingLevel::kNone;
    } else if (name == "optim") {
      degrees->sharding_level = ShardingLevel::kOptimizer;
    } else if (name == "optim_grads") {
      degrees->sharding_level = ShardingLevel::kGradients;
    } else if (name == "optim_grads_params") {
      degrees->sharding_level = ShardingLevel::kParameters;
    } else {
      return arguments.Fault("data-parallel-sharding-strategy",
                             absl::StrCat("must be no_shard, optim, optim_grads or "
                                          "optim_grads_params, and is `",
                                          name, "`"));
    }
  }
  constexpr absl::string_view kInstances = "num-distributed-optimizer-instances";
  degrees->optimizer_instances = arguments.Count(kInstances, 1);
  if (degrees->optimizer_instances > 1 &&
      (arguments.Has("use-megatron-fsdp") || !arguments.Has("use-distributed-optimizer"))) {
    return arguments.Fault(kInstances,
                           "needs --use-distributed-optimizer without --use-megatron-fsdp, whose "
                           "instances are not read");
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

// Reads the two levels of `a2a+p2p`: the ranks that exchange tokens for heads, and the rings of
// such groups.
absl::Status ReadMegatronContextLevels(const ArgumentList& arguments, MegatronDegrees* degrees) {
  if (!arguments.Has(kContextSizes)) {
    return arguments.Fault("cp-comm-type",
                           absl::StrCat("is a2a+p2p, which needs --", kContextSizes));
  }
  const std::string text = arguments.Text(kContextSizes, "");
  const std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  int exchange = 0;
  int ring = 0;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &exchange) ||
      !absl::SimpleAtoi(words[1], &ring) || exchange < 1 || ring < 1 ||
      int64_t{exchange} * ring != degrees->context) {
    return arguments.Fault(
        kContextSizes,
        absl::StrCat("must be two whole numbers, the ranks of an all-to-all and of a ring, whose "
                     "product is the --context-parallel-size of ",
                     degrees->context, ", and is `", text, "`"));
  }
  if (ring == 1) {
    degrees->context_kind = ContextKind::kUlysses;
  } else {
    degrees->context_exchange = exchange;
  }
  return absl::OkStatus();
}

// Checks the sizes beside another kind than `a2a+p2p`. The program does not use them then, but
// refuses another product than the context degree.
absl::Status CheckUnusedContextSizes(const ArgumentList& arguments, int context) {
  if (!arguments.Has(kContextSizes)) return absl::OkStatus();
  const std::string text = arguments.Text(kContextSizes, "");
  int64_t product = 1;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    int size = 0;
    if (!absl::SimpleAtoi(word, &size) || size < 1) size = 0;
    // A product above the degree stays above it, so it need not grow further.
    product = std::min(product * size, int64_t{context} + 1);
  }
  if (product == context) return absl::OkStatus();
  return arguments.Fault(
      kContextSizes,
      absl::StrCat("must be whole numbers whose product is the --context-parallel-size of ",
                   context, ", and is `", text, "`"));
}

// Reads how context-parallel ranks attend to each other's tokens. The argument may have a word for
// each layer.
absl::Status ReadMegatronContextKind(const ArgumentList& arguments, MegatronDegrees* degrees) {
  constexpr absl::string_view kName = "cp-comm-type";
  const std::string text = arguments.Text(kName, "p2p");
  const std::vector<std::string> kinds = absl::StrSplit(text, ' ', absl::SkipEmpty());
  for (const std::string& kind : kinds) {
    if (kind == kinds[0]) continue;
    return arguments.Fault(kName, absl::StrCat("names `", kinds[0], "` and `", kind,
                                               "`, and all layers of a plan for this program have "
                                               "one kind: give one word"));
  }
  const std::string kind = kinds.empty() ? "" : kinds[0];
  if (kind == "a2a+p2p") return ReadMegatronContextLevels(arguments, degrees);
  if (kind == "p2p") {
    degrees->context_kind = ContextKind::kRing;
  } else if (kind == "a2a") {
    degrees->context_kind = ContextKind::kUlysses;
  } else if (kind == "allgather") {
    degrees->context_kind = ContextKind::kAllGather;
  } else {
    return arguments.Fault(
        kName, absl::StrCat("must be p2p, a2a, a2a+p2p or allgather, and is `", text, "`"));
  }
  return CheckUnusedContextSizes(arguments, degrees->context);
}

// Reads the modules of selective recomputation. Attention alone is a level of its own.
absl::Status ReadMegatronModules(const ArgumentList& arguments, MegatronDegrees* degrees) {
  constexpr absl::string_view kName = "recompute-modules";
  std::vector<RecomputeModule> modules;
  std::string names = arguments.Text(kName, "core_attn");
  if (arguments.Has(kExpertRecompute)) {
    // The program adds it to the others.
    const std::vector<std::string> given = absl::StrSplit(names, ' ');
    if (std::find(given.begin(), given.end(), "moe") == given.end())
      absl::StrAppend(&names, " moe");
  }
  for (const absl::string_view name : absl::StrSplit(names, ' ', absl::SkipEmpty())) {
    const std::optional<RecomputeModule> module = FindRecomputeModule(name);
    if (!module.has_value()) {
      return arguments.Fault(kName,
                             absl::StrCat("names `", name,
                                          "`, which is none of core_attn, moe_act, layernorm, "
                                          "mla_up_proj, mlp, moe and shared_experts"));
    }
    if (std::find(modules.begin(), modules.end(), *module) != modules.end()) {
      return arguments.Fault(kName, absl::StrCat("names `", name, "` twice"));
    }
    modules.push_back(*module);
  }
  if (modules.empty()) return arguments.Fault(kName, "names no module");
  if (modules.size() == 1 && modules[0] == RecomputeModule::kCoreAttention) {
    degrees->recomputation = RecomputeLevel::kSelective;
    return absl::OkStatus();
  }
  PARPLAN_ASSIGN_OR_RETURN(const RecomputeModules set,
                           RecomputeModules::Create(modules, arguments.Field(kName)));
  degrees->recomputation = Recomputation(set);
  return absl::OkStatus();
}

absl::Status ReadMegatronRecomputation(const ArgumentList& arguments, MegatronDegrees* degrees) {
  const bool has_method = arguments.Has("recompute-method");
  const bool has_count = arguments.Has("recompute-num-layers");
  const bool has_modules = arguments.Has("recompute-modules");
  const bool is_short = arguments.Has("recompute-activations");
  const bool is_of_experts = arguments.Has(kExpertRecompute);
  const std::string granularity =
      arguments.Text("recompute-granularity", is_short || is_of_experts ? "selective" : "");
  if (is_short && granularity != "selective") {
    return arguments.Fault("recompute-activations", "contradicts --recompute-granularity");
  }
  if (is_of_experts && granularity != "selective") {
    return arguments.Fault(kExpertRecompute, "contradicts --recompute-granularity");
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
    return ReadMegatronModules(arguments, degrees);
  }
  if (granularity != "full") {
    return arguments.Fault("recompute-granularity",
                           absl::StrCat("must be full or selective, and is `", granularity, "`"));
  }
  if (!has_method) return arguments.Fault("recompute-method", "is missing");
  if (!has_count) return arguments.Fault("recompute-num-layers", "is missing");
  degrees->recomputation = RecomputeLevel::kFull;
  const int count = arguments.Count("recompute-num-layers", 1);
  const std::string method = arguments.Text("recompute-method", "");
  if (method == "block") {
    degrees->recomputed_layer_count = count;
  } else if (method != "uniform") {
    return arguments.Fault("recompute-method",
                           absl::StrCat("must be uniform or block, and is `", method, "`"));
  } else if (count != 1) {
    return arguments.Fault("recompute-num-layers",
                           absl::StrCat("is ", count,
                                        ", and a plan keeps the input of each layer "
                                        "that it recomputes; give 1 for a plan that keeps more"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MegatronDegrees> ReadMegatronDegrees(const ArgumentList& arguments) {
  MegatronDegrees degrees;
  degrees.tensor = arguments.Count("tensor-model-parallel-size", 1);
  degrees.context = arguments.Count("context-parallel-size", 1);
  degrees.pipeline = arguments.Count("pipeline-model-parallel-size", 1);
  degrees.expert = arguments.Count("expert-model-parallel-size", 1);
  degrees.expert_tensor = arguments.Count("expert-tensor-parallel-size", degrees.tensor);
  degrees.sequence_parallel = arguments.Has("sequence-parallel");
  PARPLAN_RETURN_IF_ERROR(ReadMegatronContextKind(arguments, &degrees));
  PARPLAN_RETURN_IF_ERROR(ReadMegatronSharding(arguments, &degrees));
  PARPLAN_RETURN_IF_ERROR(ReadMegatronRecomputation(arguments, &degrees));
  return degrees;
}

absl::StatusOr<int> ReadMegatronVirtualStages(const ArgumentList& arguments, int rank_layers) {
  if (arguments.Has(kVirtualStageLayers) && arguments.Has(kVirtualStagesPerRank)) {
    return arguments.Fault(kVirtualStageLayers,
                           absl::StrCat("contradicts --", kVirtualStagesPerRank));
  }
  if (!arguments.Has(kVirtualStageLayers)) return arguments.Count(kVirtualStagesPerRank, 1);
  const int layers = arguments.Count(kVirtualStageLayers, 1);
  if (rank_layers < layers || rank_layers % layers != 0) {
    return arguments.Fault(kVirtualStageLayers, absl::StrCat("does not divide the ", rank_layers,
                                                             " layers of a pipeline rank"));
  }
  return rank_layers / layers;
}

}  // namespace parplan
