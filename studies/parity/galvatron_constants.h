// Readers of two files of studies/parity/data, which are also embedded in the program
// (embedded_files.h): the profiled constants of Galvatron's submission of 2022, and the predictions
// that Galvatron's own cost model made with these constants. `parplan-study parity` computes the
// predictions again (galvatron_2022_search.h) and compares.

#ifndef PARPLAN_STUDIES_PARITY_GALVATRON_CONSTANTS_H_
#define PARPLAN_STUDIES_PARITY_GALVATRON_CONSTANTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "studies/parity/galvatron_2022_search.h"

namespace parplan {

// The hardware that is taken if none is named.
inline constexpr char kHardwareOf2022[] = "rtx_titan_8";

// Returns the text of a file of studies/parity/data, such as `constants.json`. REQUIRES: there is
// such a file; aborts otherwise. The text lives until the process ends.
absl::string_view DataOf2022(absl::string_view file_name);

// A model of the file.
struct ModelOf2022 {
  // Name in the file.
  std::string name;
  // A sentence on values that neither the file nor docs/papers.md has and that are therefore those
  // of another family; empty if all values are known.
  std::string assumed;
  // The input of the search; absent if the file lacks values for it.
  std::optional<Question2022> question;
  // The reason in one sentence if `question` is absent; else empty.
  std::string missing;
};

// Reads all models of a file in its order, on the hardware named. Returns INVALID_ARGUMENT
// (PROFILE_INVALID) with the field that is absent, of another type or out of range (numbers are
// above 0 and at most 10^9, counts whole and at most 65,536); `constants` if the text is no JSON
// object.
//
// The name of a model begins with its family, which decides three things that the program of 2022
// had for each model. Under data parallelism each layer of `bert` takes 100/24 ms more, each of
// `t5` 60/24 ms, those of others nothing. The stages of `t5` and `swin` are balanced by memory,
// those of others are even. And each family has its `MicroBatchRule2022`; one that the program does
// not have gets that of `vit`, and `assumed` says so.
//
// Layers may have `hidden` and `sequence_length` of their own. Otherwise they have those of the
// model, each a number or a list with one for each entry of the layers. A number of `swin` is that
// of the first entry; from one entry to the next the width doubles and the length is divided by
// four. A length of `vit` that is one more than a square is taken without this one, the class
// token.
absl::StatusOr<std::vector<ModelOf2022>> ParseConstantsOf2022(
    absl::string_view text, absl::string_view hardware = kHardwareOf2022);

// A cell of the table of predictions.
struct PredictionOf2022 {
  // Names of the model and of the part of the space that was searched, as the file has them.
  std::string model;
  std::string subspace;
  // Memory per device, in GB of 2^30 bytes.
  int budget_gb = 0;
  // Absent if out of memory.
  std::optional<double> samples_per_second;
  std::optional<int64_t> global_batch_size;
};

// Reads the cells, models and budgets in the order of the file, sub-spaces in that of
// kSubspaces2022; other sub-spaces are ignored. Returns INVALID_ARGUMENT (PROFILE_INVALID) with the
// field that is absent, of another type or out of range; here too it is `constants` if the text is
// no JSON object.
absl::StatusOr<std::vector<PredictionOf2022>> ParsePredictionsOf2022(absl::string_view text);

}  // namespace parplan

#endif  // PARPLAN_STUDIES_PARITY_GALVATRON_CONSTANTS_H_
