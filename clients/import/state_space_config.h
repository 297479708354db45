// Reads the recurrence of state-space layers from a `config.json`. `ReadTransformer`
// (transformer_config.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_STATE_SPACE_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_STATE_SPACE_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "planner/model/layer_definition.h"

namespace parplan {

// The recurrence of a layer, and its parameters that no size gives.
struct StateSpaceFacts {
  StateSpace space;
  // Parameters of one layer beyond those that the sizes give: biases, further norms. Negative if
  // there are fewer.
  int64_t extra_parameter_count = 0;
};

// Returns whether the fields are those of Kimi Linear's state space, a gated delta rule with a
// decay of each channel.
bool HasChannelDecays(const ConfigFields& fields);

// Returns whether family or fields are those of the linear attention of MiniMax and of Ling 2.5,
// whose decays are fixed numbers.
bool HasFixedDecays(const FamilyTraits& traits, const ConfigFields& fields);

// Reads the fields of one of three forms. It is a gated delta rule if `linear_num_value_heads` or
// the fields of `HasChannelDecays` or `HasFixedDecays` are there; the dual form if a number or size
// of heads of the recurrence is there, or the family always has heads; else the selective form.
// `is_alone` says that the model has no attention, so that `num_heads`, `head_dim` and
// `intermediate_size` are those of the recurrence. Sizes that are defaults of Mamba and not in the
// file are named in `notes`, except the rank of the time step, a sixteenth of the hidden size,
// rounded up. `fields` remembers errors; after one the facts have no meaning.
StateSpaceFacts ReadStateSpace(const FamilyTraits& traits, int hidden_size, bool is_alone,
                               ConfigFields& fields, std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_STATE_SPACE_CONFIG_H_
