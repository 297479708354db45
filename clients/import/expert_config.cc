#include "clients/import/expert_config.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "clients/import/layer_lists.h"
#include "clients/import/named_text.h"
#include "clients/import/state_space_config.h"

namespace parplan {
namespace {

// Names of fields that say the same.
constexpr std::initializer_list<const char*> kDenseLayerCounts = {"first_k_dense_replace",
                                                                  "num_dense_layers"};
constexpr std::initializer_list<const char*> kCountsPerToken = {
    "num_experts_per_tok", "experts_per_token", "num_experts_per_token",
    "moe_top_k",           "moe_topk",          "moe_k",
    "top_k_experts"};
constexpr std::initializer_list<const char*> kExpertCounts = {
    "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"};
constexpr std::initializer_list<const char*> kExpertSizes = {
    "moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size"};
constexpr std::initializer_list<const char*> kSharedCounts = {
    "n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"};
constexpr std::initializer_list<const char*> kSharedSizes = {
    "shared_expert_intermediate_size", "shared_intermediate_size",
    "moe_shared_expert_intermediate_size", "share_expert_dim", "share_expert_dims"};

// The places of the layers that a list of names says have experts, or none if there is no list.
void ReadNamedLayers(ConfigFields& fields, int layer_count, Experts& experts) {
  const std::vector<std::string> names =
      TextsOfLayers("mlp_layer_types", "mtp_mlp_layer_types", layer_count, fields);
  if (names.empty()) return;
  if (static_cast<int>(names.size()) != layer_count) {
    fields.Fail("mlp_layer_types", absl::StrCat("must have an entry for each of the ", layer_count,
                                                " layers of the model"));
    return;
  }
  for (int i = 0; i < layer_count; ++i) {
    // DeepSeek-V4's names; a table gives the experts of a token in the first ones.
    const bool is_sparse = names[i] == "sparse" || names[i] == "moe" || names[i] == "hash_moe";
    if (names[i] != "dense" && !is_sparse) {
      fields.Fail(absl::StrCat("mlp_layer_types[", i, "]"), "must be `dense` or `sparse`");
    }
    experts.in_layer[i] = is_sparse;
  }
}

// Returns a number for each layer, 1 for one with experts, if `moe_layer_freq` is such a list; else
// nothing.
std::vector<int> ReadMarkedLayers(ConfigFields& fields, int layer_count) {
  if (!fields.IsList("moe_layer_freq")) return {};
  const std::vector<int> marked = fields.List("moe_layer_freq", 0);
  const bool are_marks =
      std::all_of(marked.begin(), marked.end(), [](int mark) { return mark <= 1; });
  if (static_cast<int>(marked.size()) == layer_count && are_marks) return marked;
  fields.Fail("moe_layer_freq", absl::StrCat("must be a whole number, or 0 or 1 for each of the ",
                                             layer_count, " layers of the model"));
  return {};
}

// Takes experts out of the layers that ERNIE's fields leave dense.
void ReadFirstAndLast(ConfigFields& fields, int layer_count, Experts& experts) {
  const int first = fields.Count({"moe_layer_start_index"}, 0);
  // -1 stands for the last layer.
  const bool has_end =
      fields.Has("moe_layer_end_index") && !fields.IsNegative("moe_layer_end_index");
  const int last = has_end ? fields.Count({"moe_layer_end_index"}, 0) : layer_count - 1;
  fields.MarkRead("moe_layer_end_index");
  const int interval = fields.Optional({"moe_layer_interval"}, 1);
  for (int i = 0; i < layer_count; ++i) {
    if (i < first || i > last || (i + 1) % interval != 0) experts.in_layer[i] = false;
  }
}

// Takes experts out of the layers that EXAONE's list marks false.
void ReadFlaggedLayers(ConfigFields& fields, int layer_count, Experts& experts) {
  const nlohmann::json* const flags = fields.Array("is_moe_layer");
  if (flags == nullptr) return;
  // The list decides.
  fields.MarkRead("first_last_k_dense_replace");
  if (static_cast<int>(flags->size()) != layer_count) {
    fields.Fail("is_moe_layer", absl::StrCat("must have an entry for each of the ", layer_count,
                                             " layers of the model"));
    return;
  }
  for (int i = 0; i < layer_count; ++i) {
    const nlohmann::json& flag = (*flags)[i];
    if (!flag.is_boolean()) {
      fields.Fail(absl::StrCat("is_moe_layer[", i, "]"), "must be true or false");
      return;
    }
    if (!flag.get<bool>()) experts.in_layer[i] = false;
  }
}

// Returns the places of the layers with experts that `moe_layers` lists, or `moe_layers_enum`,
// which is a list too, or their text with commas (Step3).
std::vector<int> ReadListedLayers(ConfigFields& fields) {
  std::vector<int> listed = fields.List("moe_layers", 0);
  if (fields.IsList("moe_layers_enum")) return fields.List("moe_layers_enum", 0);
  const std::string text = fields.Text("moe_layers_enum");
  if (text.empty()) return listed;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int place = 0;
    if (!absl::SimpleAtoi(part, &place) || place < 0) {
      fields.Fail("moe_layers_enum", "must be places of layers, from 0, with commas between them");
      break;
    }
    listed.push_back(place);
  }
  return listed;
}

// LongCat-Flash has experts in every second layer, from the first.
void MarkPairs(Experts& experts) {
  for (size_t i = 1; i < experts.in_layer.size(); i += 2) experts.in_layer[i] = false;
}

// Counts what LongCat-Flash has beside its experts: the dense part, which processes every token,
// and in the router the experts that give back what they receive. As many of the chosen ones are
// such as of all.
void AddIdentityExperts(ConfigFields& fields, int hidden_size, int dense_size, Experts& experts,
                        std::vector<std::string>* notes) {
  const int identities = fields.Count({"zero_expert_num"}, 0);
  const std::string type = fields.Text("zero_expert_type");
  if (!type.empty() && type != "identity") fields.Fail("zero_expert_type", "must be `identity`");
  experts.shared_size = dense_size;
  experts.extra_parameter_count += int64_t{identities} * hidden_size;
  if (fields.Flag({"router_bias"}, false)) {
    experts.extra_parameter_count += int64_t{identities} + experts.count;
  }
  if (identities == 0) return;
  const int chosen = experts.per_token;
  const int64_t all = int64_t{identities} + experts.count;
  experts.per_token =
      std::max(1, static_cast<int>((int64_t{chosen} * experts.count + all / 2) / all));
  notes->push_back(absl::StrCat("zero_expert_num ", identities, ": of the ", chosen,
                                " experts of a token ", experts.per_token,
                                " are taken to compute, their share of all"));
}

// Returns how many layers the class leaves without experts at the beginning of a file that says
// nothing about its layers, with a note.
int DefaultDenseLayers(const FamilyTraits& traits, const ConfigFields& fields, int layer_count,
                       const Experts& experts, std::vector<std::string>* notes) {
  const int of_class = std::min(traits.defaults.dense_layer_count, layer_count);
  const bool says_layers =
      !fields.IsAbsent({"first_k_dense_replace", "num_dense_layers", "mlp_layer_types",
                        "is_moe_layer", "moe_layers", "moe_layers_enum", "mlp_only_layers"}) ||
      fields.IsList("moe_layer_freq");
  if (of_class == 0 || says_layers || experts.count == 0) return 0;
  notes->push_back(DefaultNote("first_k_dense_replace", of_class, traits.model_type));
  return of_class;
}

// Marks the layers with experts: all, but those that one of several rules takes out.
void ReadExpertLayers(const FamilyTraits& traits, ConfigFields& fields, int layer_count,
                      Experts& experts, std::vector<std::string>* notes) {
  experts.in_layer.assign(layer_count, true);
  // The defaults of Ling's classes.
  const bool is_ling = traits.model_type == "bailing_hybrid";
  const int dense_in_ling = HasFixedDecays(traits, fields) ? 1 : 2;
  const int dense_otherwise = is_ling
                                  ? std::min(dense_in_ling, layer_count)
                                  : DefaultDenseLayers(traits, fields, layer_count, experts, notes);
  const int dense_first = fields.Count(kDenseLayerCounts, dense_otherwise);
  if (dense_first > layer_count) {
    fields.Fail(fields.Given(kDenseLayerCounts),
                absl::StrCat("must be at most the ", layer_count, " layers of the model"));
    return;
  }
  std::fill_n(experts.in_layer.begin(), dense_first, false);
  // Jamba names the first of them.
  const int period = fields.Optional({"expert_layer_period"}, 1);
  const int offset = fields.Count({"expert_layer_offset"}, 0);
  // Every n-th layer has experts; DeepSeek counts from the first layer, the others from the last
  // of each n.
  const std::vector<int> marked = ReadMarkedLayers(fields, layer_count);
  const int frequency = marked.empty() ? fields.Optional({"moe_layer_freq"}, 1) : 1;
  const int step = fields.Optional(
      {"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_frequency"}, 1);
  if (fields.Has("expert_layer_period") && offset >= period) {
    fields.Fail("expert_layer_offset", absl::StrCat("must be below expert_layer_period ", period));
  }
  const std::vector<int> listed = ReadListedLayers(fields);
  const std::vector<int> dense = fields.List("mlp_only_layers", 0);
  for (int i = 0; i < layer_count; ++i) {
    if (i % frequency != 0 || (i + 1) % step != 0 || i % period != offset % period)
      experts.in_layer[i] = false;
    if (!marked.empty() && marked[i] == 0) experts.in_layer[i] = false;
  }
  ReadFirstAndLast(fields, layer_count, experts);
  ReadFlaggedLayers(fields, layer_count, experts);
  for (const int layer : dense) {
    if (layer >= layer_count) {
      fields.Fail("mlp_only_layers", absl::StrCat("must name layers below ", layer_count));
      return;
    }
    experts.in_layer[layer] = false;
  }
  ReadNamedLayers(fields, layer_count, experts);
  if (listed.empty()) return;
  experts.in_layer.assign(layer_count, false);
  for (const int layer : listed) {
    if (layer >= layer_count) {
      fields.Fail(fields.Has("moe_layers") ? "moe_layers" : "moe_layers_enum",
                  absl::StrCat("must name layers below ", layer_count));
      return;
    }
    experts.in_layer[layer] = true;
  }
}

// The numbers of experts in all and for a token, which DBRX has in an object of their own.
struct ExpertCounts {
  int all = 0;
  int per_token = 0;
};

ExpertCounts ReadNestedCounts(ConfigFields& fields, std::vector<std::string>* notes) {
  ExpertCounts counts;
  const nlohmann::json* const nested = fields.Object("ffn_config");
  if (nested == nullptr) return counts;
  ConfigFields inner(*nested, fields.file_name(), "ffn_config.");
  counts.all = inner.Count({"moe_num_experts"}, 0);
  counts.per_token = inner.Count({"moe_top_k"}, 0);
  for (const char* key :
       {"ffn_hidden_size", "ffn_type", "ffn_act_fn", "hidden_size", "moe_loss_weight",
        "moe_jitter_eps", "moe_normalize_expert_weights", "uniform_expert_assignment"}) {
    inner.MarkRead(key);
  }
  inner.RefuseWhatIsUnknown(notes);
  fields.Take(inner);
  return counts;
}

// Takes the sizes of experts that the class of the family has where a file is silent, and says so.
void TakeDefaultSizes(const FamilyTraits& traits, const ConfigFields& fields, int expert_count,
                      int& size, int& shared_count, int& shared_size,
                      std::vector<std::string>* notes) {
  const ClassDefaults& of_class = traits.defaults;
  if (expert_count == 0) {
    const bool is_silent = fields.IsAbsent(kExpertCounts) &&
                           fields.IsAbsent({"use_moe", "enable_moe_block", "ffn_config"});
    if (of_class.expert_count > 0 && is_silent) {
      notes->push_back(
          absl::StrCat("num_experts is absent: no layer has experts, and the default "
                       "of ",
                       traits.model_type, " is ", of_class.expert_count));
    }
    return;
  }
  const auto take = [&](const char* field, int value, int& taken) {
    if (value == 0) return;
    taken = value;
    notes->push_back(DefaultNote(field, value, traits.model_type));
  };
  const bool is_silent = fields.IsAbsent(kExpertSizes) && fields.IsAbsent({"ffn_config"});
  if (is_silent) take("moe_intermediate_size", of_class.expert_size, size);
  if (!fields.IsAbsent(kSharedCounts) || !fields.IsAbsent(kSharedSizes)) return;
  take("n_shared_experts", of_class.shared_expert_count, shared_count);
  take("shared_expert_intermediate_size", of_class.shared_expert_size, shared_size);
}

}  // namespace

