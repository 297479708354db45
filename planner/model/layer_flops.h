// The floating-point operations (FLOPs) of a layer. The importers of Galvatron's profiles and the
// cost model use them to split and to scale measured times. Numbers are those of the whole layer
// without recomputation, not of one tensor-parallel rank, and a multiply-add is two FLOPs.
//
// REQUIRES, unchecked: `LayerDefinition::Create` made each definition, and `sequence_length`, the
// tokens of a sample, is at least 1.

#ifndef PARPLAN_PLANNER_MODEL_LAYER_FLOPS_H_
#define PARPLAN_PLANNER_MODEL_LAYER_FLOPS_H_

#include "planner/model/layer_definition.h"

namespace parplan {

// Returns the FLOPs of one layer's forward pass over one sample: those of matrix products, of
// attention (`AttentionFlopsPerSample`) and of scans (both members of `ScanFlopsPerToken`, for each
// token). Norms and adapters are left out. A mixture of experts counts the router, the shared
// expert, and the experts to which one token is routed. Returns 0 for a table lookup and for an
// opaque layer. The result is only meant for ratios between sequence lengths and for splitting
// times that were measured together.
double ForwardFlopsPerSample(const LayerDefinition& definition, int sequence_length);

// Returns the part of `ForwardFlopsPerSample` that grows with the pairs of tokens: 2 * pairs * (key
// width + value width), summed over query heads. `AttentionPairs` (attention_mask.h) counts the
// pairs; causal attention has half of them. Cross decoders add sequence_length^2 pairs, as if the
// encoder had as many tokens as the decoder. Returns 0 for layers without attention.
double AttentionFlopsPerSample(const LayerDefinition& definition, int sequence_length);

// FLOPs of one token in the forward pass of one scan, without the projections around it.
struct ScanFlops {
  // FLOPs in matrix products.
  double products = 0.0;
  // FLOPs on vector units.
  double vectors = 0.0;
};

// Returns the FLOPs of one token in samples of `sequence_length` tokens, by the kind of the space:
//   - selective: 9 for each of the `inner_size * state_size` elements of the state, on vector
//     units, as VMamba counts them (arXiv 2401.10166, its FLOP counter);
//   - dual: the four products of Dao and Gu, arXiv 2405.21060, section 6;
//   - gated delta: the products of Yang et al., arXiv 2406.06484, section 3.2, and the inversion of
//     a triangular matrix for each head and chunk, which counts as vector work.
// All kinds add a convolution, which is vector work.
ScanFlops ScanFlopsPerToken(const StateSpace& space, int sequence_length);

// Returns the number of tokens in one chunk, over which a scan's matrix products go: `chunk_size`,
// or the whole sequence if that is shorter. It is a whole number. 0 for `kSelective`, which has no
// chunks.
double ScanChunk(const StateSpace& space, int sequence_length);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_LAYER_FLOPS_H_
