// Models and plans for tests of the executor.

#ifndef PARPLAN_TESTS_PLANNER_PROGRAM_PROGRAM_CASES_H_
#define PARPLAN_TESTS_PLANNER_PROGRAM_PROGRAM_CASES_H_

#include <cstdint>
#include <vector>

#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// An embedding, decoders with 12 heads of 4, and a head over 96 tokens of vocabulary, 24
// tokens a sample: degrees 2, 3, 4, 6 and 12 divide.
ModelSpec SmallGpt(int decoder_count, bool is_tied = false);

// The same with biases, LayerNorms and learned positions.
ModelSpec SmallGpt2(int decoder_count);

// The same as the first with SwiGLU, RMS norms, and 6 heads of keys and values; or with encoders.
ModelSpec SmallLlama(int decoder_count);
ModelSpec SmallBert(int encoder_count);

// Strategies over `rank_count` ranks, of every kind that splits `SmallGpt`.
std::vector<Strategy> StrategiesOf(int rank_count);

// Strategies that split in one way, and ZeRO's stages by their numbers.
Strategy Dp(int degree, ShardingLevel level = ShardingLevel::kNone);
Strategy Tp(int degree, bool sequence_parallel = false);
inline constexpr ShardingLevel kZero1 = ShardingLevel::kOptimizer;
inline constexpr ShardingLevel kZero2 = ShardingLevel::kGradients;
inline constexpr ShardingLevel kZero3 = ShardingLevel::kParameters;

// Stages of so many layers each, one after the other on equal numbers of ranks; the
// strategies of the layers are those given, again and again.
Plan PlanOf(const ModelSpec& model, int device_count, const std::vector<int>& stage_layer_counts,
            const std::vector<Strategy>& strategies, int64_t batch, int64_t micro_batch_count);

// Variants of a plan of `PlanOf`: with GPipe's schedule; with two stages on each of half as many
// devices; with recomputation in all layers but the first and the last, which are not transformers.
Plan WithGpipe(Plan plan);
Plan Interleaved(Plan plan);
Plan Recomputing(Plan plan, RecomputeLevel level = RecomputeLevel::kFull);

}  // namespace parplan

#endif  // PARPLAN_TESTS_PLANNER_PROGRAM_PROGRAM_CASES_H_
