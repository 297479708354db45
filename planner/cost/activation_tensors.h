// The tensors one layer leaves in memory between its forward and its backward pass.
//
// This is the list of Korthikanti et al. ("Reducing Activation Recomputation in Large Transformer
// Models", arXiv 2205.05198, section 4), tensor by tensor instead of in closed form, so that it
// also covers other attention kernels, feed-forward parts, numbers of key-value heads and experts.
// For their layer (as many key-value heads as heads, GELU, feed-forward size 4h, dropout, unfused
// attention, 16-bit) the sum equals theirs exactly: s h (10 + 24/t + 5 a s / (h t)) bytes per
// sample, and s h / t (34 + 5 a s / h) with sequence parallelism. docs/cost-model-memory.md lists
// every tensor and says where we differ. `FootprintOf` (layer_memory.h) and `LayerSource` add them
// up.

#ifndef PARPLAN_PLANNER_COST_ACTIVATION_TENSORS_H_
#define PARPLAN_PLANNER_COST_ACTIVATION_TENSORS_H_

#include <array>
#include <optional>

#include "absl/strings/string_view.h"
#include "planner/model/model_spec.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/strategy.h"

namespace parplan {

// From when to when a tensor lies in memory.
enum class TensorLifetime {
  // From forward to backward under any recomputation: the layer's input.
  kCheckpoint = 1,
  // From forward to backward, unless the layer recomputes all of it.
  kLayer = 2,
  // From forward to backward unless the layer recomputes, all of itself or selectively: the tensors
  // of attention, or those that `SelectiveRecompute::kOperators` makes again.
  kAttentionCore = 3,
  // Only while the backward pass of the layer runs.
  kBackward = 4,
  // The same, for logits and loss.
  kLogits = 5,
  // Instead of `kBackward` if it is more: while the layer recomputes all of itself, or its
  // attention.
  kFullRecompute = 6,
  kSelectiveRecompute = 7,
  // From the first to the second part of a split backward pass: gradients of the outputs of linear
  // maps, which those of the weights read.
  kWeightGradients = 9,
  // Not a tensor of its own: the part of the kept tensors that is freed before the backward pass
  // needs most. `kBackward` contains the same amount in addition.
  kFreed = 8,
};

// One tensor, or the named part of one. Its texts live as long as the program.
struct ActivationTensor {
  absl::string_view name;
  // The formula in the symbols of docs/cost-model-memory.md: s tokens of a rank, S of a sample, h
  // hidden size, i bytes per element of an input of a linear map (e unless the precision
  // quantises), t tensor-parallel degree, r = t with sequence parallelism and 1 without, q and k
  // width of all query and of all key-value heads, a heads, f feed-forward size, e bytes per
  // element, V padded vocabulary, n experts per token.
  absl::string_view formula;
  // Bytes of one sample on one rank.
  double bytes = 0.0;
  TensorLifetime lifetime = TensorLifetime::kLayer;
  // The smallest module that makes the tensor, or its last `module_bytes`, again; nothing if none
  // does, and `module_bytes` has then no meaning. Only for tensors that are kept.
  std::optional<RecomputeModule> module;
  double module_bytes = 0.0;
};

// Bytes of one sample on one rank, by lifetime.
struct ActivationBytes {
  double checkpoint = 0.0;
  double layer = 0.0;
  double attention_core = 0.0;
  double backward = 0.0;
  double logits = 0.0;
  // The part of `logits` in one tensor, of 32 bits if they are widened. Set by `ActivationBytesOf`
  // alone.
  double logits_tensor = 0.0;
  double full_recompute = 0.0;
  double selective_recompute = 0.0;
  double freed = 0.0;
  double weight_gradients = 0.0;
  // [module] the part of `layer` and `attention_core` that it is the smallest module to make again;
  // one field of an array for each value of `RecomputeModule`, the first one unused.
  std::array<double, kRecomputeModuleCount + 1> by_module = {};

  // Returns the bytes that a layer with this recomputation keeps from forward to backward.
  double Kept(const Recomputation& recomputation) const {
    switch (recomputation.level) {
      case RecomputeLevel::kFull:
        return checkpoint;
      case RecomputeLevel::kSelective:
        return checkpoint + layer;
      case RecomputeLevel::kModules:
        return checkpoint + layer + attention_core - MadeAgain(recomputation.modules);
      case RecomputeLevel::kNone:
        break;
    }
    return checkpoint + layer + attention_core;
  }
  // Returns the bytes in addition to what `Kept` leaves out, while the layer recomputes.
  double WorkingToRecompute(const Recomputation& recomputation) const {
    const RecomputeLevel level = recomputation.level;
    const bool attention = level == RecomputeLevel::kSelective ||
                           recomputation.modules.has(RecomputeModule::kCoreAttention);
    return level == RecomputeLevel::kFull ? full_recompute : attention ? selective_recompute : 0.0;
  }
  // Returns the bytes of the tensors that are made again by any of the modules.
  double MadeAgain(RecomputeModules modules) const;
  // Multiplies the parts of modules, as the caller does the sums they are parts of.
  void ScaleModules(double factor);
};

// A short list of tensors that allocates nothing.
class ActivationTensors {
 public:
  // More than any layer has: the list checks it.
  static constexpr int kCapacity = 40;

  // The tensors in the order of `Add`, for a loop; valid until the next `Add`.
  const ActivationTensor* begin() const { return tensors_.data(); }
  const ActivationTensor* end() const { return tensors_.data() + size_; }
  int size() const { return size_; }
  // Returns the bytes of all tensors by lifetime and module; `logits_tensor` is 0.
  ActivationBytes Sum() const;

  // Appends a tensor unless its bytes are 0 or fewer. If there is a `module`, it makes the last
  // `share` of them again, from 0 to 1. REQUIRES: size() < kCapacity, else it aborts.
  void Add(absl::string_view name, absl::string_view formula, double bytes, TensorLifetime lifetime,
           std::optional<RecomputeModule> module = std::nullopt, double share = 1.0);

 private:
  std::array<ActivationTensor, kCapacity> tensors_;
  int size_ = 0;
};

// Lists the tensors of a layer under the tensor, context, sequence and expert parallelism of
// `strategy`. Its recompute and sharding levels are ignored; `ActivationBytes` applies the former,
// layer_memory.h the latter. Tokens are spread evenly over context-parallel ranks and over experts.
// REQUIRES: `LayerDefinition::Create` made the definition, which is not checked, and an opaque
// layer lists the tensor-parallel degree; aborts otherwise.
ActivationTensors ActivationTensorsOf(const LayerDefinition& definition, Precision precision,
                                      const RuntimeTraits& traits, const Strategy& strategy);

// Returns the sum of `ActivationTensorsOf` by lifetime, and `logits_tensor`.
ActivationBytes ActivationBytesOf(const LayerDefinition& definition, Precision precision,
                                  const RuntimeTraits& traits, const Strategy& strategy);

// Returns the vocabulary size after padding, which tensor-parallel ranks share: the next multiple
// of 128 t (Megatron's --make-vocab-size-divisible-by), or `vocabulary_size` itself if the runtime
// does not pad. REQUIRES, unchecked: a degree above 0.
int PaddedVocabularySize(int vocabulary_size, const RuntimeTraits& traits,
                         int tensor_parallel_degree);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_ACTIVATION_TENSORS_H_
