// Lists that say of each layer whether it has something, as Megatron-LM writes them.
// `ReadMegatronExpertLayers` (megatron_layers.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_LAYER_PATTERN_H_
#define PARPLAN_CLIENTS_IMPORT_LAYER_PATTERN_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

// Reads an expression of lists of 0 and 1, such as `([0]*3+[1]*5)*2`: lists are joined by `+`,
// repeated by `*n`, and grouped by parentheses of at most 16 levels. Blanks mean nothing. Returns
// nothing if `text` is no such expression, or stands for more than `layer_count` entries. Source:
// `_eval_pattern` of megatron/training/arguments.py, which evaluates the text.
std::optional<std::vector<bool>> ReadLayerPattern(absl::string_view text, size_t layer_count);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LAYER_PATTERN_H_
