// The parameters of a layer by part, and how tensor-parallel ranks split them. The cost model, the
// operators of the ILP and `ParametersByPart` call these functions. REQUIRES, unchecked:
// `LayerDefinition::Create` made every layer that is passed.

#ifndef PARPLAN_PLANNER_MODEL_LAYER_MATRICES_H_
#define PARPLAN_PLANNER_MODEL_LAYER_MATRICES_H_

#include <cstdint>

#include "planner/model/layer_definition.h"

namespace parplan {

// Numbers of elements by how `t` tensor-parallel ranks divide them.
struct SplitElements {
  // Elements of which each rank has a t-th.
  int64_t split = 0;
  // Elements of keys and values, of which each rank has a t-th, but never less than one head.
  int64_t of_key_value_heads = 0;
  // Elements of which each rank has all.
  int64_t copied = 0;

  // Returns the elements that all ranks together have, copies counted once.
  int64_t Sum() const { return split + of_key_value_heads + copied; }
};

// The elements of one part of a layer.
struct PartElements {
  SplitElements matrices;
  // Convolutions, norms inside the part, and other vectors. Biases are counted for state spaces
  // alone.
  SplitElements vectors;

  int64_t Sum() const { return matrices.Sum() + vectors.Sum(); }
};

// Returns the number of attention blocks of a layer: 2 of a cross decoder, 1 of other layers with
// attention, else 0.
int AttentionBlockCount(LayerKind kind);

// Returns the number of norms in front of the parts of a layer, each `hidden_size` wide.
int NormCount(const LayerDefinition& layer);

// Returns the number of parameter tensors of a layer as training programs hold them, biases left
// out: queries, keys and values are one matrix, and so are gate and up, and a matrix of all experts
// of a rank. 0 for opaque layers.
int ParameterTensorCount(const LayerDefinition& layer);

// Returns the number of those parameter tensors that expert-parallel ranks divide among themselves;
// 0 for layers without experts.
int ExpertTensorCount(const LayerDefinition& layer);

// Returns the elements of the parts before the feed-forward part: all attention blocks, or the
// state space. 0 for layers with neither.
//
// Attention: queries and output, keys and values (Vaswani et al., arXiv 1706.03762; grouped heads:
// arXiv 2305.13245). Latent attention: the maps to compressed vectors and their norms are whole on
// every rank, as in Megatron Core (multi_latent_attention.py, "duplicated"). State spaces:
// `StateSpaceElements`.
PartElements MixerElements(const LayerDefinition& layer);

// Returns the elements of a state space. Selective: Mamba (Gu and Dao, arXiv 2312.00752, section
// 3.4). Dual: Mamba-2 (Dao and Gu, arXiv 2405.21060, section 7). Gated delta: Yang et al., arXiv
// 2412.06464, as Qwen3-Next has it. Biases of the convolution and of the time step belong to the
// first two.
PartElements StateSpaceElements(int hidden_size, const StateSpace& space);

// Returns the width of the projection at the input of a state space, in channels of all ranks.
double ProjectedWidth(const StateSpace& space);

// Elements of the feed-forward part.
struct FeedForwardElements {
  // Matrices of the dense part, or of the shared expert.
  int64_t dense = 0;
  int64_t router = 0;
  // The maps to the vectors of experts and back, if these are narrower than the layer.
  int64_t latent = 0;
  // Matrices of one expert.
  int64_t expert = 0;

  // Returns the elements of which every tensor-parallel rank has all.
  int64_t copied() const { return router + latent; }
};
// Returns the elements of the feed-forward part; 0 of each for a layer without one.
FeedForwardElements FeedForwardElementsOf(const LayerDefinition& layer);

// Returns the elements around a decoder that predicts a further token: the map from the pair of
// hidden state and embedding to the layer's input, and the norms of both and of the output
// (DeepSeek-V3, arXiv 2412.19437, section 2.2). 0 for other layers.
int64_t PredictionMatrixElements(const LayerDefinition& layer);
int64_t PredictionNormElements(const LayerDefinition& layer);

// Returns the elements of the adapters beside the linear maps of a layer: `rank` rows and columns
// for each row and column of a map. 0 for layers that are trained whole.
int64_t AdapterElements(const LayerDefinition& layer);

// Widths of the tensors of an attention block, all heads together.
struct AttentionWidths {
  // Elements of a row of the queries, keys and values.
  int64_t query = 0;
  int64_t key = 0;
  int64_t value = 0;
  // Attention's result before the last product.
  int64_t output = 0;
  // Width of a key and of a value of one head.
  int64_t key_head = 0;
  int64_t value_head = 0;
};
// Returns the widths of the layer's attention; 0 for layers without attention.
AttentionWidths AttentionWidthsOf(const LayerDefinition& layer);

// Returns the width of what tensor-parallel ranks exchange at the input of an attention block: the
// residual stream; or, for latent attention, the compressed vectors, and in addition the residual
// stream if its queries are not compressed.
int64_t AttentionInputWidth(const LayerDefinition& layer);

// Returns the number of parts into which `degree` ranks split keys and values: each has one head at
// least.
int64_t KeyValueParts(const LayerDefinition& layer, int64_t degree);

// Returns the elements of the largest matrix before the feed-forward part on one of `degree` ranks;
// 0 if there is none. Queries, keys and values are one matrix, but not those of latent attention.
int64_t LargestMixerMatrix(const LayerDefinition& layer, int64_t degree);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_LAYER_MATRICES_H_
