// Measures the times of a model's layers on one device, inside the training loop that runs plans:
// with the same kernels and memory, and all ranks at work.
//
// Two small models are trained in alternating steps, one with two layers of a definition and one
// with four. The time of a layer is half of the difference; collectives and waits for other ranks
// are subtracted. The embedding and the head are timed in place. The results are times of a rank
// alone; with the times of collectives (profiler-agent) and the schedule they make the time of a
// step. `parplan-agent-probe` calls it on every rank (profiler-agent/probe/probe_rank.cc).

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
#include "base/system/steady_clock.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/device/kernels/layer_kernels.h"
#include "executor/layer_probe/time_spread.h"
#include "planner/model/model_spec.h"

namespace parplan {

// The size at which all layer definitions of a model are measured at once.
struct LayerProbeShape {
  // Ranks that share each matrix; divides the ranks of the job and the heads and columns of layers.
  int tensor_parallel_degree = 1;
  // Whether they also share the tokens between matrices; ignored if the degree is 1.
  bool sequence_parallel = false;
  // Samples of a micro-batch on one device.
  int64_t samples = 1;
  // Tokens of a sample; 0: as the definitions say.
  int sequence_length = 0;
};

// One rank of the job that measures. Everything it points to outlives the probe.
struct LayerProbeSetting {
  // Number of this rank in the job, from 0, and the number of ranks.
  int rank = 0;
  int world_size = 1;
  // Kernels and memory of the device; neither may be null.
  LayerKernels* kernels = nullptr;
  DeviceMemory* memory = nullptr;
  // Makes the communicator of some ranks of the job, in order, for buffers in device memory. On a
  // device that computes while the host waits, as a GPU does, the times of collectives cannot be
  // subtracted. There it makes `NullCommunicator`s, unless a group has one rank.
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(const std::string& purpose,
                                                              const std::vector<int>& ranks)>
      make_group;
  // All ranks of the job, for buffers in host memory. May be null if there is one rank.
  Communicator* control = nullptr;

  // Steps of each model before the ones that count.
  int warm_up_count = 2;
  // Limits on the steps that count, each at least 1, which is not checked. Measuring ends once the
  // median of every time is known to the relative `precision` with 95 % probability, or at a limit.
  // Times below 5 % of the sum of all need only be known to `precision` of that 5 %. If the time is
  // over before `min_repetition_count`, three steps are enough; `max_repetition_count` is never
  // exceeded, also if it is below the others.
  int min_repetition_count = 7;
  int max_repetition_count = 60;
  double precision = 0.01;
  // Limit for one shape and definition, from the first step that counts.
  absl::Duration time_limit = absl::Seconds(20);
  std::function<absl::Duration()> now = SteadyNow;
};

// Times of one layer definition of the model for one shape. Each is that of the rank on which it is
// longest.
struct LayerTimes {
  // Index into `ModelSpec::layer_definitions`.
  int definition_index = 0;
  LayerProbeShape shape;
  // Tokens of a sample, never 0 here.
  int sequence_length = 0;
  // One pass of one layer over one micro-batch, without collectives. As a difference of two models
  // the time of a short layer may be 0 or below.
  TimeSpread forward;
  TimeSpread backward;
  // Parameters of one layer on the calling rank's device, none of them sharded, and the optimizer's
  // step over them, which includes setting gradients to zero.
  int64_t parameter_count = 0;
  TimeSpread optimizer_step;
};

// Measures all layer definitions, and returns [definition] their times. Collective: all ranks of
// the job call it with the same arguments and get the same result, but for `parameter_count`, which
// is each rank's own. Trains with the model's optimizer, on synthetic tokens, from initial
// parameters.
//
// Returns INVALID_ARGUMENT if the executor cannot run the model or the shape, or the model has no
// layer between embedding and head; else the errors of RankTrainer, such as RESOURCE_EXHAUSTED if
// it does not fit. Every error but INVALID_ARGUMENT ends the job on all ranks.
absl::StatusOr<std::vector<LayerTimes>> ProbeLayers(const ModelSpec& model,
                                                    const LayerProbeShape& shape,
                                                    const LayerProbeSetting& setting);

// Checks `shape` against the number of ranks of `setting` alone, as `ProbeLayers` and `ProbeMemory`
// do first. INVALID_ARGUMENT (SPEC_INVALID) naming the field.
absl::Status CheckProbeShape(const LayerProbeShape& shape, const LayerProbeSetting& setting);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_LAYER_PROBE_LAYER_PROBE_H_
