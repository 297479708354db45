// Parses the names in Galvatron's profile files: keys of times, keys and blocks of memory, and the
// facts in file names. The readers of its files (galvatron_*.h) and the oracle study call it.
// Parsers of keys return nothing for a text that is no such key or has a number above
// kMaxImportCount (named_text.h). Sequence lengths are tokens, batch sizes samples.

#ifndef PARPLAN_CLIENTS_IMPORT_GALVATRON_NAMES_H_
#define PARPLAN_CLIENTS_IMPORT_GALVATRON_NAMES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

// A key of a time file: `layertype_0_bsz8_seq2048` (time of one layer per sample),
// `layertype_other_bsz8_seq[512,512]` (of embedding and head), or `layernum[2,4]_bsz8` (of a whole
// forward pass).
struct GalvatronTimeKey {
  // The three forms of the key above.
  enum class Kind { kLayer, kOther, kWholeModel };
  Kind kind = Kind::kLayer;
  // Type of the layer; only for `kLayer`.
  int layer_type = 0;
  // Layers of each type; only for `kWholeModel`.
  std::vector<int> layer_counts;
  // 0 if the key does not say.
  int batch_size = 0;
  // One, or one for each layer type; empty if the key does not say.
  std::vector<int> sequence_lengths;
  // Part of the layer: `attention`, `mlp`, or empty for the whole.
  std::string part;
};
// Returns the parts of a key of a time file; nothing for any other text.
std::optional<GalvatronTimeKey> ParseGalvatronTimeKey(absl::string_view key);

// A block of raw memory, `{pp}_{tp}_{dp}[_c][_vtp][_sp]`: the parallel degrees, at least 1, of the
// models in it, and whether they recompute layers (`_c`), split the vocabulary over the tensor
// group (`_vtp`), and are sequence parallel (`_sp`).
struct GalvatronMemoryBlock {
  int pipeline = 1;
  int tensor = 1;
  int data = 1;
  bool checkpoint = false;
  bool vocabulary_tensor = false;
  bool sequence_parallel = false;
};
// Returns the degrees and flags of the name of a block; nothing for any other text.
std::optional<GalvatronMemoryBlock> ParseGalvatronMemoryBlock(absl::string_view key);

// A key in such a block: `layernum[1]_bsz8_seq2048_rank0_act_peak`, the megabytes (2^20 bytes) of
// one rank of a model.
struct GalvatronMemoryKey {
  // Parameters, gradients and optimizer states; activations kept after a forward pass; the most
  // that activations take.
  enum class Kind { kModelStates, kActivation, kActivationPeak };
  // `_ms`, `_act` or `_act_peak`.
  Kind kind = Kind::kModelStates;
  // Layers of each type.
  std::vector<int> layer_counts;
  // The global batch, at least 1.
  int batch_size = 0;
  // One, or one for each layer type; empty if the key does not say. Unlike in a `GalvatronTimeKey`,
  // a length may be 0.
  std::vector<int> sequence_lengths;
  int rank = 0;
};
// Returns the parts of a key in a block; nothing for any other text.
std::optional<GalvatronMemoryKey> ParseGalvatronMemoryKey(absl::string_view key);

// Reads `512`, `[512,512]` or `512_512`; returns an empty list for anything else, also if a length
// is 0.
std::vector<int> ParseGalvatronSequenceList(absl::string_view text);

// Facts in a file name, without its folders; 0 or empty if it does not have them.
struct GalvatronFileName {
  int hidden_size = 0;           // hidden4096
  int attention_head_count = 0;  // _head32
  int sequence_length = 0;       // seqlen2048
  std::string precision;         // bf16, fp16 or fp32; of several the last in this order
  int node_count = 0;            // 2nodes_8gpus_per_node
  int devices_per_node = 0;
  // The product of the two above, or else 16_gpus or 16gpus; 0 for devices per node without nodes.
  int device_count = 0;
  // llama2-7b in computation_profiling_bf16_llama2-7b_all.json; empty unless the name begins like
  // this or with memory_profiling_. It is all that stands there, perhaps sizes (hidden4096_head32).
  std::string model;
};
// Returns the facts in the name of a file; a name without any is no error.
GalvatronFileName ParseGalvatronFileName(absl::string_view name);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GALVATRON_NAMES_H_
