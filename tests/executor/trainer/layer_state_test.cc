// Shards of layers, and when they and the messages between stages move: seen in the calls of
// groups.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/executor/trainer/plan_cases.h"
#include "tests/executor/trainer/run_plan.h"
#include "tests/planner/program/program_cases.h"

namespace parplan {
namespace {

// The operations of one rank.
struct RankCalls {
  // Gathers and scatters of its gradient groups, as they were started.
  std::vector<CollectiveCall> shard_calls;
  // [Operation] those that were started and not awaited.
  std::array<int, kOperationCount> pending_counts = {};
  // [Operation][number pending, itself included] how often one was awaited.
  std::array<std::map<int, int>, kOperationCount> waits;
  // Messages between stages: `s` where one is sent, `p` where one is posted to be received, and `w`
  // where it is awaited.
  std::string messages;
};

// Runs an operation when it is started, when it is awaited, or as the communicator within does.
// Sends are left to the communicator, and receives wait for what their rank sends later, so that
// they never run when they are started.
enum class When { kAtStart, kAtWait, kBetween };

class WatchedCommunicator : public Communicator {
 public:
  // `seen` outlives it.
  WatchedCommunicator(std::unique_ptr<Communicator> inner, When when, RankCalls* seen)
      : inner_(std::move(inner)), when_(when), seen_(seen) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override;
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    return inner_->Split(color, key);
  }
  void Abort(absl::string_view reason) override { inner_->Abort(reason); }
  CommunicatorStats Stats() const override { return inner_->Stats(); }

 private:
  class Work;
  When WhenOf(const CollectiveCall& call) const {
    if (call.operation == Operation::kSend) return When::kBetween;
    if (call.operation == Operation::kReceive && when_ == When::kAtStart) return When::kBetween;
    return when_;
  }
  const std::unique_ptr<Communicator> inner_;
  const When when_;
  RankCalls* const seen_;
};

class WatchedCommunicator::Work : public PendingWork {
 public:
  Work(WatchedCommunicator& group, const CollectiveCall& call)
      : group_(group), call_(call), when_(group.WhenOf(call)) {}
  absl::Status Begin() {
    if (when_ == When::kAtWait) {
      // Who reads it too early reads NaN.
      if (call_.operation == Operation::kReceive) {
        std::memset(call_.receive, 0xff, call_.count * ElementSize(call_.type));
      }
      return absl::OkStatus();
    }
    auto started = group_.inner_->Start(call_);
    if (!started.ok()) return started.status();
    work_ = *std::move(started);
    if (when_ == When::kAtStart) status_ = work_->Wait();
    return absl::OkStatus();
  }
  absl::Status Wait() override {
    if (is_over_) return status_;
    is_over_ = true;
    const auto operation = static_cast<int>(call_.operation);
    ++group_.seen_->waits[operation][group_.seen_->pending_counts[operation]--];
    if (call_.operation == Operation::kReceive) group_.seen_->messages += 'w';
    if (when_ == When::kAtWait) status_ = group_.inner_->Run(call_);
    if (when_ == When::kBetween) status_ = work_->Wait();
    return status_;
  }
  bool IsDone() override { return is_over_; }

 private:
  WatchedCommunicator& group_;
  const CollectiveCall call_;
  const When when_;
  std::unique_ptr<PendingWork> work_;
  bool is_over_ = false;
  absl::Status status_;
};

absl::StatusOr<std::unique_ptr<PendingWork>> WatchedCommunicator::Start(
    const CollectiveCall& call) {
  if (call.operation == Operation::kAllGather || call.operation == Operation::kReduceScatter) {
    seen_->shard_calls.push_back(call);
  }
  ++seen_->pending_counts[static_cast<int>(call.operation)];
  if (call.operation == Operation::kSend) seen_->messages += 's';
  if (call.operation == Operation::kReceive) seen_->messages += 'p';
  auto work = std::make_unique<Work>(*this, call);
  const absl::Status status = work->Begin();
  if (!status.ok()) return status;
  return work;
}

// Runs a plan; `seen` has an entry for each rank.
RunOutcome RunWatched(const PlanCase& c, When when, std::vector<RankCalls>& seen,
                      int step_count = 2, bool communicates_ahead = true) {
  seen.assign(c.plan.device_count, {});
  RunOptions options{.type = ElementType::kFloat32,
                     .optimizer = AdamSettings{},
                     .step_count = step_count,
                     .communicates_ahead = communicates_ahead};
  options.wrap_group = [&](const GroupSpec& group,
                           std::unique_ptr<Communicator> inner) -> std::unique_ptr<Communicator> {
    const bool is_between_stages = group.purpose.starts_with(group_purpose::kForward) ||
                                   group.purpose.starts_with(group_purpose::kBackward);
    if (group.purpose != group_purpose::kGradient && !is_between_stages) return inner;
    // The ranks of a group are in order.
    const int rank = group.ranks[inner->rank()];
    return std::make_unique<WatchedCommunicator>(std::move(inner), when, &seen[rank]);
  };
  return RunPlan(c.plan, c.Model(), options);
}

constexpr const char* kSharded[] = {"Dp3Zero3", "TpToDpAndBack", "Gpt2Dp2Zero3"};

// NCCL and kernels move 16 bytes at a time only from addresses that are multiples of 16 bytes.
// Three and six ranks divide the size of no layer here.
TEST(LayerState, ShardsBeginAtMultiplesOf128Bytes) {
  for (const char* const name : kSharded) {
    SCOPED_TRACE(name);
    std::vector<RankCalls> seen;
    RunWatched(PlanCaseNamed(name), When::kBetween, seen, /*step_count=*/1);
    bool is_any = false;
    for (const RankCalls& calls : seen) {
      for (const CollectiveCall& call : calls.shard_calls) {
        is_any = true;
        EXPECT_EQ(call.count * ElementSize(call.type) % 128, 0);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(call.send) % 128, 0);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(call.receive) % 128, 0);
      }
    }
    EXPECT_TRUE(is_any);
  }
}

