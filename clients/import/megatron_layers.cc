#include "clients/import/megatron_layers.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "clients/import/feed_forward_config.h"
#include "clients/import/layer_pattern.h"
#include "planner/model/planning_problem.h"

namespace parplan {
namespace {

constexpr absl::string_view kLatentArguments[] = {"q-lora-rank", "kv-lora-rank", "qk-head-dim",
                                                  "qk-pos-emb-head-dim", "v-head-dim"};

// Reads heads of the usual kind.
absl::Status ReadPlainHeads(const ArgumentList& arguments, TransformerRunFacts* run) {
  for (const absl::string_view name : kLatentArguments) {
    if (arguments.Has(name)) return arguments.Fault(name, "needs --multi-latent-attention");
  }
  run->head_size = arguments.Count("kv-channels", 0);
  const bool is_grouped = arguments.Has("group-query-attention");
  run->key_value_head_count =
      is_grouped ? arguments.Count("num-query-groups", 1) : run->attention_head_count;
  if (run->attention_head_count == 0) return absl::OkStatus();
  if (run->attention_head_count % run->key_value_head_count != 0) {
    return arguments.Fault("num-query-groups",
                           absl::StrCat("must divide the ", run->attention_head_count,
                                        " heads of --num-attention-heads"));
  }
  if (run->head_size == 0 && run->hidden_size % run->attention_head_count != 0) {
    return arguments.Fault(
        "num-attention-heads",
        absl::StrCat("must divide the hidden size ", run->hidden_size, " without --kv-channels"));
  }
  return absl::OkStatus();
}

// Reads heads of multi-head latent attention. --kv-channels has no meaning then.
absl::Status ReadLatentHeads(const ArgumentList& arguments, TransformerRunFacts* run) {
  if (arguments.Has("group-query-attention")) {
    return arguments.Fault("group-query-attention", "contradicts --multi-latent-attention");
  }
  LatentAttention latent;
  latent.query_rank = arguments.Count("q-lora-rank", 0);
  latent.key_value_rank = arguments.Count("kv-lora-rank", 32);
  latent.rotary_head_size = arguments.Count("qk-pos-emb-head-dim", 64);
  latent.value_head_size = arguments.Count("v-head-dim", 128);
  run->head_size = arguments.Count("qk-head-dim", 128) + latent.rotary_head_size;
  run->key_value_head_count = run->attention_head_count;
  run->latent_attention = latent;
  return absl::OkStatus();
}

absl::StatusOr<TransformerRunFacts> ReadDenseLayer(const ArgumentList& arguments) {
  TransformerRunFacts run;
  run.kind = v1::LAYER_KIND_DECODER;
  run.layer_count = arguments.Count("num-layers", 0);
  run.hidden_size = arguments.Count("hidden-size", 0);
  run.attention_head_count = arguments.Count("num-attention-heads", 0);
  run.sequence_length = arguments.Count("seq-length", 0);
  if (run.layer_count > kMaxLayerCount) {
    return arguments.Fault("num-layers", absl::StrCat("must be at most ", kMaxLayerCount));
  }
  const bool has_swiglu = arguments.Has("swiglu");
  const bool is_gated = has_swiglu || arguments.Has("quick-geglu");
  if (has_swiglu && arguments.Has("quick-geglu")) {
    return arguments.Fault("quick-geglu", "contradicts --swiglu");
  }
  run.feed_forward_kind = is_gated ? v1::FEED_FORWARD_KIND_SWIGLU : v1::FEED_FORWARD_KIND_GELU;
  // The program makes the width smaller for --swiglu alone.
  run.feed_forward_size =
      arguments.Count("ffn-hidden-size", MegatronFeedForwardSize(run.hidden_size, has_swiglu));
  PARPLAN_RETURN_IF_ERROR(arguments.Has("multi-latent-attention")
                              ? ReadLatentHeads(arguments, &run)
                              : ReadPlainHeads(arguments, &run));
  return run;
}

absl::Status ReadExpertLayers(const ArgumentList& arguments, MegatronSizes* sizes) {
  const TransformerRunFacts& dense = sizes->dense;
  if (!arguments.Has("num-experts")) {
    if (arguments.Count("moe-latent-size", 0) == 0) return absl::OkStatus();
    return arguments.Fault("moe-latent-size", "is the width of experts, and needs --num-experts");
  }
  TransformerRunFacts mixture = dense;
  mixture.expert_count = arguments.Count("num-experts", 0);
  mixture.experts_per_token = arguments.Count("moe-router-topk", 2);
  mixture.expert_feed_forward_size =
      arguments.Count("moe-ffn-hidden-size", dense.feed_forward_size);
  mixture.shared_expert_feed_forward_size =
      arguments.Count("moe-shared-expert-intermediate-size", 0);
  mixture.expert_latent_size = arguments.Count("moe-latent-size", 0);
  mixture.feed_forward_size = 0;
  if (mixture.experts_per_token > mixture.expert_count) {
    return arguments.Fault("moe-router-topk", absl::StrCat("is ", mixture.experts_per_token, " of ",
                                                           mixture.expert_count, " experts"));
  }
  sizes->mixture = std::move(mixture);
  if (dense.layer_count == 0) return absl::OkStatus();
  const std::string text = arguments.Text("moe-layer-freq", "1");
  const auto layer_count = static_cast<size_t>(dense.layer_count);
  const auto layers = ReadMegatronExpertLayers(text, layer_count);
  if (!layers.has_value() || layers->size() != layer_count) {
    return arguments.Fault("moe-layer-freq",
                           absl::StrCat("must be a number or lists of 0 and 1 for ", layer_count,
                                        " layers, such as `([0]*3+[1]*58)`, and is `", text, "`"));
  }
  sizes->has_experts = *layers;
  return absl::OkStatus();
}

// Reads whether positions are learned, the default.
absl::StatusOr<bool> HasPositionTable(const ArgumentList& arguments) {
  const std::string kind = arguments.Text("position-embedding-type", "learned_absolute");
  const bool is_learned = kind == "learned_absolute";
  for (const char* const known : {"learned_absolute", "rope", "mrope", "yarn", "none"}) {
    if (kind != known) continue;
    return is_learned && !arguments.Has("no-position-embedding") &&
           !arguments.Has("use-rotary-position-embeddings");
  }
  return arguments.Fault("position-embedding-type",
                         absl::StrCat("must be learned_absolute, rope, mrope, yarn or none, and "
                                      "is `",
                                      kind, "`"));
}

// Recipes of Transformer Engine and the precisions that they are here.
struct RecipePrecision {
  absl::string_view argument;
  absl::string_view recipe;
  v1::Precision precision;
};
constexpr RecipePrecision kRecipes[] = {
    {"fp8-recipe", "delayed", v1::PRECISION_FP8_DELAYED},
    {"fp8-recipe", "tensorwise", v1::PRECISION_FP8_CURRENT},
    {"fp8-recipe", "blockwise", v1::PRECISION_FP8_BLOCKWISE},
    {"fp8-recipe", "mxfp8", v1::PRECISION_MXFP8},
    {"fp4-recipe", "nvfp4", v1::PRECISION_NVFP4},
};

absl::Status ReadTraining(const ArgumentList& arguments, MegatronSizes* sizes) {
  PARPLAN_ASSIGN_OR_RETURN(sizes->precision, MegatronPrecisionOf(arguments));
  const std::string optimizer = arguments.Text("optimizer", "adam");
  if (optimizer != "adam" && optimizer != "sgd") {
    return arguments.Fault("optimizer",
                           absl::StrCat("must be adam or sgd, and is `", optimizer, "`"));
  }
  sizes->optimizer = optimizer == "sgd" ? v1::OPTIMIZER_SGD : v1::OPTIMIZER_ADAM;
  return absl::OkStatus();
}

// Reads `left,right`, with or without parentheses, as the tokens that causal attention reads: those
// `left` before a token, and itself. 0 for a window without an end.
absl::StatusOr<int> ReadWindowSize(const ArgumentList& arguments) {
  const std::string text = arguments.Text("window-size", "");
  const std::vector<std::string> parts = absl::StrSplit(
      absl::StrReplaceAll(text, {{"(", ""}, {")", ""}, {"[", ""}, {"]", ""}, {" ", ""}}), ',');
  int left = 0;
  int right = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &left) ||
      !absl::SimpleAtoi(parts[1], &right) || left < -1 || left >= kMaxImportCount) {
    return arguments.Fault("window-size",
                           absl::StrCat("must be two whole numbers, such as `4095,0`, the first "
                                        "at least -1 and below ",
                                        kMaxImportCount, ", and is `", text, "`"));
  }
  if (right != 0 && right != -1) {
    return arguments.Fault("window-size",
                           absl::StrCat("is `", text, "`, and attention of decoders reads no ",
                                        "tokens ahead: the second number must be 0"));
  }
  return left + 1;
}

}  // namespace

