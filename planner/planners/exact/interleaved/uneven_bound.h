// Lower bounds of interleaved pipelines over all partitions into virtual stages.
//
// Two kinds of paths through the schedule hold for any partition. For each device: into it, through
// all its passes, and out. And for each virtual stage: forward with the first micro-batch through
// all stages before it, then along its device from there until its last backward pass, and back
// with the last micro-batch. The mean of the second kind over all stages counts a layer on device d
// m / P + (P - 1 - d) / (P V) times, whatever its virtual stage. So a partition enters by the work
// of each device alone, and the least step for which the devices can take all the work is a bound.
// Layers of the commonest definition come whole in it. Every virtual stage but the first and the
// last of the model has a layer at least that is neither the first nor the last, so the first kind
// of path enters device d through d - 1 of these at least. It ends with the synchronisation of the
// device, or of the first device, which has the layers that have no room elsewhere.
// That bound knows only how many layers of one definition have room. A second bound prices the
// memory of all devices together and lets each definition choose among its options
// (uneven_prices.cc). Used by uneven_leaves.h, interleaved_search.h and `FindSmallestMemory`.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a price is
// the Lagrangian multiplier of memory, in seconds per byte; an option is a strategy of a layer
// definition with its costs (option_table.h); virtual stages are the several stages of one device;
// a partition is the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_UNEVEN_BOUND_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_UNEVEN_BOUND_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/model/model_spec.h"
#include "planner/planners/exact/interleaved/interleaved_paths.h"

namespace parplan {

// Returns the micro-batches in flight that a device, from 0, keeps at least of each of its layers
// at its first backward pass, in whichever chunk the layer is.
inline int LeastInFlight(int device, int device_count) {
  return std::min(device_count, 2 * (device_count - 1 - device) + 1);
}

// The costs of an option of a definition.
struct PricedOption {
  // Seconds of both passes of a micro-batch, and of synchronisation of a step.
  double time = 0.0;
  double sync = 0.0;
  // Bytes at all times, and for each micro-batch in flight.
  double states = 0.0;
  double kept = 0.0;
};

// The options of all definitions, and the memory of a device.
struct PricedOptions {
  // [definition] options; empty for definitions that no layer has.
  std::vector<std::vector<PricedOption>> options;
  // Bytes of a device for `states` and `kept` of its layers, at most.
  double room = 0.0;
};

// The bounds of one model and pipeline degree, without the overhead of a step. Keeps no reference
// to the model. Immutable.
class UnevenBound {
 public:
  // A question: steps of `micro_batch_count` with any number of virtual stages a device in a range.
  struct Question {
    // A multiple of the devices, or any number above theirs with `any_group_size`.
    int64_t micro_batch_count = 1;
    // The ends of the range, both included; at least 2.
    int fewest_virtual_stages = 2;
    int most_virtual_stages = 2;
    // [device] least seconds of any message from the device to the next one, the last one's to the
    // first, one direction; empty means 0.
    std::vector<double> sends;
    // [device] the most layers of `major()` that memory allows; empty if any number.
    std::vector<int> most_layers;
    // Whether micro-batches come in groups of any size. Then only the first kind of path holds.
    bool any_group_size = false;
  };

  // `device_count` is the pipeline degree, at least 1.
  UnevenBound(const ModelSpec& model, int device_count);

  // Returns the definition that most layers have, the first of equal ones.
  int major() const { return major_; }
  // Returns whether all layers but the first and the last are of `major()`, and these two are not.
  // Then devices take whole layers of both kinds in the bound; else layers of `major()` come whole,
  // and others in parts.
  bool is_uniform() const { return is_uniform_; }

  // Returns a bound that needs no search, in seconds: the mean over devices of the first kind of
  // path. Holds for any number of micro-batches, virtual stages (2 or more a device) and size of
  // groups. O(definitions).
  double Quick(const DefinitionTimes& times, int64_t micro_batch_count) const;
  // Returns the bound in seconds, or `cutoff` if that is less; infinite if memory never suffices
  // and `cutoff` is infinite. O(devices) a step of a bisection.
  double Bound(const DefinitionTimes& times, const Question& question, double cutoff) const;

  // Returns another bound in seconds, or `cutoff` if that is less, from the options that layers
  // have and the memory of all devices together. `question.most_layers` is not used. 0 if nothing
  // is proved, for example if layers take no time or some definition has no option.
  // O(devices + options of all definitions), for each of up to 150 prices and weights.
  double PricedBound(const DefinitionTimes& times, const Question& question,
                     const PricedOptions& options, double cutoff) const;

