// Converts Galvatron's times and memory into the layer measurements of a profile; called by
// ImportGalvatron (galvatron_profile.h). Layer types that the model does not have are left out.

#ifndef PARPLAN_CLIENTS_IMPORT_GALVATRON_LAYERS_H_
#define PARPLAN_CLIENTS_IMPORT_GALVATRON_LAYERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "clients/import/galvatron_memory.h"
#include "clients/import/galvatron_times.h"
#include "parplan/v1/model.pb.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/model_spec.h"

namespace parplan {

// A model made by `BuildModelSpec`: the embedding is first, the head last. `definitions` are its
// definitions with defaults filled in, at least three.
struct LayersOfModel {
  std::vector<LayerDefinition> definitions;

  // Return the first definition, and the last one.
  const LayerDefinition& embedding() const { return definitions.front(); }
  const LayerDefinition& head() const { return definitions.back(); }
  // Returns the layer type of this number, from 0; REQUIRES, unchecked: below layer_type_count().
  const LayerDefinition& layer(int type) const { return definitions[type + 1]; }
  int layer_type_count() const { return static_cast<int>(definitions.size()) - 2; }
  // Returns whether the model reads images: with a patch embedding, and a head that reads one
  // token.
  bool image() const { return embedding().kind == LayerKind::kPatchEmbedding; }
};

// Adds the timings of layers, embedding and head by the rules of ImportGalvatron, and one note that
// says how the time of embedding and head was split or estimated. Without such a time in the file
// it is estimated from that of the first layer type. Times below 1 ns and all but the first of
// equal keys are left out without a note. Pointers are not null.
void AddLayerTimings(const GalvatronTimes& times, const LayersOfModel& model, v1::Profile* profile,
                     std::vector<std::string>* notes);

// Adds the memory of layers, embedding and head, of equal keys the first, and a note if memory of
// embedding and head that was measured together is split. Such memory is used only where that of
// each alone is missing.
void AddLayerMemories(const GalvatronMemory& memory, const LayersOfModel& model,
                      v1::Profile* profile, std::vector<std::string>* notes);

// Returns the share of the embedding in a time measured for embedding and head together: its share
// of their operations, from 0.01 to 0.99.
double EmbeddingTimeShare(const LayersOfModel& model);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GALVATRON_LAYERS_H_