absl::StatusOr<v1::Precision> MegatronPrecisionOf(const ArgumentList& arguments) {
  if (arguments.Has("bf16") && arguments.Has("fp16")) {
    return arguments.Fault("fp16", "contradicts --bf16");
  }
  const bool is_fp8 = arguments.Has("fp8-format");
  const bool is_fp4 = arguments.Has("fp4-format");
  if (!is_fp8 && !is_fp4) {
    return arguments.Has("bf16")   ? v1::PRECISION_BF16
           : arguments.Has("fp16") ? v1::PRECISION_FP16
                                   : v1::PRECISION_FP32;
  }
  if (is_fp8 && is_fp4) return arguments.Fault("fp4-format", "contradicts --fp8-format");
  const absl::string_view format_argument = is_fp8 ? "fp8-format" : "fp4-format";
  if (!arguments.Has("bf16")) {
    return arguments.Fault(
        format_argument, "needs --bf16: all precisions of 8 and 4 bits here have bf16 beside them");
  }
  const std::string format = arguments.Text(format_argument, "");
  if (is_fp8 ? format != "e4m3" && format != "hybrid" : format != "e2m1") {
    return arguments.Fault(
        format_argument,
        absl::StrCat("must be ", is_fp8 ? "e4m3 or hybrid" : "e2m1", ", and is `", format, "`"));
  }
  const absl::string_view recipe_argument = is_fp8 ? "fp8-recipe" : "fp4-recipe";
  const std::string recipe = arguments.Text(recipe_argument, is_fp8 ? "delayed" : "nvfp4");
  for (const RecipePrecision& known : kRecipes) {
    if (known.argument == recipe_argument && known.recipe == recipe) return known.precision;
  }
  return arguments.Fault(
      recipe_argument,
      absl::StrCat("must be ", is_fp8 ? "delayed, tensorwise, blockwise or mxfp8" : "nvfp4",
                   ", and is `", recipe, "`"));
}

