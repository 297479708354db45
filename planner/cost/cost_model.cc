#include "planner/cost/cost_model.h"

#include <algorithm>

namespace parplan {

Seconds CostModel::SendTime(GroupIndex from_group, GroupIndex to_group, int definition_index,
                            const Strategy& from, const Strategy& to, int rank_count,
                            bool leaves_node, int64_t micro_batch_size) const {
  const GroupCosts& sender = group(from_group);
  const Seconds message =
      sender.MessageTime(definition_index, from, rank_count, leaves_node, micro_batch_size);
  if (from_group == to_group) {
    return message + sender.TransitionTime(definition_index, from, to, micro_batch_size) * 0.5;
  }
  const GroupCosts& receiver = group(to_group);
  const Seconds received =
      receiver.MessageTime(definition_index, from, rank_count, leaves_node, micro_batch_size);
  const Seconds transition = GroupCosts::TransitionTime(
      from, to, sender.ReshardingTimesOf(definition_index, from, micro_batch_size),
      receiver.ReshardingTimesOf(definition_index, to, micro_batch_size));
  return std::max(message, received) + transition * 0.5;
}

}  // namespace parplan
