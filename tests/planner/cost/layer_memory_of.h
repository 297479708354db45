// Layers, and their memory, for the tests of memory.

#ifndef PARPLAN_TESTS_PLANNER_COST_LAYER_MEMORY_OF_H_
#define PARPLAN_TESTS_PLANNER_COST_LAYER_MEMORY_OF_H_

#include "planner/cost/layer_memory.h"
#include "planner/model/model_spec.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/strategy.h"

namespace parplan {

// Returns an embedding or a head, valid.
inline LayerDefinition TableLayer(LayerKind kind, int hidden, int vocabulary, int sequence,
                                  bool tied) {
  LayerDefinition layer;
  layer.layer_definition_id = "table";
  layer.kind = kind;
  layer.hidden_size = hidden;
  layer.vocabulary_size = vocabulary;
  layer.sequence_length = sequence;
  layer.tied_embedding = tied;
  return LayerDefinition::Create(layer, "layer").value();
}

// Returns the memory of one layer that Adam trains.
inline LayerMemory MemoryOf(const LayerDefinition& layer, const RuntimeTraits& traits,
                            const Strategy& strategy, double samples = 1.0,
                            Precision precision = Precision::kBf16,
                            bool copies_tied_table = false) {
  return MemoryOfLayer(FootprintOf(layer, precision, traits, strategy, copies_tied_table),
                       precision, Optimizer::kAdam, traits, strategy, samples);
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_PLANNER_COST_LAYER_MEMORY_OF_H_
