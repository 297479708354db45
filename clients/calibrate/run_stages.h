// Assigns the layers of a run to its stages. `QuestionOf` (run_problem.h) uses it for every run.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RUN_STAGES_H_
#define PARPLAN_CLIENTS_CALIBRATE_RUN_STAGES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/calibrate/published_run.h"

namespace parplan::accuracy {

// Returns the number of layers of each of `stage_count` stages, first to last. If they do not
// divide evenly, `from_front` fills one stage after the other with ceil(layers / stages) layers
// until none is left (DeepSpeed's partition_balanced on equal weights), so the last stage may be
// empty. Without `from_front`, and also if that would leave a stage before the last empty, each of
// the first `layer_count % stage_count` stages gets one more than the others. REQUIRES, unchecked:
// `stage_count` is at least 1.
std::vector<int> SplitLayers(int layer_count, int stage_count, bool from_front);

// Returns the number of transformer layers (`t`) of each stage of a layout in Megatron's words: `E`
// the embedding, `m` a layer that predicts a further token, `L` the loss, `|` between stages, `*n`
// for n of the item or of the brackets before it. Absent if the text is no such layout, has
// brackets more than 8 deep, or stands for more than 4,096 items. An empty text is one empty stage.
std::optional<std::vector<int>> LayersOfLayout(absl::string_view layout);

// Returns the number of transformer layers of each stage, first to last, without embedding and
// head. `stage_count` counts virtual stages: the pipeline degree times those of a device. The
// numbers are those of `layers_per_stage` or else of a `layout` of the run with `|`, or else of
// `SplitLayers`, for which embedding and head are one layer each if `ends_count_as_layers`. A list
// that adds up to two more than the layers of the model counts embedding and head, whatever
// `ends_count_as_layers` says. `from_front` is `RunRuntime::fills_stages_from_front`; the words
// `equal stages, the last with fewer` in `layout` set it, too. Adds a sentence to `assumptions`,
// which must not be null, if the run has no list and layers do not divide evenly.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID) naming `parallel.layout` for a `layout` with `|` that
// `LayersOfLayout` cannot read; naming `parallel.layers_per_stage` if the list of either does not
// have `stage_count` entries, or adds up to neither the layers nor two more; naming `parallel.pp`
// if a stage between the first and the last gets no transformer layer, or if the first or last gets
// less than the embedding or head that was counted for it.
absl::StatusOr<std::vector<int>> LayersPerStage(const PublishedRun& run, int stage_count,
                                                bool from_front,
                                                std::vector<std::string>* assumptions);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_STAGES_H_
