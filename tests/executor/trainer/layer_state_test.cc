// Shards of layers, and when they are gathered: seen in the calls of their groups.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/executor/trainer/plan_cases.h"
#include "tests/executor/trainer/run_plan.h"
#include "tests/planner/program/program_cases.h"

namespace parplan {
namespace {

// What the gradient groups of one rank do.
struct GradientCalls {
  // Gathers and scatters, as they were started.
  std::vector<CollectiveCall> shard_calls;
  // Gathers that were started and not awaited.
  int pending_count = 0;
  // [number pending, itself included] how often a gather was awaited.
  std::map<int, int> waits;
};

// Runs an operation when it is started, when it is awaited, or as the communicator within does.
enum class When { kAtStart, kAtWait, kBetween };

class WatchedCommunicator : public Communicator {
 public:
  // `seen` outlives it.
  WatchedCommunicator(std::unique_ptr<Communicator> inner, When when, GradientCalls* seen)
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
  const std::unique_ptr<Communicator> inner_;
  const When when_;
  GradientCalls* const seen_;
};

class WatchedCommunicator::Work : public PendingWork {
 public:
  Work(WatchedCommunicator& group, const CollectiveCall& call) : group_(group), call_(call) {}
  absl::Status Begin() {
    if (group_.when_ == When::kAtWait) return absl::OkStatus();
    auto started = group_.inner_->Start(call_);
    if (!started.ok()) return started.status();
    work_ = *std::move(started);
    if (group_.when_ == When::kAtStart) status_ = work_->Wait();
    return absl::OkStatus();
  }
  absl::Status Wait() override {
    if (is_over_) return status_;
    is_over_ = true;
    if (call_.operation == Operation::kAllGather)
      ++group_.seen_->waits[group_.seen_->pending_count--];
    if (group_.when_ == When::kAtWait) status_ = group_.inner_->Run(call_);
    if (group_.when_ == When::kBetween) status_ = work_->Wait();
    return status_;
  }
  bool IsDone() override { return is_over_; }

 private:
  WatchedCommunicator& group_;
  const CollectiveCall call_;
  std::unique_ptr<PendingWork> work_;
  bool is_over_ = false;
  absl::Status status_;
};

absl::StatusOr<std::unique_ptr<PendingWork>> WatchedCommunicator::Start(
    const CollectiveCall& call) {
  if (call.operation == Operation::kAllGather || call.operation == Operation::kReduceScatter) {
    seen_->shard_calls.push_back(call);
  }
  if (call.operation == Operation::kAllGather) ++seen_->pending_count;
  auto work = std::make_unique<Work>(*this, call);
  const absl::Status status = work->Begin();
  if (!status.ok()) return status;
  return work;
}

// Runs a plan; `seen` has an entry for each rank.
RunOutcome RunWatched(const PlanCase& c, When when, std::vector<GradientCalls>& seen,
                      int step_count = 2, bool gathers_ahead = true) {
  seen.assign(c.plan.device_count, {});
  RunOptions options{.type = ElementType::kFloat32,
                     .optimizer = AdamSettings{},
                     .step_count = step_count,
                     .gathers_ahead = gathers_ahead};
  options.wrap_group = [&](const GroupSpec& group,
                           std::unique_ptr<Communicator> inner) -> std::unique_ptr<Communicator> {
    if (group.purpose != group_purpose::kGradient) return inner;
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
    std::vector<GradientCalls> seen;
    RunWatched(PlanCaseNamed(name), When::kBetween, seen, /*step_count=*/1);
    bool is_any = false;
    for (const GradientCalls& calls : seen) {
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
  std::vector<GradientCalls> seen;
  RunWatched(c, When::kBetween, seen, kSteps);
  const auto layers = static_cast<int>(c.Model().layer_count());
  const auto passes = static_cast<int>(c.plan.micro_batch_count) * kSteps;
  for (const GradientCalls& calls : seen) {
    EXPECT_EQ(calls.pending_count, 0);
    // At the end the test gathers each layer once more, to see its parameters. The backward pass of
    // the embedding gathers nothing.
    const std::map<int, int> expected = {{1, 2 * passes + layers},
                                         {2, passes * (layers - 1 + layers - 2)}};
    EXPECT_EQ(calls.waits, expected);
  }
}

// Nothing reads what is gathered before it is awaited, and nothing writes what is gathered from or
// to before that: whenever it runs, the results are those of gathering in line, to the last bit.
TEST(LayerState, WhenGathersRunChangesNoBit) {
  for (const char* const name : {"Dp2Zero1", "Dp3Zero3", "TpToDpAndBack", "Gpt2Dp2Zero3",
                                 "Dp2Zero3Recompute", "Pp2Dp2Interleaved"}) {
    SCOPED_TRACE(name);
    const PlanCase c = PlanCaseNamed(name);
    std::vector<GradientCalls> seen;
    const RunOutcome in_line =
        RunWatched(c, When::kBetween, seen, /*step_count=*/2, /*gathers_ahead=*/false);
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
