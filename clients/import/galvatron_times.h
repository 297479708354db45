// Reads Galvatron's time files, of every generation since 2022, into one table. `ImportGalvatron`
// (galvatron_profile.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_GALVATRON_TIMES_H_
#define PARPLAN_CLIENTS_IMPORT_GALVATRON_TIMES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "clients/import/named_text.h"

namespace parplan {

// Forward time of one layer, per sample.
struct GalvatronLayerTime {
  int layer_type = 0;       // from 0
  int batch_size = 1;       // samples
  int sequence_length = 0;  // tokens; 0 if not in the file
  double milliseconds_per_sample = 0.0;
  // Whether the time is a difference of whole passes of two models, or the sum of two halves.
  bool differenced = false;
};

// Forward time of embedding and head together, per sample.
struct GalvatronOtherTime {
  int batch_size = 1;
  std::vector<int> sequence_lengths;  // one a layer type, one for all, or none
  double milliseconds_per_sample = 0.0;
  // Whether the time is what layer times leave of a whole pass.
  bool differenced = false;
};

// The table that is read from one or two files.
struct GalvatronTimes {
  // All positive, with distinct keys (layer_type, sequence_length, batch_size), sorted by them.
  std::vector<GalvatronLayerTime> layers;
  // All positive, with distinct keys (batch_size, sequence_lengths), sorted by them.
  std::vector<GalvatronOtherTime> other;
  // Layer types that the file names, from 0 to below this.
  int layer_type_count = 0;
  // Hidden size that the file names (2022); else 0.
  int hidden_size = 0;
  // Values that were left out or assumed, one sentence per entry.
  std::vector<std::string> notes;
};

// Reads one file, or the two halves `..._attention.json` and `..._mlp.json` of one model. Layer
// times of both halves with the same key are added and the others dropped; `other` is that of the
// first half, and a note says so. `hidden_size` selects among the models of a 2022 file; 0 takes
// the only one. It is not read for other files. One half alone is read as if it were a whole layer.
//
// Left out with a note are times that are not positive, keys of unknown meaning, times of embedding
// and head and of whole passes that say no batch size, and passes beyond 64 of one batch size. Of
// equal keys the first counts, and of two widths of a 2022 file too, which a note says. Returns
// INVALID_ARGUMENT (PROFILE_INVALID) with file and field for no file or more than two, files that
// are no JSON objects, values that are no numbers, mixtures of experts, layer types from 64 on, a
// `hidden_size` that a 2022 file does not have, or 0 if it has several, a file that gives no time
// of some layer type, with what is missing, and halves without a key in common.
absl::StatusOr<GalvatronTimes> ReadGalvatronTimes(absl::Span<const NamedText> files,
                                                  int hidden_size);

// Returns INVALID_ARGUMENT (PROFILE_INVALID) if the name of the file says that it is of a mixture
// of experts: it has `mixtral` or `/moe/` in it. Readers of times and of memory call it.
absl::Status RefuseMixtureOfExperts(const NamedText& file);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GALVATRON_TIMES_H_
