// A TrainJob (trainer.kubeflow.org/v1alpha1) as far as a recommender of node counts reads it.
//
// The protocol is that of KEP-3328, docs/proposals/3328-automatic-resource-configuration in
// kubeflow/trainer, revision of 2026-07-01: a job asks for a recommender by an annotation and is
// suspended until the recommender has set `spec.trainer.numNodes`. `planctl recommend` reads one.

#ifndef PARPLAN_CLIENTS_KUBEFLOW_TRAIN_JOB_H_
#define PARPLAN_CLIENTS_KUBEFLOW_TRAIN_JOB_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan::kubeflow {

// Annotations of the protocol.
inline constexpr char kPluginAnnotation[] = "trainer.kubeflow.org/autoconf-plugin";
inline constexpr char kDoneAnnotation[] = "trainer.kubeflow.org/autoconf-plugin-done";

// Annotations that put the question: the name of the model (`planctl recommend` has a folder of
// such files, `NAME.model.json`), the samples of a step, the target to plan for (search_space.h),
// and the fewest and most nodes. No other annotation of a TrainJob may begin with this prefix.
inline constexpr char kQuestionPrefix[] = "parplan.io/";
inline constexpr char kModelAnnotation[] = "parplan.io/model";
inline constexpr char kBatchAnnotation[] = "parplan.io/global-batch-size";
inline constexpr char kTargetAnnotation[] = "parplan.io/target";
inline constexpr char kMinNodesAnnotation[] = "parplan.io/min-nodes";
inline constexpr char kMaxNodesAnnotation[] = "parplan.io/max-nodes";

// Annotation of pods, from which their sidecar has the number of nodes (docs/kubernetes.md).
inline constexpr char kNodesAnnotation[] = "parplan.io/nodes";

// Who makes the entry of `spec.runtimePatches` that annotates pods.
inline constexpr char kPatchManager[] = "parplan.io/recommend";

// Longest text that is read, in bytes. The largest object that an API server stores is smaller.
inline constexpr size_t kMaxTrainJobBytes = size_t{4} << 20;

// The fields of a TrainJob that the recommender needs.
struct TrainJob {
  // `namespace/name`, or the name alone. For messages.
  std::string name;
  // Empty for an object that no API server has stored.
  std::string resource_version;
  // Recommender that the job asks for, empty if none, and whether one has answered (`yes` in
  // `kDoneAnnotation`).
  std::string plugin;
  bool is_done = false;
  // `spec.suspend`; false if it is absent.
  bool is_suspended = false;
  // Whether there is a `spec.trainer`.
  bool has_trainer = false;
  // Whether there is a list `spec.runtimePatches`, also an empty one, and the index in it, from 0,
  // of the last entry of `kPatchManager`; absent if it has none.
  bool has_runtime_patches = false;
  std::optional<int> own_runtime_patch;
  // Devices of each pod, and processes, at least 1; absent if the runtime decides, as with the
  // words `auto` and `gpu` for processes. Equal if both are given.
  std::optional<int> devices_per_node;
  std::optional<int> processes_per_node;

  // The annotations that put the question; empty or absent if not given. Numbers are at least 1,
  // and the fewest nodes are at most the most.
  std::string model;
  std::string target;
  std::optional<int64_t> global_batch_size;
  std::optional<int> min_node_count;
  std::optional<int> max_node_count;
};

// Reads a TrainJob in JSON, as `kubectl get trainjob NAME -o json` prints it. `device_resource` is
// the resource that counts devices: `nvidia.com/gpu`. Fields that are not read may hold anything,
// fields that are null count as absent, and numbers may be texts of digits. INVALID_ARGUMENT
// (SPEC_INVALID) naming file and field for text that is no JSON, repeats a member or is longer than
// `kMaxTrainJobBytes`, another kind or version, a list of jobs, a missing name or `spec`, a field
// of the wrong type or range, devices and processes that differ, a limit and a request of devices
// that differ, and an annotation with `kQuestionPrefix` that puts no question. Linear in the text.
absl::StatusOr<TrainJob> ReadTrainJob(absl::string_view text, absl::string_view file_name,
                                      absl::string_view device_resource);

}  // namespace parplan::kubeflow

#endif  // PARPLAN_CLIENTS_KUBEFLOW_TRAIN_JOB_H_