Experts ReadExperts(const FamilyTraits& traits, ConfigFields& fields,
                    const TransformerRunFacts& run, int plain_size,
                    std::vector<std::string>* notes) {
  Experts experts;
  const ExpertCounts nested = ReadNestedCounts(fields, notes);
  experts.count = fields.Count(kExpertCounts, nested.all);
  // Gemma4TextConfig's switch is off where it is absent.
  const bool is_gemma4 = traits.model_type == "gemma4_text";
  // Doge's class has experts only with `is_moe`, which is refused (family_layers.h).
  const bool has_none = is_gemma4 || traits.model_type == "doge";
  const bool has_experts =
      fields.Flag({"use_moe", "enable_moe_block"}, experts.count > 0 && !has_none);
  if (!has_experts) experts.count = 0;
  if (has_experts && experts.count == 0) fields.Fail("num_experts", "is required beside use_moe");
  const int per_token = fields.Count(kCountsPerToken, nested.per_token);
  int size = fields.Count(kExpertSizes, 0);
  int shared_count = fields.Count(kSharedCounts, 0);
  int shared_size = fields.Count(kSharedSizes, 0);
  TakeDefaultSizes(traits, fields, experts.count, size, shared_count, shared_size, notes);
  experts.latent_size = fields.Count({"moe_latent_size"}, 0);
  // How a shared expert is weighed that there is not.
  if (shared_count == 0 && shared_size == 0) fields.MarkRead("shared_moe_mode");
  ReadExpertLayers(traits, fields, run.layer_count, experts, notes);
  // The first layer of these classes is dense unless a field says otherwise.
  const std::initializer_list<absl::string_view> kDenseFirst = {"mimo_v2_flash", "laguna", "hy_v4",
                                                                "axk2"};
  const bool says_layers = fields.Has("mlp_layer_types") || fields.Has("moe_layer_freq") ||
                           fields.Has("first_k_dense_replace");
  if (std::count(kDenseFirst.begin(), kDenseFirst.end(), traits.model_type) > 0 && !says_layers &&
      !experts.in_layer.empty()) {
    experts.in_layer.front() = false;
  }
  // Rules of layers that a list replaces.
  if (fields.Has("moe_layers_enum") || fields.Has("mlp_layer_types")) {
    for (const char* key : {"moe_every_n_layer", "moe_layer_offset"}) fields.MarkRead(key);
  }
  if (traits.model_type == "step3p5" && experts.count > 0 && !fields.Has("mlp_layer_types") &&
      !fields.Has("moe_layers_enum")) {
    fields.Fail("moe_layers_enum", "is required: it says which layers have experts");
  }
  const bool is_longcat = traits.model_type == "longcat_flash";
  if (is_longcat) MarkPairs(experts);
  if (experts.count < 2) {
    // One expert without a router is a dense layer.
    if (experts.count == 1 && shared_size == 0 && shared_count == 0 && size == 0) {
      experts.count = 0;
    }
    if (experts.count == 0) {
      // Granite's dense hybrids have a shared expert alone.
      experts.dense_size = fields.Has("shared_intermediate_size") ? shared_size : 0;
      if (experts.dense_size == 0 && (shared_count > 0 || shared_size > 0)) {
        fields.Fail("num_experts", "is required beside the size of a shared expert");
      }
      experts.in_layer.clear();
      return experts;
    }
  }
  if (per_token < 1 || per_token > experts.count) {
    const char* const given = fields.Given(kCountsPerToken);
    const bool is_nested = nested.per_token > 0 && !fields.Has(given);
    fields.Fail(is_nested ? "ffn_config.moe_top_k" : given,
                absl::StrCat("must be 1 to the number of experts ", experts.count));
  }
  experts.per_token = std::max(per_token, 1);
  experts.size = size > 0 ? size : plain_size;
  if (shared_count > 0 && shared_size == 0) shared_size = CappedProduct(shared_count, experts.size);
  if (traits.has_shared_expert && shared_size == 0) shared_size = experts.size;
  // Gemma 4's dense part stands beside the experts and processes every token. The experts have two
  // norms of their own, the dense part one, and the router scales of its inputs and outputs.
  if (fields.Flag({"enable_moe_block"}, false)) {
    shared_size = plain_size;
    experts.extra_parameter_count += 4 * int64_t{run.hidden_size} + experts.count;
  }
  experts.shared_size = shared_size;
  if (is_longcat) AddIdentityExperts(fields, run.hidden_size, plain_size, experts, notes);
  // Arctic's layers with experts have a dense part as wide as the layers beside them, with a norm.
  if (traits.model_type == "arctic" &&
      fields.Flag({"parallel_attn_mlp_res"}, fields.Flag({"use_residual"}, false))) {
    experts.shared_size = run.hidden_size;
    experts.extra_parameter_count += run.hidden_size;
  }
  // Behind attention, A.X K2's layers with experts have a norm with a gate too (family_layers.h).
  if (traits.model_type == "axk2") {
    experts.extra_parameter_count +=
        2 * int64_t{run.hidden_size} * fields.Count({"gated_norm_rank"}, 0);
  }
  if (traits.has_shared_expert_gate && shared_size > 0) {
    experts.extra_parameter_count += run.hidden_size;
  }
  // GPT-OSS's router has a bias, and each head a sink.
  const bool has_router_bias = fields.Flag(
      {"use_routing_bias", "moe_use_aux_free", "use_expert_bias", "moe_router_enable_expert_bias",
       "router_enable_expert_bias", "use_moe_router_bias"},
      traits.has_router_bias);
  if (traits.model_type == "gpt_oss" || has_router_bias) {
    experts.extra_parameter_count += experts.count;
  }
  return experts;
}

}  // namespace parplan
