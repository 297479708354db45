// Layers of published models, one of each structure, for tests of several folders.

#ifndef PARPLAN_TESTS_SUPPORT_SAMPLE_LAYERS_H_
#define PARPLAN_TESTS_SUPPORT_SAMPLE_LAYERS_H_

#include <vector>

#include "planner/model/layer_definition.h"

namespace parplan {

// DeepSeek-V3's dense layer: 128 heads, ranks 1536 and 512.
LayerDefinition LatentLayer(int sequence_length = 4096);
// Mistral-7B's layer with a window that slides; 0 for none.
LayerDefinition WindowLayer(int sequence_length, int attention_window);
// The recurrence of Jamba 1.5 mini with its dense feed-forward part.
LayerDefinition SelectiveLayer(int sequence_length = 4096);
// The layer of Mamba-2 with 64 layers, 4096 wide; it has no feed-forward part.
LayerDefinition DualLayer(int sequence_length = 4096);
// The linear attention of Qwen3-Next with its experts.
LayerDefinition GatedDeltaLayer(int sequence_length = 4096);
// Nemotron-H's feed-forward part, which is a layer of its own.
LayerDefinition FeedForwardLayer(int sequence_length = 4096);
// A layer of DeepSeek-V3 that predicts the token after the next.
LayerDefinition PredictionLayer(int sequence_length = 4096);
// An opaque layer of 1000 parameters that two ranks may share.
LayerDefinition OpaqueSample(int sequence_length = 4096);

// All of them, at one length.
std::vector<LayerDefinition> LayersOfAllStructures(int sequence_length = 4096);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_SAMPLE_LAYERS_H_
