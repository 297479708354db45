// Assigns the layers of a run to its stages.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RUN_STAGES_H_
#define PARPLAN_CLIENTS_CALIBRATE_RUN_STAGES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/calibrate/published_run.h"

namespace parplan::accuracy {

// Splits `layer_count` layers into `stage_count` stages if they do not divide evenly: from the
// front, ceil(layers / stages) to a stage as long as they last (DeepSpeed's partition_balanced on
// equal weights), or, without `from_front` and where that leaves a stage other than the last empty,
// one more to each of the first stages. REQUIRES: `stage_count` is at least 1.
std::vector<int> SplitLayers(int layer_count, int stage_count, bool from_front);

// Returns the transformer layers of each (virtual) stage, first to last: as the run says, or split
// evenly, with embedding and head as one layer each if the run says so. Adds a sentence to
// `assumptions` if layers do not divide evenly. Returns INVALID_ARGUMENT (SPEC_INVALID) naming
// `parallel.layers_per_stage` if that has another number of stages than the run, or neither as many
// layers as it nor two more for embedding and head; or `parallel.pp` if a stage between the ends
// would be empty. Called by QuestionOf (run_problem.h).
absl::StatusOr<std::vector<int>> LayersPerStage(const PublishedRun& run, int stage_count,
                                                bool from_front,
                                                std::vector<std::string>* assumptions);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_STAGES_H_
