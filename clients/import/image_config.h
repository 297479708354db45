// Reads an encoder of images from a `config.json`. `ReadModelConfig` (model_config.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_IMAGE_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_IMAGE_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/config_fields.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Reads encoder layers of one width over the patches of an image: ViT, DINOv2, BEiT and those built
// like them. The facts have one run, whose sequence length is the patches with the tokens beside
// them, the values of a patch, and the number of classes. Without `counts_all_parameters` the
// parameters of biases, norms, positions, scales and the tokens beside the patches are left out, as
// Galvatron wants it. `family` is the `model_type`. Absent sizes have these defaults without a
// note: images of 224 pixels a side with 3 channels; a feed-forward part of `mlp_ratio` (4 if it is
// absent) times the width, or with `use_swiglu_ffn` of two thirds of that, rounded up to a multiple
// of 8; and as many classes as have names, else 1000, or 1 for a model class without a classifier.
// Pixels beyond whole patches are left out. The size of a patch, and layers, width and heads of
// ViT, have no default. There are at most 2048 patches a side, and 64 channels; an image has at
// most 65,536 pixels a side, and a patch 4096; more is an error. Fields that are not known are left
// for the caller to judge (`ConfigFields::RefuseWhatIsUnknown`). Returns the first error of
// `config`, INVALID_ARGUMENT (SPEC_INVALID) with file and field; also one from before the call.
absl::StatusOr<ModelFacts> ReadVit(absl::string_view family, bool counts_all_parameters,
                                   ConfigFields& config);

// Reads Swin's stages as a run each, every one of half as many patches a side, rounded up as its
// merging of patches pads, and twice the width of the one before. `depths`, `num_heads` (one entry
// a stage) and `embed_dim` have no default. Attention within windows is read with
// `counts_all_parameters` only; the parameters that merge patches then count as the embedding's,
// and heads that do not divide the width of their stage are an error. Defaults and errors are as
// above, but `use_swiglu_ffn` and `intermediate_size` are not read, and windows are 7 patches wide
// if `window_size` is absent. More than 8 stages are an error, and so are an `embed_dim` above
// 65,536, an `mlp_ratio` above 64 and a `window_size` above 2048. One note about the parts that are
// not priced is appended to `notes`, which must not be null, unless there is an error.
absl::StatusOr<ModelFacts> ReadSwin(bool counts_all_parameters, ConfigFields& config,
                                    std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_IMAGE_CONFIG_H_
