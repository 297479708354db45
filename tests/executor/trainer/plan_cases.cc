#include "tests/executor/trainer/plan_cases.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "planner/program/rank_program.h"
#include "tests/planner/program/program_cases.h"

namespace parplan {
namespace {

// The same strategy for all layers; `stages` of 8 layers in all.
PlanCase Uniform(const std::string& name, int devices, const std::vector<int>& stages,
                 const Strategy& strategy, int64_t micro_batches, bool is_tied = false) {
  return {name,
          PlanOf(SmallGpt(6, is_tied), devices, stages, {strategy}, kCaseBatch, micro_batches),
          is_tied};
}

PlanCase Mixed(const std::string& name, int devices, const std::vector<int>& stages,
               const std::vector<Strategy>& strategies, int64_t micro_batches) {
  return {name, PlanOf(SmallGpt(6), devices, stages, strategies, kCaseBatch, micro_batches)};
}

PlanCase Interleave(PlanCase c) {
  c.plan = Interleaved(std::move(c.plan));
  return c;
}

PlanCase Of(ModelSpec (*model)(int), PlanCase c) {
  c.other_model = model;
  return c;
}

PlanCase Recompute(PlanCase c, RecomputeLevel level = RecomputeLevel::kFull) {
  c.plan = Recomputing(std::move(c.plan), level);
  return c;
}

PlanCase Selective(PlanCase c) { return Recompute(std::move(c), RecomputeLevel::kSelective); }

// Returns a number of devices in a pipeline of `ranks`. The batch has no share for each of 16
// data-parallel ranks.
int DrawDegree(int ranks, const std::function<int(int)>& draw) {
  std::vector<int> degrees;
  for (int degree = ranks == 16 ? 2 : 1; degree <= 4; ++degree) {
    if (ranks % degree == 0) degrees.push_back(degree);
  }
  return degrees[draw(static_cast<int>(degrees.size()))];
}

// Returns the sizes of `count` stages of 8 layers, each at least one.
std::vector<int> DrawSizes(int count, const std::function<int(int)>& draw) {
  std::vector<int> sizes(static_cast<size_t>(count), 1);
  for (int layer = count; layer < 8; ++layer) ++sizes[draw(count)];
  return sizes;
}

PlanCase Gpipe(PlanCase c) {
  c.plan = WithGpipe(std::move(c.plan));
  return c;
}

}  // namespace

std::vector<PlanCase> PlanCases() {
  const Strategy ring2{.context_parallel_degree = 2};
  const Strategy ulysses2{.context_parallel_degree = 2, .context_kind = ContextKind::kUlysses};
  const Strategy tp2dp2{.tensor_parallel_degree = 2, .data_parallel_degree = 2};
  Strategy dp2tp2 = tp2dp2;
  dp2tp2.rank_order = RankOrder::kDataInnermost;
  Strategy tp2dp2z3 = tp2dp2;
  tp2dp2z3.sharding_level = kZero3;
  Strategy tp2sdp2 = tp2dp2z3;
  tp2sdp2.sequence_parallel = true;
  Strategy tp2sdp2z2 = tp2sdp2;
  tp2sdp2z2.sharding_level = kZero2;
  Strategy tp2cp2 = {
      .tensor_parallel_degree = 2, .sequence_parallel = true, .context_parallel_degree = 2};
  Strategy tp2sp2 = {.tensor_parallel_degree = 2,
                     .context_parallel_degree = 2,
                     .context_kind = ContextKind::kUlysses};
  const Strategy ring2dp2z3{
      .data_parallel_degree = 2, .sharding_level = kZero3, .context_parallel_degree = 2};
  return {
      Uniform("MicroBatches", 1, {8}, {}, 4),
      Recompute(Uniform("Recompute", 1, {8}, {}, 2)),
      Uniform("Tied", 1, {8}, {}, 2, true),
      Uniform("Dp2", 2, {8}, Dp(2), 2),
      Uniform("Dp3", 3, {8}, Dp(3), 2),
      Uniform("Dp2Zero1", 2, {8}, Dp(2, kZero1), 2),
      Uniform("Dp2Zero2", 2, {8}, Dp(2, kZero2), 2),
      Uniform("Dp2Zero3", 2, {8}, Dp(2, kZero3), 2),
      Uniform("Dp3Zero3", 3, {8}, Dp(3, kZero3), 1),
      Recompute(Uniform("Dp2Zero3Recompute", 2, {8}, Dp(2, kZero3), 2)),
      Uniform("Tp2", 2, {8}, Tp(2), 2),
      Uniform("Tp3", 3, {8}, Tp(3), 1),
      Uniform("Tp2Sequence", 2, {8}, Tp(2, true), 2),
      Uniform("Tp3Sequence", 3, {8}, Tp(3, true), 2),
      Recompute(Uniform("Tp2SequenceRecompute", 2, {8}, Tp(2, true), 2)),
      Uniform("Tp2Tied", 2, {8}, Tp(2), 2, true),
      Uniform("Ring2", 2, {8}, ring2, 2),
      Uniform("Ring3", 3, {8}, {.context_parallel_degree = 3}, 2),
      Uniform("Ulysses2", 2, {8}, ulysses2, 2),
      Uniform("Pp2", 2, {4, 4}, {}, 4),
      Uniform("Pp2Uneven", 2, {3, 5}, {}, 6),
      Uniform("Pp2Tied", 2, {4, 4}, {}, 4, true),
      Gpipe(Uniform("Pp2Gpipe", 2, {4, 4}, {}, 4)),
      Interleave(Uniform("Pp2Interleaved", 4, {2, 2, 2, 2}, {}, 4)),
      Recompute(Uniform("Pp2Recompute", 2, {4, 4}, {}, 4)),
      Uniform("Pp3Uneven", 3, {2, 4, 2}, {}, 6),
      Uniform("Tp2Dp2", 4, {8}, tp2dp2, 2),
      Uniform("Dp2Tp2", 4, {8}, dp2tp2, 2),
      Uniform("Tp2Dp2Zero3", 4, {8}, tp2dp2z3, 2),
      Uniform("Tp2SequenceDp2Zero3", 4, {8}, tp2sdp2, 2),
      Uniform("Tp2SequenceDp2Zero2", 4, {8}, tp2sdp2z2, 2),
      Uniform("Tp2SequenceRing2", 4, {8}, tp2cp2, 2),
      Uniform("Tp2Ulysses2", 4, {8}, tp2sp2, 2),
      Uniform("Ring2Dp2Zero3", 4, {8}, ring2dp2z3, 2),
      Uniform("Tp4", 4, {8}, Tp(4, true), 2),
      Uniform("Pp2Dp2", 4, {4, 4}, Dp(2), 4),
      Uniform("Pp2Tp2Tied", 4, {4, 4}, Tp(2), 4, true),
      Uniform("Pp4", 4, {2, 2, 2, 2}, {}, 8),
      Mixed("TpToDpAndBack", 2, {8}, {Dp(2), Dp(2), Tp(2), Tp(2, true), Dp(2, kZero3), Tp(2)}, 2),
      Mixed("AllKindsOfFour", 4, {8},
            {Dp(4), tp2dp2, dp2tp2, Tp(4), tp2sdp2, ring2dp2z3, tp2cp2, Dp(4, kZero2)}, 1),
      Mixed("RingToUlysses", 2, {8}, {ring2, ulysses2, Dp(2), Tp(2, true)}, 2),
      Mixed("DifferentSidesOfABoundary", 4, {4, 4}, {Tp(2), Tp(2), Dp(2), Tp(2, true)}, 4),
      Mixed("SixRanksMixed", 6, {8},
            {Dp(6),
             Tp(6),
             {.tensor_parallel_degree = 2, .data_parallel_degree = 3},
             {.tensor_parallel_degree = 3, .data_parallel_degree = 2},
             Dp(6, kZero3)},
            2),
      Mixed("SixRanksTwoStages", 6, {3, 5}, {Dp(3), Tp(3), Tp(3, true), Dp(3, kZero3)}, 4),
      Mixed("EightRanksTwoStages", 8, {4, 4}, {tp2dp2, Dp(4), Tp(4), tp2sdp2}, 3),
      Selective(Uniform("Selective", 1, {8}, {}, 2)),
      Selective(Uniform("Ring2Selective", 2, {8}, ring2, 2)),
      Selective(Uniform("Ulysses2Selective", 2, {8}, ulysses2, 2)),
      Recompute(Uniform("Ring3Recompute", 3, {8}, {.context_parallel_degree = 3}, 2)),
      Recompute(Uniform("Ulysses2Recompute", 2, {8}, ulysses2, 2)),
      Uniform("Ring4", 4, {8}, {.context_parallel_degree = 4}, 2),
      Of(SmallGpt2, Uniform("Gpt2Dp2Zero3", 2, {8}, Dp(2, kZero3), 2)),
      Of(SmallGpt2, Uniform("Gpt2Tp2Sequence", 2, {8}, Tp(2, true), 2)),
      Of(SmallGpt2, Uniform("Gpt2Tp2Ring2", 4, {8}, tp2cp2, 2)),
      Of(SmallGpt2, Recompute(Uniform("Gpt2Pp2Tp2", 4, {4, 4}, Tp(2), 4))),
      Of(SmallLlama, Uniform("LlamaRing3", 3, {8}, {.context_parallel_degree = 3}, 2)),
      Of(SmallLlama, Uniform("LlamaDp2Zero3", 2, {8}, Dp(2, kZero3), 2)),
      Of(SmallLlama, Recompute(Uniform("LlamaTp2Sequence", 2, {8}, Tp(2, true), 2))),
      Of(SmallLlama, Uniform("LlamaTp3", 3, {8}, Tp(3), 2)),
      Of(SmallLlama, Uniform("LlamaTp2Ring2", 4, {8}, tp2cp2, 2)),
      Of(SmallLlama, Uniform("LlamaUlysses2Pp2", 4, {4, 4}, ulysses2, 4)),
      Of(SmallBert, Uniform("BertRing2", 2, {8}, ring2, 2)),
      Of(SmallBert, Uniform("BertTp2Dp2", 4, {8}, tp2dp2, 2)),
      Interleave(Uniform("Pp2Dp2Interleaved", 8, {2, 2, 2, 2}, Dp(2, kZero1), 4)),
  };
}

ModelSpec PlanCase::Model() const {
  return other_model == nullptr ? SmallGpt(6, is_tied) : other_model(6);
}

std::vector<PlanCase> RandomPlanCases(int count, int max_rank_count) {
  std::vector<PlanCase> cases;
  for (int seed = 0; seed < count; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const auto draw = [&random](int choices) {
      return static_cast<int>(random() % static_cast<uint32_t>(choices));
    };
    constexpr int kRankCounts[] = {2, 3, 4, 6, 8, 8, 12, 16};
    const bool has_all = max_rank_count >= 16;
    const int ranks = kRankCounts[seed % (has_all ? 8 : 6)];
    const int stages = has_all ? DrawDegree(ranks, draw) : ranks % 2 == 0 ? 1 + draw(2) : 1;
    // All ranks of a stage may be data-parallel, and micro-batches of an interleaved schedule go
    // through the stages of all devices in turn.
    std::vector<int64_t> micro_batches;
    std::vector<int64_t> in_turn;
    for (int64_t m = 1; m <= 6; ++m) {
      if (kCaseBatch % (m * (ranks / stages)) != 0) continue;
      micro_batches.push_back(m);
      if (m % stages == 0) in_turn.push_back(m);
    }
    const bool interleaves = has_all && stages > 1 && !in_turn.empty() && draw(3) == 0;
    if (interleaves) micro_batches = in_turn;
    const std::vector<Strategy> known = StrategiesOf(ranks / stages);
    std::vector<Strategy> strategies;
    for (int layer = 0; layer < 8; ++layer) {
      Strategy strategy = known[draw(static_cast<int>(known.size()))];
      strategy.sharding_level = static_cast<ShardingLevel>(1 + draw(4));
      if (layer > 0 && layer < 7) {
        strategy.recompute_level = static_cast<RecomputeLevel>(1 + draw(3));
      }
      strategies.push_back(strategy);
    }
    // Uneven stages too.
    std::vector<int> sizes = {8};
    if (interleaves) {
      sizes = DrawSizes(2 * stages, draw);
    } else if (has_all) {
      sizes = DrawSizes(stages, draw);
    } else {
      const int first = 2 + draw(5);
      if (stages == 2) sizes = {first, 8 - first};
    }
    PlanCase c = Mixed(absl::StrCat("Random", seed), interleaves ? 2 * ranks : ranks, sizes,
                       strategies, micro_batches[draw(static_cast<int>(micro_batches.size()))]);
    if (interleaves) {
      c = Interleave(std::move(c));
    } else if (draw(3) == 0) {
      c.plan.schedule = Schedule::kGpipe;
    }
    ModelSpec (*const models[])(int) = {nullptr, SmallGpt2, SmallLlama};
    c.other_model = models[draw(3)];
    // Its 6 heads of keys and values cannot be shared by all.
    if (!RankProgram::Create(c.plan, c.Model(), 0).ok()) c.other_model = SmallGpt2;
    cases.push_back(std::move(c));
  }
  return cases;
}

PlanCase PlanCaseNamed(const std::string& name) {
  const std::vector<PlanCase> cases = PlanCases();
  const auto found =
      std::find_if(cases.begin(), cases.end(), [&](const PlanCase& c) { return c.name == name; });
  PARPLAN_CHECK(found != cases.end());
  return *found;
}

}  // namespace parplan
