#include "planner/model/tied_table.h"

#include "planner/model/strategy_fields.h"

namespace parplan {

bool HasTiedTable(const ModelSpec& model) {
  return model.layer(model.layer_count() - 1).tied_embedding;
}

bool HoldsTiedTable(const ModelSpec& model, int definition_index) {
  if (!HasTiedTable(model)) return false;
  const LayerDefinition& layer = model.layer_definitions()[definition_index];
  return layer.tied_embedding ||
         (layer.kind == LayerKind::kEmbedding &&
          layer.vocabulary_size == model.layer(model.layer_count() - 1).vocabulary_size);
}

// The kind of context parallelism does not matter: all ranks of a context-parallel group hold the
// same part. Nor do recomputation and sequence parallelism, and tables have no experts.
static_assert(kStrategyFieldCount == 13, "say whether the new field spreads a table");

bool HoldTableAlike(const Strategy& a, const Strategy& b) {
  return a.tensor_parallel_degree == b.tensor_parallel_degree &&
         a.context_parallel_degree == b.context_parallel_degree &&
         a.data_parallel_degree == b.data_parallel_degree && a.rank_order == b.rank_order &&
         a.sharding_level == b.sharding_level && a.sharding_degree == b.sharding_degree;
}

}  // namespace parplan
