#include "planner/search/space/option_costs.h"

namespace parplan {

OptionCosts CostsOfOption(const OptionTable& table, int definition, const StageOption& option) {
  const auto send = [&](bool leaves_node) {
    return table.Send(definition, option.layout, option.layout, leaves_node).value();
  };
  return {option.forward.value(),
          option.kept.as_double(),
          option.states.as_double(),
          option.backward.value(),
          option.sync.value(),
          option.transient.as_double(),
          send(false),
          send(true),
          option.step.as_double(),
          option.bucket.as_double(),
          static_cast<double>(option.communicator_count),
          option.states_in_step.as_double(),
          table.Message(definition, option.layout).as_double()};
}

}  // namespace parplan
