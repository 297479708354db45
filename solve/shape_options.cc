#include "solve/shape_options.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/field_path.h"
#include "proto/wire/hardware_library.h"
#include "proto/wire/plan_wire.h"

namespace parplan {
namespace {

// The slack of `RecommendedOption`, a tenth: part of the contract (plan_service.proto).
constexpr double kThroughputSlack = 0.9;
constexpr double kStepSlack = 1.1;

bool IsPlaceable(int device_count, int devices_per_node) {
  return device_count % devices_per_node == 0 || devices_per_node % device_count == 0;
}

double StepSeconds(const v1::ShapeOption& option) {
  return static_cast<double>(option.step_duration().seconds()) +
         static_cast<double>(option.step_duration().nanos()) * 1e-9;
}

double ThroughputPerDevice(const v1::ShapeOption& option) {
  return option.samples_per_second() / option.device_count();
}

// Returns the number of consecutive ranks that contain one tensor-parallel group of `strategy`; 1
// if it has none.
int TensorParallelSpan(const Strategy& strategy) {
  if (strategy.tensor_parallel_degree == 1) return 1;
  return strategy.tensor_parallel_degree * strategy.tensor_stride();
}

}  // namespace

absl::Status CheckOffer(const v1::DeviceOffer& offer, const std::string& field,
                        int max_device_count) {
  const auto error = [&field](absl::string_view child, absl::string_view rule) {
    return FieldError(Reason::kSpecInvalid, JoinPath(field, child), rule);
  };
  if (offer.device_kind().empty()) {
    return error("device_kind", "is required; write the device as its driver names it");
  }
  if (offer.devices_per_node() < 1) return error("devices_per_node", "must be at least 1");
  if (offer.device_memory_bytes() < 1) return error("device_memory_bytes", "must be above 0");
  if (offer.reserved_memory_bytes() < 0 ||
      offer.reserved_memory_bytes() >= offer.device_memory_bytes()) {
    return error("reserved_memory_bytes", "must be at least 0 and below device_memory_bytes");
  }
  if (offer.min_device_count() < 1) return error("min_device_count", "must be at least 1");
  if (offer.max_device_count() < offer.min_device_count()) {
    return error("max_device_count", "must be at least min_device_count");
  }
  if (offer.max_device_count() > max_device_count) {
    return error("max_device_count", absl::StrCat("must be at most ", max_device_count,
                                                  " (Capabilities.max_device_count)"));
  }
  if (offer.devices_per_switch() < 0 ||
      offer.devices_per_switch() % offer.devices_per_node() != 0) {
    return error("devices_per_switch", "must be 0 or a multiple of devices_per_node");
  }
  if (!offer.fabric_id().empty() &&
      HardwareLibrary::BuiltIn().FindFabric(offer.fabric_id()) == nullptr) {
    return error("fabric_id", absl::StrCat("`", offer.fabric_id(),
                                           "` is not in the library of fabrics; docs/hardware.md "
                                           "lists those there are, empty stands for the usual one "
                                           "of the device"));
  }
  return absl::OkStatus();
}

std::vector<int> DeviceCounts(const v1::DeviceOffer& offer) {
  const int per_node = offer.devices_per_node();
  const int lowest = offer.min_device_count();
  const int highest = offer.max_device_count();
  std::set<int> counts;
  for (int64_t count = 1; count <= highest; count *= 2) {
    if (count >= lowest && IsPlaceable(static_cast<int>(count), per_node)) {
      counts.insert(static_cast<int>(count));
    }
  }
  for (int count = lowest; count <= highest; ++count) {
    if (IsPlaceable(count, per_node)) {
      counts.insert(count);
      break;
    }
  }
  for (int count = highest; count >= lowest; --count) {
    if (IsPlaceable(count, per_node)) {
      counts.insert(count);
      break;
    }
  }
  return std::vector<int>(counts.begin(), counts.end());
}

int CountOfTries(const std::vector<v1::DeviceOffer>& offers) {
  int count = 0;
  for (const v1::DeviceOffer& offer : offers) count += static_cast<int>(DeviceCounts(offer).size());
  return count;
}

absl::StatusOr<Topology> OfferTopology(absl::string_view cluster, const v1::DeviceOffer& offer,
                                       int device_count) {
  NodeGroup group;
  group.node_group_id = "offer";
  group.device_kind = offer.device_kind();
  group.devices_per_node = std::min(device_count, offer.devices_per_node());
  group.node_count = device_count / group.devices_per_node;
  group.device_memory = Bytes::Of(offer.device_memory_bytes());
  group.reserved_memory = Bytes::Of(offer.reserved_memory_bytes());
  std::vector<LinkTier> tiers = {LinkTier{"node", group.devices_per_node}};
  if (offer.devices_per_switch() > tiers.back().reach_device_count &&
      offer.devices_per_switch() < device_count) {
    tiers.push_back(LinkTier{"switch", offer.devices_per_switch()});
  }
  if (device_count > tiers.back().reach_device_count) {
    tiers.push_back(LinkTier{"fabric", device_count});
  }
  return Topology::Create(std::string(cluster), {std::move(group)}, std::move(tiers),
                          offer.fabric_id());
}

v1::ShapeOption ShapeOptionOf(const PlanFound& found) {
  v1::ShapeOption option;
  option.set_feasible(true);
  *option.mutable_step_duration() = DurationToProto(found.prediction.step);
  option.set_samples_per_second(found.prediction.samples_per_second);
  option.set_peak_memory_bytes(found.prediction.peak_memory.count());
  option.set_pipeline_parallel_degree(found.plan.pipeline_parallel_degree());
  option.set_gist(PlanGist(found.plan));
  int same_node = 1;
  int same_switch = 1;
  for (const StagePlan& stage : found.plan.stages) {
    same_switch = std::max(same_switch, stage.rank_count);
    for (const StageLayerRun& run : stage.layer_runs) {
      same_node = std::max(same_node, TensorParallelSpan(run.strategy));
    }
  }
  option.set_same_node_device_count(same_node);
  option.set_same_switch_device_count(same_switch);
  option.set_confidence(PredictionToProto(found.prediction).confidence());
  return option;
}

v1::ShapeOption ShapeOptionOf(const NothingFits& nothing) {
  v1::ShapeOption option;
  const int64_t needed = nothing.smallest_device_memory.count();
  option.set_smallest_device_memory_bytes(needed);
  option.set_infeasible_reason(
      absl::StrFormat("no plan fits in memory; devices of at least %d bytes (%.1f GB) would do",
                      needed, static_cast<double>(needed) * 1e-9));
  return option;
}

std::optional<int> RecommendedOption(
    const google::protobuf::RepeatedPtrField<v1::ShapeOption>& options) {
  double best_throughput = 0.0;
  for (const v1::ShapeOption& option : options) {
    if (option.feasible()) best_throughput = std::max(best_throughput, ThroughputPerDevice(option));
  }
  std::optional<int> recommended;
  for (int i = 0; i < options.size(); ++i) {
    const v1::ShapeOption& option = options[i];
    if (!option.feasible()) continue;
    if (ThroughputPerDevice(option) < kThroughputSlack * best_throughput) continue;
    double fastest = StepSeconds(option);
    for (const v1::ShapeOption& other : options) {
      if (other.feasible() && other.device_count() == option.device_count()) {
        fastest = std::min(fastest, StepSeconds(other));
      }
    }
    if (StepSeconds(option) > kStepSlack * fastest) continue;
    if (recommended.has_value()) {
      const v1::ShapeOption& chosen = options[*recommended];
      const std::pair<int, double> ours(option.device_count(), StepSeconds(option));
      if (ours >= std::pair<int, double>(chosen.device_count(), StepSeconds(chosen))) continue;
    }
    recommended = i;
  }
  return recommended;
}

}  // namespace parplan
