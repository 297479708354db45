#include "clients/kubeflow/node_recommendation.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/error.h"

namespace parplan::kubeflow {
namespace {

// Returns the JSON pointer (RFC 6901) of an annotation.
std::string AnnotationPointer(absl::string_view name) {
  return absl::StrCat("/metadata/annotations/",
                      absl::StrReplaceAll(name, {{"~", "~0"}, {"/", "~1"}}));
}

// Returns an entry of `spec.runtimePatches` that gives pods an annotation. The job of the nodes is
// named `node`, as in the runtimes of Kubeflow Trainer.
nlohmann::ordered_json PodAnnotation(int node_count) {
  using Json = nlohmann::ordered_json;
  const Json pod = {
      {"metadata", {{"annotations", {{kNodesAnnotation, absl::StrCat(node_count)}}}}}};
  const Json node = {{"name", "node"}, {"template", {{"spec", {{"template", pod}}}}}};
  const Json jobs = {{"replicatedJobs", Json::array({node})}};
  return {{"manager", kPatchManager}, {"trainingRuntimeSpec", {{"template", {{"spec", jobs}}}}}};
}

}  // namespace

std::string ReasonToSkip(const TrainJob& job, absl::string_view plugin) {
  if (job.plugin.empty()) return absl::StrCat("it has no annotation ", kPluginAnnotation);
  if (job.plugin != plugin) {
    return absl::StrCat(kPluginAnnotation, " names `", job.plugin, "`, not `", plugin, "`");
  }
  if (job.is_done) return absl::StrCat(kDoneAnnotation, " is yes already");
  return "";
}

absl::StatusOr<NodeRange> AcceptedNodes(const TrainJob& job, NodeRange allowed) {
  if (!job.is_suspended) {
    return FieldError(Reason::kSpecInvalid, absl::StrCat(job.name, ": spec.suspend"),
                      "must be true: the number of nodes of a job that runs cannot change");
  }
  const NodeRange accepted = {
      .min = std::max(allowed.min, job.min_node_count.value_or(1)),
      .max = std::min(allowed.max, job.max_node_count.value_or(allowed.max))};
  if (accepted.min <= accepted.max) return accepted;
  // Both ranges are right in themselves, so one of them lies above the other.
  const bool wants_more = job.min_node_count.value_or(1) > allowed.max;
  return FieldError(
      Reason::kSpecInvalid,
      absl::StrCat(job.name, ": metadata.annotations.",
                   wants_more ? kMinNodesAnnotation : kMaxNodesAnnotation),
      wants_more ? absl::StrCat("must be at most ", allowed.max, ", the nodes it may have")
                 : absl::StrCat("must be at least ", allowed.min, ", the fewest nodes of a job"));
}

std::string NodeCountPatch(const TrainJob& job, int node_count, bool annotates_pods) {
  PARPLAN_CHECK(!job.plugin.empty());
  PARPLAN_CHECK(node_count >= 1);
  using Json = nlohmann::ordered_json;
  Json patch = Json::array();
  const auto add = [&patch](const char* operation, std::string path, Json value) {
    patch.push_back({{"op", operation}, {"path", std::move(path)}, {"value", std::move(value)}});
  };
  if (!job.resource_version.empty()) add("test", "/metadata/resourceVersion", job.resource_version);
  add("test", AnnotationPointer(kPluginAnnotation), job.plugin);
  add("test", "/spec/suspend", true);
  if (job.has_trainer) {
    add("add", "/spec/trainer/numNodes", node_count);
  } else {
    add("add", "/spec/trainer", {{"numNodes", node_count}});
  }
  if (annotates_pods) {
    const Json entry = PodAnnotation(node_count);
    if (job.own_runtime_patch.has_value()) {
      add("replace", absl::StrCat("/spec/runtimePatches/", *job.own_runtime_patch), entry);
    } else if (job.has_runtime_patches) {
      add("add", "/spec/runtimePatches/-", entry);
    } else {
      add("add", "/spec/runtimePatches", Json::array({entry}));
    }
  }
  add("add", AnnotationPointer(kDoneAnnotation), "yes");
  return patch.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace parplan::kubeflow
