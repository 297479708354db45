// Measures the memory of a model's layers inside the training loop that runs plans: the sizes of
// arrays before and after a layer's forward pass. `parplan-agent-probe` calls it on every rank.

#ifndef PARPLAN_EXECUTOR_LAYER_PROBE_MEMORY_PROBE_H_
#define PARPLAN_EXECUTOR_LAYER_PROBE_MEMORY_PROBE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "executor/layer_probe/layer_probe.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Memory of one layer definition. Each number is the largest of all ranks.
struct LayerSizes {
  // Index into `ModelSpec::layer_definitions`.
  int definition_index = 0;
  LayerProbeShape shape;
  // Tokens of a sample, never 0 here.
  int sequence_length = 0;
  // Parameters of one layer on one device, none of them sharded.
  int64_t parameter_count = 0;
  // Memory of one sample from forward to backward pass, rounded up to a byte.
  Bytes activation_per_sample;
  // The same if the layer is recomputed. Equal to the above for embedding and head, which are not.
  Bytes checkpoint_per_sample;
};

// Measures all layer definitions, and returns [definition] their sizes. Collective, under the
// conditions of `ProbeLayers` and with its errors; one other than INVALID_ARGUMENT ends the job on
// all ranks. Trains two steps, one of them with recomputation, of a small model for each definition
// between embedding and head; reads no clock and ignores the limits of `setting`.
absl::StatusOr<std::vector<LayerSizes>> ProbeMemory(const ModelSpec& model,
                                                    const LayerProbeShape& shape,
                                                    const LayerProbeSetting& setting);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_LAYER_PROBE_MEMORY_PROBE_H_
