// Activation tensors of structures that only some layers have, and the sizes that formulas of
// tensors share. `ActivationTensorsOf` calls them.

#ifndef PARPLAN_PLANNER_COST_STRUCTURE_TENSORS_H_
#define PARPLAN_PLANNER_COST_STRUCTURE_TENSORS_H_

#include "planner/cost/activation_tensors.h"

namespace parplan {

// The sizes that the formulas for one sample name by letters. Widths are not split over tensor
// ranks: the formulas divide by `tensor`, or by `sequence` if a rank has only its own tokens.
struct TensorSizes {
  double element = 2.0;     // e, in bytes
  double input = 2.0;       // i, of an element of a linear map's input as it is kept
  double tokens = 0.0;      // s, of a rank
  double all_tokens = 0.0;  // S, of a sample
  // s, but where experts have a tensor degree of their own: those of the ranks that share an
  // expert.
  double expert_tokens = 0.0;
  double hidden = 0.0;  // h
  // Widths of all heads together; 0 without attention, as those of one head below.
  double query = 0.0;   // q
  double key = 0.0;     // k
  double value = 0.0;   // k, but for latent attention
  double output = 0.0;  // q, but for latent attention
  // Widths of one head, the least that a rank has.
  double key_head = 0.0;
  double value_head = 0.0;
  double heads = 0.0;     // a
  double tensor = 1.0;    // t
  double sequence = 1.0;  // r
  // Whether keys and values go round a ring of ranks, and whether ranks exchange tokens for heads;
  // both for rings of such groups, and neither for a context degree of 1.
  bool is_ring = false;
  bool is_ulysses = false;
  // Ranks whose keys and values attention gathers; 0 if it gathers none.
  double gathered = 0.0;
};

// Returns the sizes of one layer on one rank.
TensorSizes TensorSizesOf(const LayerDefinition& definition, Precision precision,
                          const Strategy& strategy);

// Adds the compressed vectors of latent attention before and after their norms. With sequence
// parallelism each rank makes those of its own tokens.
void AddCompressedVectors(const LatentAttention& latent, const TensorSizes& shape,
                          TensorLifetime lifetime, ActivationTensors& tensors);

// Adds the tensors of a state space after its norm: those that its kernels keep. The dual form
// makes the convolution's output again (Dao and Gu's `mamba_split_conv1d_scan_combined`).
void AddStateSpace(const StateSpace& space, const TensorSizes& shape, ActivationTensors& tensors);

// Adds the tensors before a decoder that predicts a further token
// (`LayerDefinition::prediction_depth`), and behind it.
void AddPrediction(const TensorSizes& shape, ActivationTensors& tensors);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_STRUCTURE_TENSORS_H_
