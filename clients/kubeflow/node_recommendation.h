// How many nodes a TrainJob may get, and the patch that gives it so many. `planctl recommend` calls
// them.

#ifndef PARPLAN_CLIENTS_KUBEFLOW_NODE_RECOMMENDATION_H_
#define PARPLAN_CLIENTS_KUBEFLOW_NODE_RECOMMENDATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/kubeflow/train_job.h"

namespace parplan::kubeflow {

// A range of node counts, both ends included: 1 <= min <= max.
struct NodeRange {
  int min = 1;
  int max = 1;
};

// Returns why recommender `plugin` has nothing to do for the job: it asks for none, for another
// one, or has its answer. Empty if the job waits for it.
std::string ReasonToSkip(const TrainJob& job, absl::string_view plugin);

// Returns the numbers of nodes that both the job and `allowed`, the range of whoever runs the
// cluster, accept. INVALID_ARGUMENT (SPEC_INVALID) naming the field if the job is not suspended, so
// that its number of nodes cannot change, or no number is in both ranges. REQUIRES, unchecked:
// `allowed` is a range, 1 <= min <= max.
absl::StatusOr<NodeRange> AcceptedNodes(const TrainJob& job, NodeRange allowed);

// Returns the JSON patch (RFC 6902) that sets `spec.trainer.numNodes` and says that the recommender
// is done, and leaves `spec.suspend` alone. With `annotates_pods` it also gives the pods of the
// runtime's replicated job `node` the number as an annotation (`kNodesAnnotation`), by an entry of
// `spec.runtimePatches`; one that was made before is replaced. An API server refuses to apply it if
// the job has changed since it was read; for a job without a `resource_version`, only if another
// recommender is asked for or it is not suspended. REQUIRES: `job.plugin` is not empty;
// `node_count` is at least 1. Aborts otherwise.
std::string NodeCountPatch(const TrainJob& job, int node_count, bool annotates_pods);

}  // namespace parplan::kubeflow

#endif  // PARPLAN_CLIENTS_KUBEFLOW_NODE_RECOMMENDATION_H_
