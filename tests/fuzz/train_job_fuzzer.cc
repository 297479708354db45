// Reads any text as a TrainJob. One that is read takes the patch that was made for it, and is then
// a job that has its answer.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "clients/kubeflow/node_recommendation.h"
#include "clients/kubeflow/train_job.h"

namespace parplan::kubeflow {
namespace {

constexpr char kDevices[] = "nvidia.com/gpu";

void ReadAny(const std::string& text) {
  const absl::StatusOr<TrainJob> job = ReadTrainJob(text, "job.json", kDevices);
  if (!job.ok()) {
    PARPLAN_CHECK(GetErrorDetail(job.status())->reason == Reason::kSpecInvalid);
    return;
  }
  PARPLAN_CHECK(job->devices_per_node.value_or(1) >= 1);
  const absl::StatusOr<NodeRange> nodes = AcceptedNodes(*job, {.min = 2, .max = 64});
  if (nodes.ok()) {
    PARPLAN_CHECK(nodes->min >= std::max(2, job->min_node_count.value_or(1)));
    PARPLAN_CHECK(nodes->max <= std::min(64, job->max_node_count.value_or(64)));
    PARPLAN_CHECK(nodes->min <= nodes->max);
  }
  if (!nodes.ok() || !ReasonToSkip(*job, job->plugin).empty()) return;
  for (const bool annotates_pods : {false, true}) {
    const nlohmann::json patch =
        nlohmann::json::parse(NodeCountPatch(*job, nodes->max, annotates_pods));
    const nlohmann::json patched = nlohmann::json::parse(text).patch(patch);
    PARPLAN_CHECK(patched["spec"]["trainer"]["numNodes"] == nodes->max);
    const absl::StatusOr<TrainJob> again = ReadTrainJob(patched.dump(), "job.json", kDevices);
    PARPLAN_CHECK(again.ok() && again->is_done && again->is_suspended);
    PARPLAN_CHECK(!annotates_pods || again->own_runtime_patch.has_value());
  }
}

}  // namespace
}  // namespace parplan::kubeflow

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  parplan::kubeflow::ReadAny(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
