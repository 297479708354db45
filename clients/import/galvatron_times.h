// Galvatron's time files, every generation since 2022, as one table.

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
  int layer_type = 0;
  int batch_size = 1;
  int sequence_length = 0;  // 0: not in the file
  double milliseconds_per_sample = 0.0;
  // Computed from whole passes of two models.
  bool differenced = false;
};

// Forward time of embedding and head together, per sample.
struct GalvatronOtherTime {
  int batch_size = 1;
  std::vector<int> sequence_lengths;  // one a layer type, one for all, or none
  double milliseconds_per_sample = 0.0;
  bool differenced = false;
};

struct GalvatronTimes {
  // All positive, keys distinct, sorted by key.
  std::vector<GalvatronLayerTime> layers;
  std::vector<GalvatronOtherTime> other;
  int layer_type_count = 0;
  // Width the file is for, where it names it (2022); else 0.
  int hidden_size = 0;
  // Values that were left out or assumed, one sentence per entry.
  std::vector<std::string> notes;
};

// Reads one file, or the two halves `..._attention.json` and `..._mlp.json` of
// one model, whose layer times are added. `hidden_size` selects among the
// models of a 2022 file; 0 takes the only one.
//
// Times that are not positive are left out with a note. INVALID_ARGUMENT
// (PROFILE_INVALID) with file and field for values that are no times, mixtures
// of experts, and files that no layer time can be had from, with what is
// missing.
absl::StatusOr<GalvatronTimes> ReadGalvatronTimes(absl::Span<const NamedText> files,
                                                  int hidden_size);

// INVALID_ARGUMENT (PROFILE_INVALID) when the name of the file says that it is
// of a mixture of experts.
absl::Status RefuseMixtureOfExperts(const NamedText& file);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GALVATRON_TIMES_H_
