// Measures what memory the layers of a model take, inside the training loop that plans are run
// by: by what arrays hold before and after a layer's forward pass.

#ifndef PARPLAN_EXECUTOR_LAYER_PROBE_MEMORY_PROBE_H_
#define PARPLAN_EXECUTOR_LAYER_PROBE_MEMORY_PROBE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "executor/layer_probe/layer_probe.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Of one layer definition on the fullest rank.
struct LayerSizes {
  int definition_index = 0;
  LayerProbeShape shape;
  // Never 0 in here.
  int sequence_length = 0;
  // On one device, none of them sharded.
  int64_t parameter_count = 0;
  // Kept from forward to backward, of one sample.
  Bytes activation_per_sample;
  // The same where the layer recomputes; of an embedding or a head, which do not, as above.
  Bytes checkpoint_per_sample;
};

// As `ProbeLayers`: all ranks of the job call it and get the same answer, an entry for each
// layer definition, in order. Takes two short steps of a small model for each definition, no
// clock.
absl::StatusOr<std::vector<LayerSizes>> ProbeMemory(const ModelSpec& model,
                                                    const LayerProbeShape& shape,
                                                    const LayerProbeSetting& setting);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_LAYER_PROBE_MEMORY_PROBE_H_
