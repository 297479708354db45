// The layer costs of Galvatron as submitted in June 2022, before overlap, GPipe
// and sharding were refined: a public cost model, whose predictions were computed
// again for this project (docs/papers.md 1.8). They are no measurements, and no
// figures that its authors printed. Kept as a yardstick: that these predictions
// come out digit by digit shows that the parts we share with it are understood.
//
// A prediction here covers a whole step, not a micro-batch. The time of a plan is the sum of
// `layer_ms()` over all layers of all stages and of `TransitionMsIn2022` over all neighbours within
// a stage. Every stage keeps the activations of all micro-batches. `Search2022`
// (galvatron_2022_search.h) adds them up.
//
// Formulas: papers.md 1.5. If its words leave a choice, the layer costs that the authors' program
// gave decide. One layer's compute and tensor-parallel communication are multiplied by the share of
// the pipeline, (P + m - 1) / (P m) for P stages and m micro-batches; the time that gradient
// synchronisation adds is not. All times of layers are multiplied by 1.1, by which predictions were
// scaled to meet measured steps. The number of micro-batches is not rounded. MB are 2^20 bytes.

#ifndef PARPLAN_STUDIES_PARITY_GALVATRON_2022_H_
#define PARPLAN_STUDIES_PARITY_GALVATRON_2022_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/cost/cost_model.h"
#include "planner/model/strategy.h"

namespace parplan {

// Measured speed of an all-reduce. The message already holds the factor
// 2 (n - 1) / n of a ring.
struct Galvatron2022AllReduce {
  int pipeline_parallel_degree = 1;
  int participant_count = 2;
  // Whether the group's ranks are consecutive. Without meaning if the group is the whole stage.
  bool consecutive = true;
  // Milliseconds for a megabyte of that message.
  double ms_per_mb = 0.0;
};

// The constants of a machine.
struct Galvatron2022Hardware {
  // Factor by which compute and communication are slower while both run, >= 1.
  double overlap_slowdown = 1.3;
  double backward_over_forward = 2.0;
  std::vector<Galvatron2022AllReduce> all_reduces;
};

// The constants of one kind of layer.
struct Galvatron2022Layer {
  // Whether the layer has cross-attention: under tensor parallelism 6 all-reduces, not 4, and, with
  // one stage, a third of the backward pass that hides no communication.
  bool is_decoder = false;
  int sequence_length = 0;
  int hidden_size = 0;
  // fp32 parameters on one device, in MB.
  double parameter_mb = 0.0;
  // Forward time on one device.
  double forward_ms_per_sample = 0.0;
  // Activations at tensor-parallel degree 1, 2, 4, 8, ...
  std::vector<double> activation_mb_per_sample;
};

// The parts of a model other than its layers.
struct Galvatron2022Model {
  // Added to each layer under data parallelism: for example 100 ms over the 24
  // layers of the BERT that was measured, 60 ms over T5's 24, 0 for ViT.
  double data_parallel_overhead_ms = 0.0;
  // Embeddings and head.
  double other_states_mb = 0.0;
  double other_activation_mb_per_sample = 0.0;
  // Driver context of a device.
  double context_mb = 1024.0;
};

// The cost of one layer under a strategy, in MB and milliseconds.
struct Galvatron2022LayerCost {
  // Memory of one device of the stage: parameters, gradients and two Adam moments of the layer.
  double states_mb = 0.0;
  // Memory of one device: activations of the layer in all micro-batches.
  double activation_mb = 0.0;
  // Memory of one device for the model's other parts and the driver. It is the same for every
  // layer, and a stage needs it once.
  double other_mb = 0.0;

  // A layer's part of a step.
  double forward_ms = 0.0;
  double backward_ms = 0.0;
  double tensor_parallel_ms = 0.0;
  // Time that the synchronisation of gradients adds, the overhead included.
  double gradient_sync_ms = 0.0;
  // Time of gathering sharded parameters once more.
  double sharding_ms = 0.0;

  // Returns the time of the layer in a step, all parts together.
  double layer_ms() const {
    return forward_ms + backward_ms + tensor_parallel_ms + gradient_sync_ms + sharding_ms;
  }
};

// Returns the cost of one layer under `strategy` in one of `pipeline_parallel_degree` stages.
// `micro_batch_count` may have a fraction. FAILED_PRECONDITION (PROFILE_MISSING) if `hardware` has
// no all-reduce, or `layer` no activation, of the kind that the strategy needs. REQUIRES: the
// pipeline degree and `micro_batch_count` are at least 1; the strategy has neither recomputation
// nor sequence parallelism, and shards either the parameters or nothing, since the program of 2022
// knew no others; aborts otherwise. Context and expert parallelism are not looked at.
absl::StatusOr<Galvatron2022LayerCost> CostOfLayerIn2022(
    const Galvatron2022Hardware& hardware, const Galvatron2022Model& model,
    const Galvatron2022Layer& layer, int pipeline_parallel_degree, const Strategy& strategy,
    int64_t global_batch_size, double micro_batch_count);

// The rules by which the program of 2022 chose the number of micro-batches, one for each family of
// models: `optimal_chunk_func` of its search_layerwise_hp.py (docs/papers.md 1.5). Samples are
// those of one data-parallel replica in a step.
enum class MicroBatchRule2022 {
  // A function of the samples that may have a fraction (`BertMicroBatchCountIn2022`).
  kBert,
  // 3 if a stage is one device, whatever the samples; else 1 below 4 samples and 2 from 4 on.
  kT5,
  // 1 for exactly 8 samples, 2 for any other number.
  kVit,
  // 1 up to 8 samples, 2 below 32, 3 from 32 to 96, 4 above.
  kSwin,
};
// Returns the number of micro-batches of a step by a rule, at least 1; 1 if there is one stage.
double MicroBatchCountIn2022(MicroBatchRule2022 rule, int pipeline_parallel_degree,
                             const Strategy& strategy, int64_t global_batch_size);
// Returns the number of micro-batches by `MicroBatchRule2022::kBert`.
double BertMicroBatchCountIn2022(int pipeline_parallel_degree, const Strategy& strategy,
                                 int64_t global_batch_size);

// Returns the ms in a step that it takes to bring the activations of a layer under `from` into the
// layout of the next layer of the stage, which has `to`: an all-gather within the new
// tensor-parallel groups if ranks lack a part (papers.md 1.4). A sample has 2 MB whatever the
// model, as in the authors' program. If the strategies shard differently, 0.1 ms are added, so that
// among equally good plans layers with equal sharding are neighbours. 0 for equal strategies.
// FAILED_PRECONDITION (PROFILE_MISSING) if `hardware` lacks the all-reduce.
absl::StatusOr<double> TransitionMsIn2022(const Galvatron2022Hardware& hardware,
                                          int pipeline_parallel_degree, const Strategy& from,
                                          const Strategy& to, int64_t global_batch_size);

}  // namespace parplan

#endif  // PARPLAN_STUDIES_PARITY_GALVATRON_2022_H_
