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

// How layers are split into stages.
enum class StageSplit {
  // Equal numbers; if they do not divide evenly, each of the first stages gets one more.
  kEven = 1,
  // One stage after the other is filled with ceil(layers / stages) layers (DeepSpeed).
  kFromFront = 2,
  // By the elements of the layers' and the head's matrices (nanotron; `SplitLayersByCost`).
  kByCost = 3,
};

// Returns the number of layers of each of `stage_count` stages, first to last, that share layers of
// `layer_cost` and a head of `head_cost` behind them as nanotron does (models/base.py,
// build_model): stage i takes layers until the costs of all so far exceed (i + 1) / stage_count of
// the total, so the layer that exceeds it belongs to the earlier stage. The embedding costs
// nothing. The head is that of the last stage, which may be left without layers. Where the rule
// leaves an earlier stage without any, which such programs cannot run, the nearest stage before it
// with two gives it one; if none has, the layers are split evenly. REQUIRES, unchecked:
// `stage_count` is at least 1, costs are not negative, and `layer_cost` is above 0.
std::vector<int> SplitLayersByCost(int layer_count, int stage_count, double layer_cost,
                                   double head_cost);

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
// `SplitLayersByCost` or `SplitLayers`, for which embedding and head are one layer each if
// `ends_count_as_layers`. A list that adds up to two more than the layers of the model counts
// embedding and head, whatever `ends_count_as_layers` says. `split` is `RunRuntime::stage_split`;
// the words `equal stages, the last with fewer` in `layout` make it `kFromFront`, and costs are not
// asked if `ends_count_as_layers`. Adds a sentence to `assumptions`, which must not be null, if the
// run has no list and layers do not divide evenly or are split by cost over several stages; it may
// then be there after an error, too. REQUIRES, unchecked: `stage_count` is at least 1.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID) naming `parallel.layout` for a `layout` with `|` that
// `LayersOfLayout` cannot read; naming `parallel.layers_per_stage` if the list of either does not
// have `stage_count` entries, or adds up to neither the layers nor two more; naming `parallel.pp`
// if a stage between the first and the last gets no transformer layer, or if the first or last gets
// less than the embedding or head that was counted for it.
absl::StatusOr<std::vector<int>> LayersPerStage(const PublishedRun& run, int stage_count,
                                                StageSplit split,
                                                std::vector<std::string>* assumptions);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_STAGES_H_