  // Returns a third bound in seconds, or `cutoff` if that is less, from what each device can hold
  // in the step's time and its memory (uneven_capacity.cc); `cutoff` too if memory never suffices.
  // `question.most_layers` is not used. 0 if nothing is proved. O(P + n log n) for P devices and
  // the n options of all definitions, for each of up to 16 numbers of micro-batches in flight.
  double HeldBound(const DefinitionTimes& times, const Question& question,
                   const PricedOptions& options, double cutoff) const;

 private:
  // Times that do not depend on the step.
  struct Work {
    double all = 0.0;
    double first = 0.0;
    double last = 0.0;
    // The shortest layer but for the first and the last of the model. Every virtual stage but the
    // first and the last has only such layers.
    double least = 0.0;
    // The same of forward passes alone.
    double first_forward = 0.0;
    double least_forward = 0.0;
    // Synchronisation of the first device, at least.
    double first_sync = 0.0;
  };
  Work WorkOf(const DefinitionTimes& times, int fewest_virtual_stages) const;
  // Messages of a question, one direction, in seconds.
  struct Messages {
    // [device] those before its first stage.
    std::vector<double> before;
    // The mean of these.
    double mean_before = 0.0;
    // Those once around the ring, and of these the one from the last device to the first.
    double lap = 0.0;
    double back = 0.0;
    // Whether they are slow (`AreSlowMessages`). Otherwise each counts as the fastest of them.
    bool are_slow = false;
  };
  Messages MessagesOf(const DefinitionTimes& times, const Question& question) const;
  // The time that the paths of a device leave to it in a step of some length.
  struct DeviceLimit {
    // Seconds of a micro-batch of all its layers, at most.
    double time = 0.0;
    // Layers of `major()` but for the first and the last of the model, at most; negative if the
    // first or last layer alone takes too long.
    double layers = 0.0;
    // Seconds of a micro-batch of the first and the last layer, if it has them.
    double ends = 0.0;
  };
  // `first_sync` is the least synchronisation of the first device.
  DeviceLimit LimitOf(const DefinitionTimes& times, const Question& question, const Work& work,
                      const Messages& messages, int device, double first_sync, double step) const;
  // The options that all layers choose at a price of memory, and their mean costs.
  PricedOption MeanChoice(const PricedOptions& options, double passes, double price,
                          double in_flight) const;
  // A mean over devices of the paths that go around the ring (interleaved_laps.h), with some weight
  // of those of backward passes and the rest of those of forward passes.
  struct LapPath {
    // Seconds of messages, without synchronisation.
    double messages = 0.0;
    // [device] how often, at least, it counts a second that layers take for both passes.
    std::vector<double> counts;
  };
  // Returns such means for one number of virtual stages a device. None where messages are so fast
  // that devices do not wait for them, where groups may have any size, or without the times of
  // backward passes. O(devices * definitions).
  std::vector<LapPath> LapPathsOf(const DefinitionTimes& times, const Question& question,
                                  const Messages& messages) const;
  bool Allows(const DefinitionTimes& times, const Question& question, const Work& work,
              const Messages& messages, const std::vector<LapPath>& laps, double step) const;
  // Returns `HeldBound` with layers that are worth their least cost at a price of memory, in
  // seconds a byte; `least_work` is the least time of a micro-batch through all transformer layers.
  double HeldBoundAt(const DefinitionTimes& times, const Question& question,
                     const PricedOptions& options, const Work& work, const Messages& messages,
                     double least_work, double price, double cutoff) const;
  // Weights of paths and the price of memory (uneven_prices.cc).
  struct PathPrices {
    // Seconds for each byte.
    double memory = 0.0;
    // Weight of the mean path.
    double mean_path = 0.0;
    // Whether the paths of devices end with the synchronisation of the device, not of the first.
    bool ends_with_own_sync = false;
  };
  // Returns the bound at `prices`, with paths of devices weighted so that the layer `mean` costs
  // the same on each; 0 if a weight would be negative.
  double BoundAtPrices(const Question& question, const Work& work, const Messages& messages,
                       const PricedOptions& options, const PricedOption& mean,
                       const PathPrices& prices) const;

  int device_count_;
  int major_ = 0;
  int major_count_ = 0;
  int first_ = 0;
  int last_ = 0;
  bool is_uniform_ = true;
  // [definition] number of layers, and of those but for the first and the last.
  std::vector<int> counts_;
  std::vector<int> middle_counts_;
  // [definition] number of layers of transformer definitions, 0 for others.
  std::vector<int> transformer_counts_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_UNEVEN_BOUND_H_
