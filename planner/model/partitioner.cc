#include "planner/model/partitioner.h"

#include <utility>

namespace parplan {
namespace {

constexpr std::pair<Partitioner, absl::string_view> kPartitionerNames[] = {
    {Partitioner::kBest, "best"},
    {Partitioner::kEven, "even"},
    {Partitioner::kGreedy, "greedy"},
};

}  // namespace

absl::string_view PartitionerName(Partitioner partitioner) {
  for (const auto& [each, name] : kPartitionerNames) {
    if (each == partitioner) return name;
  }
  return "";
}

std::optional<Partitioner> FindPartitioner(absl::string_view name) {
  for (const auto& [partitioner, known] : kPartitionerNames) {
    if (known == name) return partitioner;
  }
  return std::nullopt;
}

absl::string_view PartitionerNames() { return "best, even, greedy"; }

}  // namespace parplan
