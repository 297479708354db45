// The parts that a layer of a `config.json` has. layer_layout.h and block_config.h read them, and
// transformer_config.h makes layers of them.

#ifndef PARPLAN_CLIENTS_IMPORT_LAYER_PARTS_H_
#define PARPLAN_CLIENTS_IMPORT_LAYER_PARTS_H_

#include <cstdint>
#include <string>

namespace parplan {

// The part of a layer before its feed-forward part. `kConvolution`, `kRecurrence` and
// `kBoth` are those of made_layers.h.
enum class LayerMixer { kAttention, kStateSpace, kNone, kOpaque, kConvolution, kRecurrence, kBoth };

// Keys of how many tokens attention reads as one: each, of a few, of which an indexer chooses some,
// or of many (compressed_attention.h).
enum class KeyCompression { kNone, kSparse, kHeavy };

// One layer.
struct LayerParts {
  LayerMixer mixer = LayerMixer::kAttention;
  // The layer has a feed-forward part behind the mixer.
  bool has_feed_forward = true;
  // The feed-forward part is a mixture of experts.
  bool has_experts = false;
  // Tokens that attention reads at most: of a window that slides, or of a chunk; 0: all of them. At
  // most one of the two is above 0.
  int attention_window = 0;
  int attention_chunk_size = 0;
  // Sizes of this layer; 0: those of the model.
  int attention_head_count = 0;
  int key_value_head_count = 0;
  int feed_forward_size = 0;
  int head_size = 0;
  // Parameters of this layer beyond those that its sizes and the model's biases and norms give.
  // Negative if there are fewer.
  int64_t extra_parameter_count = 0;
  KeyCompression compression = KeyCompression::kNone;
  // Attention has a part that chooses the tokens that it reads.
  bool has_indexer = false;
  // Attention reads the tokens that the indexer of an earlier layer chose.
  bool shares_indexer = false;
  // Attention reads the keys and values of an earlier layer and has none of its own.
  bool shares_keys = false;
  // Above 0: the layer is opaque, and passes on this many values of each token.
  int64_t passed_values = 0;
  // The key of an opaque layer in `GivenOpaqueLayers`: the name of its kind, or `*`; else empty.
  std::string opaque_kind;

  friend bool operator==(const LayerParts&, const LayerParts&) = default;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LAYER_PARTS_H_