absl::StatusOr<std::vector<bool>> ReadMegatronWideProducts(const ArgumentList& arguments,
                                                           int layer_count) {
  constexpr absl::string_view kSwitch = "first-last-layers-bf16";
  // Without a recipe the program does not look at it.
  const bool has_recipe = arguments.Has("fp8-format") || arguments.Has("fp4-format");
  if (!arguments.Has(kSwitch) || !has_recipe) return std::vector<bool>();
  if (arguments.Has("fp8-format") && arguments.Text("fp8-recipe", "delayed") == "delayed") {
    return arguments.Fault(kSwitch, "excludes --fp8-recipe delayed, the default");
  }
  // The program's limit, because it keeps them in the first and the last stage.
  const int most = layer_count / arguments.Count("pipeline-model-parallel-size", 1);
  std::vector<bool> wide(static_cast<size_t>(layer_count), false);
  for (const bool at_start : {true, false}) {
    const char* const name = at_start ? "num-layers-at-start-in-bf16" : "num-layers-at-end-in-bf16";
    const std::string text = arguments.Text(name, "1");
    int count = 0;
    if (!absl::SimpleAtoi(text, &count) || count < 0 || count > most) {
      return arguments.Fault(name,
                             absl::StrCat("must be a whole number from 0 to the ", most,
                                          " layers of an average stage, and is `", text, "`"));
    }
    for (int i = 0; i < count; ++i) {
      wide[static_cast<size_t>(at_start ? i : layer_count - 1 - i)] = true;
    }
  }
  return wide;
}

absl::StatusOr<bool> HasMegatronNarrowParameters(const ArgumentList& arguments) {
  constexpr absl::string_view kName = "fp8-param-gather";
  if (!arguments.Has(kName)) return false;
  if (!arguments.Has("fp8-format")) return arguments.Fault(kName, "needs --fp8-format");
  return true;
}

