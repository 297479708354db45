// Layers that model.proto has no kind for and whose sizes follow from the fields of a
// `config.json`: they become opaque layers. `ReadTransformer` (transformer_config.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_MADE_LAYERS_H_
#define PARPLAN_CLIENTS_IMPORT_MADE_LAYERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/extra_parameters.h"
#include "clients/import/model_facts.h"
#include "clients/import/state_space_config.h"

namespace parplan {

// A gated convolution over a few tokens in place of attention (LFM2: `Lfm2ShortConv` of
// transformers): a product to three vectors as wide as the layer, a convolution of each channel,
// and a product back.
struct ShortConvolution {
  // Tokens that the convolution reads; 0: there is none.
  int width = 0;
  bool has_bias = false;
};

// A recurrence of each channel with gates in place of attention (Griffin, arXiv 2402.19427, section
// 2.4; `RecurrentGemmaRecurrentBlock` of transformers): two products, a convolution and the
// recurrence behind one of them, and a product back of both.
struct GatedRecurrence {
  // Channels; 0: there is no recurrence.
  int width = 0;
  // Tokens that the convolution reads.
  int convolution_width = 0;
  // Blocks of the matrices of the gates; divides `width`.
  int block_count = 1;
};

// Returns the parameters of a layer of this state space alone, with its norm, that follow from the
// sizes; 0 after an error, which `fields` remembers.
int64_t StateSpaceParameters(int hidden_size, const StateSpaceFacts& state_space,
                             ConfigFields& fields);

// Returns the values of a token that PyTorch's eager operations keep of a state space: the
// projections, the convolution's output, the recurrence's output with and without its gate, and the
// states at the ends of chunks.
int64_t StateSpaceValues(const StateSpace& space);

// Reads the convolution of layers of `hidden_size`, and notes that its layers are opaque. `fields`
// remembers errors; after one the result must not be used.
ShortConvolution ReadShortConvolution(ConfigFields& fields, int hidden_size,
                                      std::vector<std::string>* notes);

// Reads the recurrence of layers of `hidden_size` likewise.
GatedRecurrence ReadGatedRecurrence(ConfigFields& fields, int hidden_size,
                                    std::vector<std::string>* notes);

// Notes that layers of attention and a state space beside each other are opaque.
void NoteMixersBesideEachOther(std::vector<std::string>* notes);

// Returns the opaque layer that has the convolution and the feed-forward part of `layer`, dense or
// of experts. Its parameters are exact, with `extra` if `counts_all_parameters`; what it keeps is
// the tensors of PyTorch's eager operations. `fields` remembers sizes that are too large.
TransformerRunFacts LayerOfConvolution(const TransformerRunFacts& layer,
                                       const ShortConvolution& convolution,
                                       const LayerExtras& extra, bool counts_all_parameters,
                                       ConfigFields& fields);

// The same for a recurrence.
TransformerRunFacts LayerOfRecurrence(const TransformerRunFacts& layer,
                                      const GatedRecurrence& recurrence, const LayerExtras& extra,
                                      bool counts_all_parameters, ConfigFields& fields);

// Returns the opaque layer that has the attention and the feed-forward part of `layer`, with the
// parameters that `layer` says beyond its sizes, and passes on `passed_values` of each token.
TransformerRunFacts LayerThatPasses(const TransformerRunFacts& layer, int64_t passed_values,
                                    ConfigFields& fields);

// Returns the opaque layer in which the attention of `layer` and a state space read the same input
// and add their outputs (Falcon-H1, arXiv 2507.22448, section 2.1), with the feed-forward part of
// `layer`. The rest is as for `LayerOfConvolution`.
TransformerRunFacts LayerOfBothMixers(const TransformerRunFacts& layer,
                                      const StateSpaceFacts& state_space, const LayerExtras& extra,
                                      bool counts_all_parameters, ConfigFields& fields);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MADE_LAYERS_H_
