// The text of Megatron-LM's --pipeline-model-parallel-layout.
//
// Stages are separated by `|`; each letter is a layer: E the embedding, t a transformer layer, m a
// layer of multi-token prediction, L the loss. `x*n` repeats a letter or a `|`, `(...)*n` a text, n
// times, and with an n of 0 leaves it out; parentheses do not nest, and commas mean nothing. Blanks
// are not allowed. Stage v P + p is virtual stage v of pipeline rank p, as in `Plan::stages`.
// Source: PipelineParallelLayerLayout.parse_str_to_list of
// megatron/core/transformer/pipeline_parallel_layer_layout.py, megatron-core 0.16.1.
//
//   ParseMegatronLayout("Et*2|(t|)*2,L")  // {"Ett", "t", "t", "L"}
//
// The exporter writes it, and clients/import/megatron_plan.cc reads it.

#ifndef PARPLAN_EXPORTS_MEGATRON_LAYOUT_H_
#define PARPLAN_EXPORTS_MEGATRON_LAYOUT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

// Longest layout with all repetitions written out. Far above the layers of a plan (`kMaxLayerCount`
// is 2^14) and small enough that a short text cannot fill the memory.
inline constexpr size_t kMaxLayoutSize = size_t{1} << 17;

// Returns the letters of each stage, which may be empty. INVALID_ARGUMENT (SPEC_INVALID) with
// `field` for another character than those above; for parentheses that are nested, open, empty or
// without a number behind them; and for more than kMaxLayoutSize characters, before or after
// repetitions are written out. An empty text is one stage without layers. Whether the layout fits a
// model is not checked.
absl::StatusOr<std::vector<std::string>> ParseMegatronLayout(absl::string_view text,
                                                             absl::string_view field);

// Returns a short text that `ParseMegatronLayout` reads as `stages`. REQUIRES: at least one stage,
// of the letters above alone, which is not checked.
std::string FormatMegatronLayout(const std::vector<std::string>& stages);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_MEGATRON_LAYOUT_H_
