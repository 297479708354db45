// Measures what the layers of a model take on one device, inside the training loop that
// plans are run by: same kernels, same memory, all ranks at work.
//
// Models of few layers are trained for some steps, one with two layers of a definition and one
// with four, in turn. A layer takes half of what the second takes longer in all passes over
// the layers; collectives and the wait for other ranks are taken off. The embedding and the
// head are timed in place. What a rank does alone, so times of layers, the collectives' own
// (profiler-agent) and the schedule make the time of a step.

#ifndef PARPLAN_EXECUTOR_LAYER_PROBE_LAYER_PROBE_H_
#define PARPLAN_EXECUTOR_LAYER_PROBE_LAYER_PROBE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/comm/steady_clock.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/device/kernels/layer_kernels.h"
#include "executor/layer_probe/time_spread.h"
#include "planner/model/model_spec.h"

namespace parplan {

// What is measured at once: every layer definition of a model at one size.
struct LayerProbeShape {
  // Ranks that share each matrix; divides the ranks of the job and what layers need divided.
  int tensor_parallel_degree = 1;
  // Where they also share the tokens between matrices.
  bool sequence_parallel = false;
  // Samples of a micro-batch on one device.
  int64_t samples = 1;
  // 0: the definitions'.
  int sequence_length = 0;
};

// A rank of the job that measures. What pointers show outlives the probe.
struct LayerProbeSetting {
  int rank = 0;
  int world_size = 1;
  LayerKernels* kernels = nullptr;
  DeviceMemory* memory = nullptr;
  // Over the memory of the kernels: the communicator of some ranks of the job, in order.
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(const std::string& purpose,
                                                              const std::vector<int>& ranks)>
      make_group;
  // All ranks, over memory of the host. May be null where there is one.
  Communicator* control = nullptr;

  // Steps of each model that are not counted.
  int warm_up_count = 2;
  // Steps that are: at least so many, until the median of every time is known to `precision`
  // of itself (with 95 % probability) or one of the limits is met. Where the time is over before,
  // three do.
  int min_repetition_count = 7;
  int max_repetition_count = 60;
  double precision = 0.01;
  // For one shape and definition, from the first step that counts.
  absl::Duration time_limit = absl::Seconds(20);
  std::function<absl::Duration()> now = SteadyNow;
};

// Of one layer definition of the model on the slowest rank.
struct LayerTimes {
  int definition_index = 0;
  LayerProbeShape shape;
  // Never 0 in here.
  int sequence_length = 0;
  // One micro-batch, without collectives.
  TimeSpread forward;
  TimeSpread backward;
  // One layer's parameters on this device, none of them sharded, and the optimizer's step over
  // them, with gradients set to zero.
  int64_t parameter_count = 0;
  TimeSpread optimizer_step;
};

// All ranks of the job call it with the same arguments and get the same answer: an entry for
// each layer definition, in order. Trains with the model's optimizer, on synthetic tokens,
// from the values that parameters begin with.
//
// INVALID_ARGUMENT where the executor cannot run the model or the shape; RESOURCE_EXHAUSTED
// where it does not fit; the errors of communicators. After an error within a step the job is
// of no more use: other ranks are told.
absl::StatusOr<std::vector<LayerTimes>> ProbeLayers(const ModelSpec& model,
                                                    const LayerProbeShape& shape,
                                                    const LayerProbeSetting& setting);

// INVALID_ARGUMENT naming the field of `shape` that the ranks of `setting` cannot measure.
absl::Status CheckProbeShape(const LayerProbeShape& shape, const LayerProbeSetting& setting);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_LAYER_PROBE_LAYER_PROBE_H_
