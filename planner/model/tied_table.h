// The table that a tied head shares with the embedding: the layers that hold it, and the strategies
// they may combine. The searches, planner/check, planner/program and the exporters ask it.

#ifndef PARPLAN_PLANNER_MODEL_TIED_TABLE_H_
#define PARPLAN_PLANNER_MODEL_TIED_TABLE_H_

#include "planner/model/model_spec.h"
#include "planner/model/strategy.h"

namespace parplan {

// Returns whether the last layer is a head with `tied_embedding`. That the model has an embedding
// of the same vocabulary size is not looked at.
bool HasTiedTable(const ModelSpec& model);

// Returns whether layers of the definition hold that table: tied heads, and embeddings of the same
// vocabulary size. False for all definitions if there is no tied table. REQUIRES: the index is one
// of `model.layer_definitions()`, which is not checked.
bool HoldsTiedTable(const ModelSpec& model, int definition_index);

// Returns whether two layers that hold the table may have these strategies in one plan: rank r of
// one layer's stage must hold the same part of the table, its gradient and its optimizer states as
// rank r of the other's. In one stage the table is then one tensor; in two stages, ranks of the
// same number all-reduce their gradients. `TargetLimits` (search_space.h) limits how far it may be
// sharded in two stages.
bool HoldTableAlike(const Strategy& a, const Strategy& b);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_TIED_TABLE_H_
