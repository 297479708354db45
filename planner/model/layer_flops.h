// The floating-point operations of a layer. The importers of Galvatron's profiles and the cost
// model split and scale times by it.

#ifndef PARPLAN_PLANNER_MODEL_LAYER_FLOPS_H_
#define PARPLAN_PLANNER_MODEL_LAYER_FLOPS_H_

#include "planner/model/layer_definition.h"

namespace parplan {

// Returns the floating-point operations of matrices, attention and scans in one layer's forward
// pass over one sample of `sequence_length` tokens (a multiply-add is two). 0 for a table lookup
// and for an opaque layer. Of experts those count that a token passes; norms and adapters do not
// count. Only meant for ratios between sequence lengths and for splitting times that were measured
// together.
double ForwardFlopsPerSample(const LayerDefinition& definition, int sequence_length);

// Returns the part of `ForwardFlopsPerSample` that scores and their product with the values take:
// two operations for each pair of tokens that `AttentionPairs` counts and each element of a key and
// of a value, over all heads; of cross decoders also for each pair of a token and an encoded one. 0
// for layers without attention.
double AttentionFlopsPerSample(const LayerDefinition& definition, int sequence_length);

// The part of a state space after its projections. Each pass over a token does `products`
// operations in matrix products and `vectors` in vector units.
struct ScanFlops {
  double products = 0.0;
  double vectors = 0.0;
};

// Returns the operations of one token in samples of `sequence_length` tokens.
//
// Selective: 9 for each state, as VMamba counts them (arXiv 2401.10166, its FLOP counter), on
// vector units. Dual: the four products of Dao and Gu, arXiv 2405.21060, section 6. Gated delta:
// the products of Yang et al., arXiv 2406.06484, section 3.2, and the inverse of a triangle, which
// vector units make. Convolutions are vector work.
ScanFlops ScanFlopsPerToken(const StateSpace& space, int sequence_length);

// Returns the number of tokens that the products of a scan handle at once: `chunk_size`, or the
// whole sequence if that is shorter; 0 for `kSelective`.
double ScanChunk(const StateSpace& space, int sequence_length);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_LAYER_FLOPS_H_
