// Reads Galvatron's memory files, of every generation, as one table. `ImportGalvatron`
// (galvatron_profile.h) and the oracle study call it.

#ifndef PARPLAN_CLIENTS_IMPORT_GALVATRON_MEMORY_H_
#define PARPLAN_CLIENTS_IMPORT_GALVATRON_MEMORY_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "clients/import/named_text.h"

namespace parplan {

// Memory of one layer. Megabytes are 2^20 bytes in all of these.
struct GalvatronLayerMemory {
  int layer_type = 0;  // from 0
  // Whether the ranks of a tensor group share the tokens of activations.
  bool sequence_parallel = false;
  int sequence_length = 0;  // tokens; 0: not in the file
  // fp32 bytes of the parameters of the whole layer.
  double parameter_megabytes = 0.0;
  // Activations of one device per sample, by tensor-parallel degree: not to be divided by it. Empty
  // if all of them were left out.
  std::map<int, double> activation_megabytes;
  // The saved input of a recomputed layer, per sample, whole.
  std::optional<double> checkpoint_megabytes;
  // Whether the values were computed from others: differences of whole models, or sums of two
  // halves.
  bool differenced = false;
};

// Memory of embedding, head, or both, by tensor-parallel degree.
struct GalvatronOtherMemory {
  // The layers whose memory it is: one of the two alone, or their sum.
  enum class Place { kBoth, kEmbedding, kHead };
  Place place = Place::kBoth;
  bool sequence_parallel = false;
  std::vector<int> sequence_lengths;  // one a layer type, one for all, or none
  // Model states of one device, not sharded: four times the fp32 bytes of its parameters.
  std::map<int, double> state_megabytes;
  // Activations of one device per sample.
  std::map<int, double> activation_megabytes;
  // Whether the values are what models of several layers leave.
  bool differenced = false;
};

// The table that is read from one or two files.
struct GalvatronMemory {
  std::vector<GalvatronLayerMemory> layers;
  std::vector<GalvatronOtherMemory> other;
  // The largest type of the layers in the file plus 1, counting types whose blocks were left out; 1
  // for layers from raw blocks.
  int layer_type_count = 0;
  // The `model_config` some files carry; null otherwise.
  nlohmann::json model_config;
  // Values that were left out or assumed, one sentence per entry.
  std::vector<std::string> notes;
};

// Reads one file, or the two halves `..._attention.json` and `..._mlp.json` of one model, whose
// parameters and activations are added. Layers that only one half has are left out, and so are
// tensor-parallel degrees that only one half has, all without a note of their own. The saved input,
// embedding, head and `model_config` are those of the first file; names do not matter. One half
// alone is read as if it were a whole layer.
//
// Negative sizes of embedding, head and activations, layers whose `parameter_size` is not above 0,
// and top-level keys of unknown meaning are left out with a note. Raw blocks beside layers, and
// models in raw blocks that cannot be used, are left out without one.
//
// Returns INVALID_ARGUMENT (PROFILE_INVALID) with file and field for no file or more than two,
// files that are no JSON objects, blocks that lack a member or are no objects, inner keys that are
// neither sequence lengths nor a tensor-parallel degree, values that are no numbers, files whose
// names say mixtures of experts, layer types from 64 on, files that hold no memory of a layer, with
// the value that is missing, and halves without a layer in common.
absl::StatusOr<GalvatronMemory> ReadGalvatronMemory(absl::Span<const NamedText> files);

// Reads a file that has raw blocks only: the memory of a layer is the difference of the smallest
// and the largest model of one layer type, on rank 0 without a pipeline, and that of embedding and
// head is what it leaves of the smallest. Raw models are sharded over their data-parallel ranks
// (ZeRO-3). Called by ReadGalvatronMemory for a file without layers; adds to `memory`, which is not
// null, and adds nothing if the models that this takes are missing. INVALID_ARGUMENT
// (PROFILE_INVALID) with file and field for a block that is no object or a value that is no number.
absl::Status ReadRawGalvatronMemory(const nlohmann::json& object, absl::string_view file_name,
                                    GalvatronMemory* memory);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GALVATRON_MEMORY_H_
