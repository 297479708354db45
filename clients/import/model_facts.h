// Facts that an importer has about a model before it becomes a `v1::ModelSpec`. The importers of
// models fill them in; `ApplyModelFlags` completes them, and `BuildModelSpec` makes the model of
// them. The reader of published runs (clients/calibrate) reads sizes of Megatron-LM from them and
// names its models by `ModelIdFrom`.

#ifndef PARPLAN_CLIENTS_IMPORT_MODEL_FACTS_H_
#define PARPLAN_CLIENTS_IMPORT_MODEL_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "parplan/v1/model.pb.h"
#include "planner/model/layer_definition.h"

namespace parplan {

// Consecutive equal transformer layers; sizes are elements, the sequence length is tokens. 0 and
// UNSPECIFIED mean not known, or the default of model.proto.
struct TransformerRunFacts {
  // Also LAYER_KIND_STATE_SPACE, LAYER_KIND_FEED_FORWARD and LAYER_KIND_OPAQUE.
  v1::LayerKind kind = v1::LAYER_KIND_UNSPECIFIED;
  int layer_count = 0;
  int hidden_size = 0;
  int attention_head_count = 0;
  int key_value_head_count = 0;
  int head_size = 0;
  int feed_forward_size = 0;
  v1::FeedForwardKind feed_forward_kind = v1::FEED_FORWARD_KIND_UNSPECIFIED;
  int sequence_length = 0;
  // A mixture of experts in place of the feed-forward part; 0 experts for none.
  int expert_count = 0;
  int experts_per_token = 0;
  int expert_feed_forward_size = 0;
  int shared_expert_feed_forward_size = 0;
  int expert_latent_size = 0;
  // Parameters of a layer beyond those that model.proto derives from the sizes: biases, further
  // norms. Negative if the layer has fewer.
  int64_t extra_parameter_count = 0;
  // The next seven are structures that only some layers have; 0 or absent if this run has none.
  int attention_window = 0;
  int attention_chunk_size = 0;
  std::optional<LatentAttention> latent_attention;
  std::optional<StateSpace> state_space;
  std::optional<OpaqueLayer> opaque;
  // Values that an opaque layer keeps of each token, in place of the bytes that `opaque` says; 0 if
  // it says them.
  int64_t opaque_kept_values_per_token = 0;
  // Values of each token that the layer passes to the next one; 0: as many as it is wide.
  int64_t opaque_passed_values_per_token = 0;
  int prediction_depth = 0;
  // The layer multiplies in 16 bits although the model's precision has a recipe of fewer.
  bool wide_products = false;
  // Id of the layer definition; runs of one name must be equal but for their layer count, of which
  // only the sequence length is checked. If empty, the kind names the definition, with the number
  // of the run, from 0, if several have that kind.
  std::string name;

  friend bool operator==(const TransformerRunFacts&, const TransformerRunFacts&) = default;
};

// Ending of the names of layers with windows beside layers without.
inline constexpr absl::string_view kWindowSuffix = "-window";

// An embedding, runs of transformer layers and a head. Its input is words
// (`vocabulary_size`) or image patches (`patch_value_count`, `class_count`).
struct ModelFacts {
  // The model's name, and its runs in order. Sizes that nothing has given are 0.
  std::string model_id;
  std::vector<TransformerRunFacts> runs;
  int vocabulary_size = 0;
  bool tied_embedding = false;
  int patch_value_count = 0;
  int class_count = 0;
  // Parameters of embedding and head beyond those that model.proto derives from the sizes:
  // positions, biases.
  int64_t embedding_extra_parameter_count = 0;
  int64_t head_extra_parameter_count = 0;
  v1::Precision precision = v1::PRECISION_UNSPECIFIED;
  v1::Optimizer optimizer = v1::OPTIMIZER_UNSPECIFIED;
};

// The user's flags; every field takes precedence over files, unless it is absent or an empty list.
// Scalars hold for all runs.
struct ModelFlags {
  // The fields of `ModelFacts` and of its runs with these names.
  std::optional<std::string> model_id;
  std::optional<v1::LayerKind> layer_kind;
  std::vector<int> layer_counts;      // one a run
  std::vector<int> sequence_lengths;  // one a run, or one for all
  std::optional<int> hidden_size;
  std::optional<int> attention_head_count;
  std::optional<int> key_value_head_count;
  std::optional<int> head_size;
  std::optional<int> feed_forward_size;
  std::optional<v1::FeedForwardKind> feed_forward_kind;
  std::optional<int> vocabulary_size;
  std::optional<bool> tied_embedding;
  // Layers that predict further tokens; at most as many as the file has.
  std::optional<int> prediction_layer_count;
  std::optional<v1::Precision> precision;
  std::optional<v1::Optimizer> optimizer;
};

// Returns the name of the first flag that is given, with its dashes; empty if none is.
absl::string_view GivenModelFlag(const ModelFlags& flags);

// Writes the flags over `facts`; makes as many runs as `layer_counts` has if there are none. A flag
// that gives a size or kind of the layers, but for the sequence length and `layer_kind`, drops
// their extra parameters, which belong to the sizes of the file (not those of opaque layers), and
// the hidden size and the vocabulary drop those of embedding and head. Returns INVALID_ARGUMENT
// (SPEC_INVALID) naming the flag for a list of the wrong length, a size below 1, a size of layers
// whose sizes the file gives alone (`opaque_kept_values_per_token`), or a number of prediction
// layers below 0 or above the file's; `facts` must not be used then.
absl::Status ApplyModelFlags(const ModelFlags& flags, ModelFacts* facts);

// Makes windows and chunks that are at least as long as the sequence disappear, with
// `kWindowSuffix` of the run's name, and joins neighbouring runs of one name that are equal then,
// except those that predict further tokens or have no name. REQUIRES, unchecked: the runs have
// their sequence length; in a run whose length is 0 every window disappears.
void DropLongWindows(ModelFacts* facts);

// Lists the sizes that the planner needs for a layer and `facts` lacks, each with the flag that
// gives it: `feed_forward_size (--feed-forward-size)`.
std::vector<std::string> MissingModelFacts(const ModelFacts& facts);

// Makes the model: embedding, with the width and length of the first run, the runs, and head, with
// those of the last one. Precision defaults to bf16, the optimizer to Adam. The model id is
// `ModelIdFrom` that of `facts`. Returns INVALID_ARGUMENT (SPEC_INVALID), with `source` in front,
// for facts that are missing (all of them) or that ModelFromProto refuses; naming
// `--sequence-length` for runs of one name that differ in it.
absl::StatusOr<v1::ModelSpec> BuildModelSpec(const ModelFacts& facts, absl::string_view source);

// Returns `text` with each byte that a model id may not have replaced by `-`, cut to 63 bytes;
// `model` if `text` is empty.
std::string ModelIdFrom(absl::string_view text);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MODEL_FACTS_H_