// Every gather of a pass but the last is awaited while that of the next layer is under way.
TEST(LayerState, ParametersAreGatheredOneLayerAhead) {
  const PlanCase c = PlanCaseNamed("Dp2Zero3");
  constexpr int kSteps = 1;
  std::vector<RankCalls> seen;
  RunWatched(c, When::kBetween, seen, kSteps);
  const auto layers = static_cast<int>(c.Model().layer_count());
  const auto passes = static_cast<int>(c.plan.micro_batch_count) * kSteps;
  constexpr auto kGather = static_cast<int>(Operation::kAllGather);
  for (const RankCalls& calls : seen) {
    EXPECT_EQ(calls.pending_counts[kGather], 0);
    // At the end the test gathers each layer once more, to see its parameters. The backward pass of
    // the embedding gathers nothing.
    const std::map<int, int> expected = {{1, 2 * passes + layers},
                                         {2, passes * (layers - 1 + layers - 2)}};
    EXPECT_EQ(calls.waits[kGather], expected);
  }
}

// Every scattering of gradients is awaited when that of the next layer has started, also from one
// backward pass to the next, but for those before a forward pass and the end of the step: that of
// the layer that ran last is awaited alone there, so no forward pass holds a whole gradient.
TEST(LayerState, GradientsAreScatteredUntilTheNextLayerRanOrAForwardPassBegins) {
  for (const ShardingLevel level : {ShardingLevel::kGradients, ShardingLevel::kParameters}) {
    for (const Schedule schedule : {Schedule::kOneForwardOneBackward, Schedule::kGpipe}) {
      SCOPED_TRACE(absl::StrCat(static_cast<int>(level), " ", static_cast<int>(schedule)));
      PlanCase c = PlanCaseNamed("Pp2Dp2");
      c.plan.schedule = schedule;
      for (StagePlan& stage : c.plan.stages) {
        for (StageLayerRun& run : stage.layer_runs) run.strategy.sharding_level = level;
      }
      std::vector<RankCalls> seen;
      RunWatched(c, When::kBetween, seen, /*step_count=*/1);
      const auto layers = static_cast<int>(c.Model().layer_count()) / 2;
      ASSERT_EQ(c.plan.micro_batch_count, 4);
      constexpr auto kScatter = static_cast<int>(Operation::kReduceScatter);
      for (size_t rank = 0; rank < seen.size(); ++rank) {
        EXPECT_EQ(seen[rank].pending_counts[kScatter], 0);
        // F F B F B F B B on the first stage, F B F B F B F B on the second; F F F F B B B B.
        const int alone = schedule == Schedule::kGpipe ? 1 : rank < 2 ? 3 : 4;
        const std::map<int, int> expected = {{1, alone}, {2, 4 * layers - alone}};
        EXPECT_EQ(seen[rank].waits[kScatter], expected);
      }
    }
  }
}

// The passes of the two ranks are F F B F B F B B and F B F B F B F B. With `communicates_ahead` a
// message of each pair comes before the first step, and what a pass needs is posted within the pass
// before it, before that sends.
TEST(RankTrainer, MessagesAreReceivedOnePassAhead) {
  const PlanCase c = PlanCaseNamed("Pp2");
  std::vector<RankCalls> seen;
  RunWatched(c, When::kBetween, seen, /*step_count=*/1);
  EXPECT_EQ(seen[0].messages,
            "pws"
            "s"
            "ps"
            "w"
            "ps"
            "w"
            "ps"
            "w"
            "p"
            "w");
  EXPECT_EQ(seen[1].messages,
            "spw"
            "pw"
            "ps"
            "w"
            "ps"
            "w"
            "ps"
            "w"
            "s");
  RunWatched(c, When::kBetween, seen, /*step_count=*/1, /*communicates_ahead=*/false);
  EXPECT_EQ(seen[0].messages,
            "s"
            "s"
            "pw"
            "s"
            "pw"
            "s"
            "pw"
            "pw");
  EXPECT_EQ(seen[1].messages,
            "pw"
            "s"
            "pw"
            "s"
            "pw"
            "s"
            "pw"
            "s");
}

// Nothing reads what is gathered, scattered or received before it is awaited, and nothing writes
// what it comes from or goes to before that: whenever it runs, the results are those of doing it in
// line, to the last bit.
TEST(LayerState, WhenCommunicationRunsChangesNoBit) {
  for (const char* const name :
       {"Dp2Zero1", "Dp2Zero2", "Dp3Zero3", "TpToDpAndBack", "Gpt2Dp2Zero3", "Dp2Zero3Recompute",
        "Tp2SequenceDp2Zero2", "Pp2", "Pp2Gpipe", "Pp2Interleaved", "Pp2Dp2Interleaved", "Pp4",
        "DifferentSidesOfABoundary", "SixRanksTwoStages"}) {
    SCOPED_TRACE(name);
    const PlanCase c = PlanCaseNamed(name);
    std::vector<RankCalls> seen;
    const RunOutcome in_line =
        RunWatched(c, When::kBetween, seen, /*step_count=*/2, /*communicates_ahead=*/false);
    for (const When when : {When::kAtStart, When::kAtWait, When::kBetween}) {
      const RunOutcome ahead = RunWatched(c, when, seen);
      EXPECT_TRUE(ahead.ranks_agree);
      EXPECT_EQ(in_line.losses, ahead.losses);
      EXPECT_EQ(in_line.parameters, ahead.parameters);
    }
  }
}

}  // namespace
}  // namespace parplan
