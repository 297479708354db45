// A head that shares the embedding's weights: which layers hold the table, and how they are
// spread together.

#ifndef PARPLAN_PLANNER_MODEL_TIED_TABLE_H_
#define PARPLAN_PLANNER_MODEL_TIED_TABLE_H_

#include "planner/model/model_spec.h"
#include "planner/model/strategy.h"

namespace parplan {

// Whether the last layer reads the table of an embedding.
bool HasTiedTable(const ModelSpec& model);

// Whether layers of the definition hold that table: tied heads, and embeddings of as many
// entries. False for all where there is no tied table.
bool HoldsTiedTable(const ModelSpec& model, int definition_index);

// Whether two layers that hold it may be so in one plan: of the table, of its gradient and of
// the optimizer's states rank r of the one's stage has what rank r of the other's has. In one
// stage the table is then one tensor; in two, ranks of the same number make their gradients
// equal. How much of it may be sharded in two is for `TargetLimits` to say.
bool HoldTableAlike(const Strategy& a, const Strategy& b);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_TIED_TABLE_H_