int MegatronFeedForwardSize(int hidden_size, bool is_gated) {
  if (!is_gated) return FourTimes(hidden_size);
  return static_cast<int>(4.0 * hidden_size * 2 / 3) / 64 * 64;
}

std::optional<std::vector<bool>> ReadMegatronExpertLayers(absl::string_view text,
                                                          size_t layer_count) {
  int interval = 0;
  if (!absl::SimpleAtoi(text, &interval)) return ReadLayerPattern(text, layer_count);
  if (interval < 1) return std::nullopt;
  std::vector<bool> pattern(layer_count);
  for (size_t layer = 0; layer < layer_count; ++layer) {
    pattern[layer] = layer % static_cast<size_t>(interval) == 0;
  }
  return pattern;
}

absl::StatusOr<MegatronWindow> ReadMegatronWindow(const ArgumentList& arguments, int layer_count,
                                                  int further) {
  constexpr absl::string_view kFrequency = "window-attn-skip-freq";
  MegatronWindow window;
  if (!arguments.Has("window-size")) {
    if (arguments.Has(kFrequency)) return arguments.Fault(kFrequency, "needs --window-size");
    return window;
  }
  PARPLAN_ASSIGN_OR_RETURN(window.size, ReadWindowSize(arguments));
  if (window.size == 0) return window;
  const size_t count = static_cast<size_t>(layer_count) + static_cast<size_t>(further);
  window.has_window.assign(count, true);
  if (!arguments.Has(kFrequency)) return window;
  const std::string text = arguments.Text(kFrequency, "");
  int interval = 0;
  if (absl::SimpleAtoi(text, &interval) && interval > 0) {
    for (size_t layer = 0; layer < count; ++layer) {
      window.has_window[layer] = (layer + 1) % static_cast<size_t>(interval) != 0;
    }
    return window;
  }
  const auto pattern = ReadLayerPattern(text, static_cast<size_t>(layer_count));
  if (!pattern.has_value() || pattern->size() != static_cast<size_t>(layer_count)) {
    return arguments.Fault(kFrequency,
                           absl::StrCat("must be a number or lists of 0 and 1 for ", layer_count,
                                        " layers, such as `([1]*3+[0])*4`, and is `", text, "`"));
  }
  if (further > 0) {
    return arguments.Fault(kFrequency,
                           "is a list, which leaves open the layers of --mtp-num-layers");
  }
  window.has_window = *pattern;
  return window;
}

absl::StatusOr<MegatronSizes> ReadMegatronSizes(const ArgumentList& arguments) {
  MegatronSizes sizes;
  PARPLAN_RETURN_IF_ERROR(ReadTraining(arguments, &sizes));
  PARPLAN_ASSIGN_OR_RETURN(sizes.dense, ReadDenseLayer(arguments));
  PARPLAN_RETURN_IF_ERROR(ReadExpertLayers(arguments, &sizes));
  sizes.prediction_count = arguments.Count("mtp-num-layers", 0);
  if (sizes.prediction_count > kMaxLayerCount - sizes.dense.layer_count) {
    return arguments.Fault("mtp-num-layers",
                           absl::StrCat("and --num-layers must be at most ", kMaxLayerCount));
  }
  PARPLAN_ASSIGN_OR_RETURN(
      MegatronWindow window,
      ReadMegatronWindow(arguments, sizes.dense.layer_count, sizes.prediction_count));
  PARPLAN_ASSIGN_OR_RETURN(sizes.has_wide_products,
                           ReadMegatronWideProducts(arguments, sizes.dense.layer_count));
  sizes.window = window.size;
  sizes.has_window = std::move(window.has_window);
  sizes.vocabulary_size = arguments.Count("vocab-size", arguments.Count("padded-vocab-size", 0));
  sizes.tied_embedding = !arguments.Has("untie-embeddings-and-output-weights");
  PARPLAN_ASSIGN_OR_RETURN(const bool has_positions, HasPositionTable(arguments));
  if (has_positions) {
    sizes.position_count = arguments.Count("max-position-embeddings", sizes.dense.sequence_length);
  }
  return sizes;
}

}  // namespace parplan
