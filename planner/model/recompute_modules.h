// The parts of a layer that Megatron-LM recomputes by name (`--recompute-modules`). `Strategy` has
// a set of them; planner/cost says what each keeps and repeats.

#ifndef PARPLAN_PLANNER_MODEL_RECOMPUTE_MODULES_H_
#define PARPLAN_PLANNER_MODEL_RECOMPUTE_MODULES_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/model/layer_definition.h"

namespace parplan {

// A part of a transformer layer that keeps its input and is computed again before its backward
// pass. Values as in proto/parplan/v1/plan.proto.
enum class RecomputeModule {
  // `core_attn`: scores, softmax, dropout and product with the values.
  kCoreAttention = 1,
  // `moe_act`: the activation function of the experts.
  kExpertActivation = 2,
  // `layernorm`: the norms that are no part of a product, those before latent attention and before
  // experts. Transformer Engine computes the others within the product that follows.
  kNorms = 3,
  // `mla_up_proj`: latent attention from the compressed vectors to queries, keys and values.
  kLatentUpProjection = 4,
  // `mlp`: a feed-forward part without experts, with its norm.
  kFeedForward = 5,
  // `moe`: the experts, with router and exchange, `moe_act` and `shared_experts`.
  kExperts = 6,
  // `shared_experts`: the expert that all tokens pass.
  kSharedExperts = 7,
};
inline constexpr int kRecomputeModuleCount = 7;

// Return Megatron-LM's name of a module, which lives as long as the program, and the module of a
// name, or nothing for another name.
absl::string_view RecomputeModuleName(RecomputeModule module);
std::optional<RecomputeModule> FindRecomputeModule(absl::string_view name);

// Returns whether the layer has the module; false for tables, heads and opaque layers.
bool HasRecomputeModule(const LayerDefinition& layer, RecomputeModule module);

// A set of modules. Plain value.
//
//   const RecomputeModules modules =
//       *RecomputeModules::Create({RecomputeModule::kFeedForward}, "recompute_modules");
//   if (modules.has(RecomputeModule::kFeedForward)) ...
class RecomputeModules {
 public:
  // No module: the set of every strategy that does not name modules.
  constexpr RecomputeModules() = default;
  // Makes the set of `modules`, which may come in any order. Returns INVALID_ARGUMENT
  // (SPEC_INVALID) with `field` if there is no module, or one comes twice; and for attention alone,
  // which is `RecomputeLevel::kSelective`.
  static absl::StatusOr<RecomputeModules> Create(absl::Span<const RecomputeModule> modules,
                                                 absl::string_view field);

  // Returns whether the module is in the set.
  constexpr bool has(RecomputeModule module) const { return (bits_ & Bit(module)) != 0; }
  // Returns whether the set has no module.
  constexpr bool empty() const { return bits_ == 0; }
  // Returns a number from 0 on that is below `kSetCount` and that no other set has.
  constexpr int index() const { return bits_; }
  static constexpr int kSetCount = 1 << kRecomputeModuleCount;

  // Returns the modules, ascending.
  std::vector<RecomputeModule> Modules() const;
  // Returns the names of the modules, ascending, with `separator` between them.
  std::string ToString(absl::string_view separator) const;

  friend constexpr auto operator<=>(RecomputeModules, RecomputeModules) = default;

 private:
  constexpr explicit RecomputeModules(uint8_t bits) : bits_(bits) {}
  static constexpr uint8_t Bit(RecomputeModule module) {
    return static_cast<uint8_t>(1u << (static_cast<int>(module) - 1));
  }

  uint8_t bits_ = 0;
};

// Returns the sets of modules that searches look at, of those that some layer has: `layernorm`,
// `moe_act` and `mla_up_proj`, whose bytes cost least time, and these with `mlp` and `moe`, which
// takes the places of `moe_act` and `shared_experts`, because it repeats them. Each without
// attention, and with it if `with_attention` and some layer has it, in this order; the second kind
// is left out if it is equal to the first, and the list is empty if no layer has a module other
// than attention and `shared_experts`. One set for every further module made the search for 61
// layers with 256 experts on 2,048 devices four times as long, and the plan 0.5 % faster.
std::vector<RecomputeModules> SearchedModuleSets(absl::Span<const LayerDefinition> layers,
                                                 bool with_attention);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_RECOMPUTE_MODULES_H_
