// Lists that say of each layer whether it has something, as Megatron-LM writes them.
// `ReadMegatronExpertLayers` and `ReadMegatronWindow` (megatron_layers.h) call it.

#ifndef PARPLAN_CLIENTS_IMPORT_LAYER_PATTERN_H_
#define PARPLAN_CLIENTS_IMPORT_LAYER_PATTERN_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

// Reads an expression of lists of 0 and 1 that are not empty, such as `([0]*3+[1]*5)*2`: lists are
// joined by `+`, repeated by `*n` after them (n from 0), and grouped by parentheses of at most 16
// levels. Spaces mean nothing. Returns nothing if `text` is no such expression, or if it or a part
// of it stands for more than `layer_count` entries. The result may be shorter than `layer_count`,
// also empty; the caller compares. Source: `_eval_pattern` of megatron/training/arguments.py, which
// evaluates the text.
std::optional<std::vector<bool>> ReadLayerPattern(absl::string_view text, size_t layer_count);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LAYER_PATTERN_H_
