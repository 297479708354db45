// The pairs of tokens that attention computes: all, those up to the diagonal, or those of a window.
// The costs of attention (`ForwardFlopsPerSample`, the analytic layers and the ILP's operators)
// count by it.

#ifndef PARPLAN_PLANNER_MODEL_ATTENTION_MASK_H_
#define PARPLAN_PLANNER_MODEL_ATTENTION_MASK_H_

#include "planner/model/layer_definition.h"

namespace parplan {

// Returns the number of pairs of a query and a key of a sample of `sequence_length` tokens that
// self-attention of `layer` computes. With `causal`, a token reads itself and those before it; a
// window of w tokens reaches back to w - 1 tokens before (and, without `causal`, after it); chunks
// of w tokens read only their own. A window or chunk of 0, or one at least as long as the sequence,
// limits nothing. The layer's own `sequence_length` and its kind are not looked at, and the pairs
// of cross-attention are not counted.
//
// It is the area under the mask, as full causal attention is priced (s^2 / 2): with s tokens and a
// sliding window w < s, w s - w^2 / 2. A count token by token is more by half the diagonal that
// the mask cuts, s / 2 of full causal attention and w / 2 of a sliding window.
double AttentionPairs(const LayerDefinition& layer, bool causal, double sequence_length);

// Returns `AttentionPairs` as a share of those of full attention with the same `causal`: exactly 1
// without a window or chunks, or with one at least as long as the sequence. REQUIRES:
// `sequence_length` is above 0, which is not checked.
double VisibleShare(const LayerDefinition& layer, bool causal, double sequence_length);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_ATTENTION_MASK_H_
