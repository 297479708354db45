// Which plans a search may answer with.

#ifndef PARPLAN_PLANNER_MODEL_SEARCH_SPACE_H_
#define PARPLAN_PLANNER_MODEL_SEARCH_SPACE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/model/strategy.h"

namespace parplan {

// What a search may vary. Without a dimension, plans have the value in brackets.
enum class SearchDimension {
  kPipeline,            // `pipeline`: more than one stage [1]
  kUnevenStages,        // `uneven-stages`: stages of any sizes [as many transformer layers each,
                        // what is before them in the first stage, what is behind in the last]
  kPerLayer,            // `per-layer`: transformer layers differ in strategy [all alike]
  kEndStrategies,       // `end-strategies`: embedding and head have strategies of their own
                        // [the degrees and level of the layers beside them]
  kTensor,              // `tensor`: tensor parallelism [1]
  kRankOrder,           // `rank-order`: either axis innermost [tensor parallelism]
  kOptimizerSharding,   // `zero-1`
  kGradientSharding,    // `zero-2`
  kParameterSharding,   // `zero-3`
  kUlysses,             // `ulysses`: context parallelism by all-to-all
  kContext,             // `context`: context parallelism by ring attention
  kSelectiveRecompute,  // `recompute-selective`
  kFullRecompute,       // `recompute-full`
  kGpipe,               // `gpipe`: also this schedule [1F1B]
  kInterleaved,         // `interleaved`: also several virtual stages a device [1F1B]
};
inline constexpr int kSearchDimensionCount = 15;

// The name in quotes above.
absl::string_view SearchDimensionName(SearchDimension dimension);

// A set of dimensions. Plain value.
class DimensionSet {
 public:
  static constexpr DimensionSet All() { return DimensionSet((1u << kSearchDimensionCount) - 1); }
  constexpr DimensionSet() = default;

  constexpr bool has(SearchDimension dimension) const { return (bits_ & Bit(dimension)) != 0; }
  constexpr DimensionSet With(SearchDimension dimension) const {
    return DimensionSet(bits_ | Bit(dimension));
  }
  constexpr DimensionSet Without(SearchDimension dimension) const {
    return DimensionSet(bits_ & ~Bit(dimension));
  }
  friend constexpr DimensionSet operator&(DimensionSet a, DimensionSet b) {
    return DimensionSet(a.bits_ & b.bits_);
  }
  friend constexpr bool operator==(DimensionSet, DimensionSet) = default;

  // `all`, `none`, or names joined by commas in the order of the enum; for few missing
  // ones `all,-gpipe,-context`.
  std::string ToString() const;
  // Reads what `ToString` writes, and any list of names from left to right: the first
  // may be `all` or `none` (a list that begins with `-` starts from `all`), `+name` or
  // `name` adds, `-name` takes away. INVALID_ARGUMENT (SPEC_INVALID) naming `field`, the
  // name that is unknown and those there are.
  static absl::StatusOr<DimensionSet> Parse(absl::string_view text, absl::string_view field);

 private:
  constexpr explicit DimensionSet(uint32_t bits) : bits_(bits) {}
  static constexpr uint32_t Bit(SearchDimension dimension) {
    return 1u << static_cast<int>(dimension);
  }
  uint32_t bits_ = 0;
};

// A program that can run only some plans. docs/search.md has the source of each limit.
enum class Target { kParplan = 1, kMegatron = 2, kDeepSpeed = 3, kGalvatron = 4 };

// What plans of a target have in common besides the dimensions they lack.
struct TargetLimits {
  Target target = Target::kParplan;
  absl::string_view name;
  DimensionSet dimensions;
  // All degrees are powers of two.
  bool only_powers_of_two = false;
  // Highest sharding level with more than one stage.
  ShardingLevel most_sharding_in_pipeline = ShardingLevel::kParameters;
  // The same of layers that hold a tied table (planner/model/tied_table.h).
  ShardingLevel most_tied_sharding_in_pipeline = ShardingLevel::kParameters;
  // A layer splits heads and sequence in one way: tensor parallelism or Ulysses, never
  // both. Other layers of the plan may do it in the other.
  bool one_inner_axis = false;
};

// By target, `kParplan` first. Static.
absl::Span<const TargetLimits> KnownTargets();
const TargetLimits& LimitsOf(Target target);

// By name (`parplan`, `megatron`, `deepspeed`, `galvatron`); nothing for another.
std::optional<Target> FindTarget(absl::string_view name);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_SEARCH_SPACE_H_
