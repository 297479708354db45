// Sizes that the configuration classes of Hugging Face Transformers take where a file is silent.
// The readers of heads and experts ask for them, and say in a note what they took.

#ifndef PARPLAN_CLIENTS_IMPORT_CLASS_DEFAULTS_H_
#define PARPLAN_CLIENTS_IMPORT_CLASS_DEFAULTS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace parplan {

// The class has as many key-value heads as heads if none are given.
inline constexpr int kAsManyAsHeads = -1;

// The defaults of one class. 0: the class has no such field, or none by default, or a reader has a
// rule of its own.
struct ClassDefaults {
  // The member `model_type` of the configurations of this class.
  absl::string_view model_type;
  // May be kAsManyAsHeads.
  int key_value_head_count = 0;
  int head_size = 0;
  // The feed-forward width of an expert.
  int expert_size = 0;
  // Number of shared experts, which process every token, each of that width.
  int shared_expert_count = 0;
  // Feed-forward width of the one shared expert, in classes that give a width and no number.
  int shared_expert_size = 0;
  // The width of compressed queries of latent attention.
  int query_rank = 0;
  // The first so many layers have no experts.
  int dense_layer_count = 0;
  // Number of routed experts of a layer. No reader takes it: it is named in a note if a file gives
  // none.
  int expert_count = 0;
};

// Returns the defaults of the class of `model_type`; all 0 if it is not known.
ClassDefaults DefaultsOfClass(absl::string_view model_type);

// Returns the note that a field is absent and that the default of the class of `model_type` stands
// for it: `head_dim is absent; taken as 128, the default of glm`.
std::string DefaultNote(absl::string_view field, int value, absl::string_view model_type);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_CLASS_DEFAULTS_H_
