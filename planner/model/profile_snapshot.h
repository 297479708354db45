// The measurements that a planner reads: an immutable set of points for one kind of node, merged
// from stored profiles. proto/wire/snapshot_builder.h merges them and makes one, and
// `PlanningProblem` holds those of its groups. Files and messages have the same fields
// (proto/parplan/v1/profile.proto). Times are medians.

#ifndef PARPLAN_PLANNER_MODEL_PROFILE_SNAPSHOT_H_
#define PARPLAN_PLANNER_MODEL_PROFILE_SNAPSHOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "planner/model/model_spec.h"

namespace parplan {

// The source of a value: a clock or counter; a computation from a measurement of another form, such
// as a bandwidth; an assumption or first principles. Numbers are those of
// proto/parplan/v1/profile.proto.
enum class Origin { kMeasured = 1, kDerived = 2, kEstimated = 3 };
// A collective operation, named as in NCCL. Every rank ends with the sum (`kAllReduce`), with the
// parts of all (`kAllGather`), with its part of the sum (`kReduceScatter`), with a part from each
// rank (`kAllToAll`), or with the data of one (`kBroadcast`); `kSendReceive` has one sender and one
// receiver.
enum class Collective {
  kAllReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kAllToAll = 4,
  kSendReceive = 5,
  kBroadcast = 6,
};

// Returns the name for messages, for example `all-reduce`; `collective` for a number that is none
// of these. Valid forever.
const char* CollectiveName(Collective collective);

// Compute time of one layer on one device for one micro-batch, collectives excluded.
struct LayerTimingPoint {
  // Number of devices that share each matrix.
  int tensor_parallel_degree = 1;
  int micro_batch_size = 1;  // samples on this device
  int sequence_length = 0;   // tokens per sample, never 0 here
  Seconds forward;
  // Absent if not measured; the cost model then estimates it from `forward`.
  std::optional<Seconds> backward;
  Origin origin = Origin::kMeasured;
};

// Memory of one layer on one device.
struct LayerMemoryPoint {
  int tensor_parallel_degree = 1;
  // Whether the ranks also share the tokens of activations outside the matrices.
  bool sequence_parallel = false;
  int sequence_length = 0;  // never 0 here
  // Parameters that the device holds.
  int64_t parameter_count = 0;
  // Kept from forward to backward.
  Bytes activation_per_sample;
  // Kept instead if the layer is recomputed; absent if not measured.
  std::optional<Bytes> checkpoint_per_sample;
  Origin origin = Origin::kMeasured;
};

// All measurements of one layer.
struct MeasuredLayer {
  LayerDefinition definition;
  Precision precision = Precision::kBf16;
  // Sorted by (tensor_parallel_degree, sequence_length, micro_batch_size).
  std::vector<LayerTimingPoint> timings;
  // Sorted by (tensor_parallel_degree, sequence_parallel, sequence_length).
  std::vector<LayerMemoryPoint> memories;
};

// Time of one collective at one size. `rank_stride` is the distance in ranks between neighbours of
// the group; `message_size` is counted as nccl-tests does: for all-gather and reduce-scatter the
// whole buffer, not one rank's part.
struct CollectivePoint {
  Collective collective = Collective::kAllReduce;
  int participant_count = 2;
  int rank_stride = 1;
  Bytes message_size;
  Seconds duration;
  Origin origin = Origin::kMeasured;
};

// Time of one step of the optimizer on one device, over `parameter_count` parameters that it
// updates. Includes setting gradients to zero, excludes collectives.
struct OptimizerPoint {
  Optimizer optimizer = Optimizer::kAdam;
  Precision precision = Precision::kBf16;
  int64_t parameter_count = 0;
  // Time of one step.
  Seconds duration;
  Origin origin = Origin::kMeasured;
};

// A valid set of measurements. Immutable; share by pointer.
class ProfileSnapshot {
 public:
  // The merged content. If several profiles measured the same point, the caller must have kept only
  // the newest.
  struct Content {
    // SHA-256 over the canonical text of everything below. proto/wire makes it; it names the
    // snapshot in plans and plan keys and is opaque here.
    std::string digest;
    std::string device_kind;
    int devices_per_node = 0;
    std::vector<MeasuredLayer> layers;
    std::vector<CollectivePoint> collectives;
    std::vector<OptimizerPoint> optimizers;
    // How many times slower computation and communication each run while they overlap, at least 1;
    // absent if not measured.
    std::optional<double> overlap_slowdown;
    // Memory that a process uses on a device before its first tensor; absent if not measured.
    std::optional<Bytes> context_memory;
    // Memory that a process uses on a device for one communicator, on average, in addition to
    // `context_memory`; absent if that includes communicators, or if they were not measured.
    std::optional<Bytes> communicator_memory;
  };

  // Sorts the points; layers keep their order, and every list may be empty. Returns
  // INVALID_ARGUMENT (PROFILE_INVALID) naming the first field at fault, layers by their id and
  // points by their place in `content`, for
  //   - an empty device kind; `devices_per_node` below 1;
  //   - a time that is not finite and above 0;
  //   - a tensor-parallel degree, micro-batch, sequence length or rank stride below 1;
  //   - a size or parameter count of a layer below 0, a parameter count of an optimizer below 1;
  //   - fewer than 2 participants, a send-receive of other than 2, a message of 0 bytes;
  //   - an `overlap_slowdown` that is not finite and at least 1, a `context_memory` or
  //     `communicator_memory` below 0, the latter without the former;
  //   - two points with equal keys (all members by which their list is sorted);
  //   - two layers of one precision for which `SameLayer` holds.
  // Checks neither `digest` nor the definitions of layers.
  static absl::StatusOr<ProfileSnapshot> Create(Content content);

  // The members of `Content`, whose comments hold.
  const std::string& digest() const { return content_.digest; }
  const std::string& device_kind() const { return content_.device_kind; }
  int devices_per_node() const { return content_.devices_per_node; }
  const std::vector<MeasuredLayer>& layers() const { return content_.layers; }
  // Sorted by (collective, participant_count, rank_stride, message_size).
  const std::vector<CollectivePoint>& collectives() const { return content_.collectives; }
  // Sorted by (optimizer, precision, parameter_count).
  const std::vector<OptimizerPoint>& optimizers() const { return content_.optimizers; }
  std::optional<double> overlap_slowdown() const { return content_.overlap_slowdown; }
  std::optional<Bytes> context_memory() const { return content_.context_memory; }
  std::optional<Bytes> communicator_memory() const { return content_.communicator_memory; }

  // Returns the measurements of the layer of that precision for which `SameLayer` holds, whatever
  // its id and sequence length; null if there is none. The pointer is valid as long as the
  // snapshot. O(layers).
  const MeasuredLayer* FindLayer(const LayerDefinition& definition, Precision precision) const;

 private:
  ProfileSnapshot() = default;
  Content content_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PROFILE_SNAPSHOT_H_
