#include "clients/import/family_layers.h"

namespace parplan {

std::vector<std::string> LayersOfFamily(const FamilyTraits& traits, ConfigFields& fields,
                                        int layer_count) {
  std::vector<std::string> names;
  if (traits.model_type == "minimax" && fields.Text("model_type") != "minimax") {
    fields.Fail("attn_type_list", "is required: it says which layers have linear attention");
    return names;
  }
  for (int i = 0; i < layer_count; ++i) {
    if (traits.model_type == "mimo_v2_flash") {
      const bool is_full = i == 0 || (i + 1) % 6 == 0;
      names.emplace_back(is_full ? "full_attention" : "sliding_attention");
    } else if (traits.model_type == "minimax") {
      names.emplace_back(i % 2 == 0 ? "full_attention" : "linear_attention");
    } else if (traits.model_type == "recurrent_gemma") {
      names.emplace_back(i % 3 == 2 ? "attention" : "recurrent");
    }
  }
  return names;
}

int ReadWindow(const FamilyTraits& traits, ConfigFields& fields) {
  if (traits.model_type == "mimo_v2_flash") {
    // The class counts the token itself, and `sliding_window_size` only those before it. Files that
    // it saves have both.
    constexpr int kWindow = 129;
    const int before = fields.Count({"sliding_window_size"}, kWindow - 1);
    if (!fields.Has("sliding_window_size")) return fields.Count({"sliding_window"}, kWindow);
    fields.MarkRead("sliding_window");
    return before + 1;
  }
  const int otherwise = traits.model_type == "recurrent_gemma" ? 2048 : 0;
  return fields.Count({"sliding_window", "sliding_window_size", "attention_window_size"},
                      otherwise);
}

}  // namespace parplan
