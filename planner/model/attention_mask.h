// The pairs of tokens that attention computes: all, those up to the diagonal, or those of a window.
// The costs of attention (`ForwardFlopsPerSample`, the analytic layers and the ILP's operators) are
// proportional to their number.

#ifndef PARPLAN_PLANNER_MODEL_ATTENTION_MASK_H_
#define PARPLAN_PLANNER_MODEL_ATTENTION_MASK_H_

#include "planner/model/layer_definition.h"

namespace parplan {

// Returns the number of (query, key) pairs that self-attention of `layer` computes in a sample of
// `sequence_length` tokens. With `causal`, a token reads itself and the tokens before it; otherwise
// it reads the tokens after it too. A window of w tokens limits a token to the w - 1 tokens on each
// side that it may read; chunks of w tokens limit it to the tokens of its own chunk. A window or
// chunk of 0, or one at least as long as the sequence, limits nothing. The members
// `layer.sequence_length` and `layer.kind` are ignored, and the pairs of cross-attention are not
// counted.
//
// The number is the area under the mask: s^2 / 2 for full causal attention of s tokens, and
// w s - w^2 / 2 with a sliding window w < s. Counting token by token gives more by half the
// diagonal that the mask cuts: s / 2 for full causal attention, w / 2 for a sliding window.
double AttentionPairs(const LayerDefinition& layer, bool causal, double sequence_length);

// Returns `AttentionPairs` as a share of those of full attention with the same `causal`: exactly 1
// without a window or chunks, or with one at least as long as the sequence. REQUIRES:
// `sequence_length` is above 0, which is not checked.
double VisibleShare(const LayerDefinition& layer, bool causal, double sequence_length);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_ATTENTION_MASK_H_
