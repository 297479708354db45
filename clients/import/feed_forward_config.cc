#include "clients/import/feed_forward_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "clients/import/named_text.h"

namespace parplan {
namespace {

// Llama's rule: two thirds of the width of a part without a gate, times a factor, rounded up.
int GatedFeedForwardSize(int64_t plain_size, double factor, int multiple) {
  const double wide = std::floor(factor * static_cast<double>(plain_size * 2 / 3));
  const double rounded = std::ceil(wide / multiple) * multiple;
  return static_cast<int>(std::min<double>(rounded, kMaxImportCount));
}

// Returns the width that DBRX's object of its experts says, or 0.
int NestedFeedForwardSize(ConfigFields& fields) {
  const nlohmann::json* const nested = fields.Object("ffn_config");
  if (nested == nullptr) return 0;
  ConfigFields inner(*nested, fields.file_name(), "ffn_config.");
  const int size = inner.Optional({"ffn_hidden_size"}, 0);
  fields.Take(inner);
  return size;
}

}  // namespace

bool ReadGate(const FamilyTraits& traits, ConfigFields& fields) {
  const std::string kind = fields.Text("mlp_type");
  if (!kind.empty() && kind != "default" && kind != "gated") {
    fields.Fail("mlp_type", "must be `default` or `gated`");
  }
  return fields.Flag(
      {"use_gated_activation", "gated_mlp", "use_glu", "ffn_with_glu", "block_use_swiglu"},
      kind == "gated" || traits.is_gated);
}

int ReadFeedForwardSize(const FamilyTraits& traits, ConfigFields& fields, int hidden_size,
                        std::vector<std::string>* notes) {
  const int multiple = fields.Optional({"multiple_of", "block_multiple_of"}, 256);
  const double factor = fields.PositiveNumber(
      "ffn_dim_multiplier", fields.PositiveNumber("block_ffn_dim_multiplier", 1.0));
  int size = fields.Optional({"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size",
                              "hidden_dim", "block_ff_dim", "ff_intermediate_size"},
                             NestedFeedForwardSize(fields));
  // RecurrentGemma's and Qwen 1's numbers count both products into the part.
  if (traits.model_type == "recurrent_gemma" || traits.model_type == "qwen") {
    if (size % 2 != 0) fields.Fail("intermediate_size", "must be even");
    size /= 2;
  }
  // Falcon-2 gives the number of times that the part is as wide as the layers.
  if (const int times = fields.Optional({"ff_factor"}, 0); times > 0) {
    const int product = CappedProduct(times, hidden_size);
    if (size > 0 && size != product) {
      fields.Fail("ff_factor", absl::StrCat("times the width is ", product, ", which contradicts ",
                                            "the feed-forward width ", size));
    }
    size = product;
  }
  // LFM2 gives the width to which Llama's rule is applied.
  if (fields.Flag({"block_auto_adjust_ff_dim"}, false) && size > 0) {
    return GatedFeedForwardSize(size, factor, multiple);
  }
  if (size > 0) return size;
  if (traits.is_gated) {
    const int derived = GatedFeedForwardSize(int64_t{hidden_size} * 4, factor, multiple);
    notes->push_back(absl::StrCat("feed_forward_size ", derived,
                                  " follows Llama's rule; the config gives none"));
    return derived;
  }
  // The class of BLOOM has no field for it.
  const bool is_silent =
      fields.IsAbsent({"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim",
                       "expansion_ratio", "ffn_config"});
  if (is_silent && !traits.model_type.empty() && traits.model_type != "bloom") {
    notes->push_back(absl::StrCat("feed_forward_size ", FourTimes(hidden_size),
                                  " is four times the width; the config gives none"));
  }
  if (traits.model_type != "mpt") return FourTimes(hidden_size);
  const int64_t wide = int64_t{fields.Optional({"expansion_ratio"}, 4)} * hidden_size;
  return static_cast<int>(std::min<int64_t>(wide, kMaxImportCount));
}

int FourTimes(int hidden_size) {
  return hidden_size <= kMaxImportCount / 4 ? hidden_size * 4 : kMaxImportCount;
}

}  // namespace parplan
