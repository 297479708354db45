// Programs of whole plans through our host code for NCCL, over fakes that hang as hardware does.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "executor/device/cuda/cuda_device.h"
#include "executor/trainer/rank_trainer.h"
#include "planner/cost/rank_memory.h"
#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/executor/device/cuda/silent_kernels.h"
#include "tests/executor/trainer/plan_cases.h"
#include "tests/planner/program/program_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan::cuda {
namespace {

// The state that the ranks of a job share.
struct Job {
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  std::map<std::string, std::string> facts;
  absl::Status health;
};

class RankOfJob : public RankContext {
 public:
  RankOfJob(Job& job, int rank, int world_size) : job_(job), rank_(rank), world_size_(world_size) {}
  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  absl::Duration operation_timeout() const override { return absl::Seconds(20); }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(const std::string&,
                                                          const std::vector<int>&) override {
    return absl::UnimplementedError("there are no groups of the host");
  }
  absl::Status Publish(const std::string& key, const std::string& value) override {
    const std::lock_guard<std::mutex> lock(job_.mutex);
    job_.facts[key] = value;
    job_.changed.notify_all();
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Await(const std::string& key) override {
    std::unique_lock<std::mutex> lock(job_.mutex);
    job_.changed.wait(lock, [&] { return job_.facts.contains(key) || !job_.health.ok(); });
    PARPLAN_RETURN_IF_ERROR(job_.health);
    return job_.facts[key];
  }
  absl::Status Health() override {
    const std::lock_guard<std::mutex> lock(job_.mutex);
    return job_.health;
  }
  void Abort(const std::string& why) override {
    const std::lock_guard<std::mutex> lock(job_.mutex);
    job_.health.Update(absl::AbortedError(why));
    job_.changed.notify_all();
  }

 private:
  Job& job_;
  const int rank_;
  const int world_size_;
};

// The most operations of NCCL that may be seen under way at once on a device: twice the most that
// was seen, since threads of the ranks run in any order. Each may hold 32 thread blocks.
constexpr int kMostOpen = 8;

struct Counts {
  int made_in_steps = 0;
  int connected_in_steps = 0;
  // Calls for memory in both steps, virtual memory left out.
  int allocations_in_steps = 0;
  // The sums over all ranks in the last step.
  int host_calls = 0;
  int host_waits = 0;
  int operations = 0;
  int64_t allocated_bytes = 0;
};

// Makes two steps of a plan on fake GPUs.
absl::Status RunOn(RankOfJob& job, const PlanCase& c, std::barrier<>& meeting, Counts& counts) {
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<CudaDevice> device,
                           CudaDevice::Open(job.rank(), GroupTransport::kNative));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<LayerKernels> kernels,
                           device->MakeKernels(ElementType::kFloat32));
  ArrayPool pool(device->memory());
  const std::unique_ptr<TokenSource> tokens = MakeSyntheticTokens(96, 7);
  const ModelSpec model = c.Model();
  PARPLAN_ASSIGN_OR_RETURN(const RankProgram program,
                           RankProgram::Create(c.plan, model, job.rank()));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<RankTrainer> trainer,
                           RankTrainer::Create(program, model,
                                               {.kernels = kernels.get(),
                                                .pool = &pool,
                                                .tokens = tokens.get(),
                                                .make_group =
                                                    [&](const GroupSpec& group) {
                                                      return device->MakeGroup(job, group.purpose,
                                                                               group.ranks);
                                                    },
                                                .communicates_ahead = true,
                                                .rehearses = true}));
  PARPLAN_RETURN_IF_ERROR(device->Synchronize());
  meeting.arrive_and_wait();
  const int made = TheFakeNccl().made;
  const int connected = TheFakeNccl().connections;
  const int allocations = TheFakeCuda().allocations;
  meeting.arrive_and_wait();
  PARPLAN_RETURN_IF_ERROR(trainer->Step().status());
  meeting.arrive_and_wait();
  const int calls = TheFakeCuda().host_calls;
  const int waits = TheFakeCuda().host_waits;
  const int64_t bytes = TheFakeCuda().allocated_bytes;
  const int operations = TheFakeNccl().operations;
  meeting.arrive_and_wait();
  PARPLAN_RETURN_IF_ERROR(trainer->Step().status());
  meeting.arrive_and_wait();
  if (job.rank() == 0) {
    counts = {.made_in_steps = TheFakeNccl().made - made,
              .connected_in_steps = TheFakeNccl().connections - connected,
              .allocations_in_steps = TheFakeCuda().allocations - allocations,
              .host_calls = TheFakeCuda().host_calls - calls,
              .host_waits = TheFakeCuda().host_waits - waits,
              .operations = TheFakeNccl().operations - operations,
              .allocated_bytes = TheFakeCuda().allocated_bytes - bytes};
  }
  meeting.arrive_and_wait();
  return absl::OkStatus();
}

// The hardware queues of a device, and a property that NVIDIA does not document. NCCL records an
// event behind each operation; if the record of an event holds up its hardware queue, only the 32
// queues that the plugin asks for are enough (docs/adr/0025-nccl-in-program-order.md).
struct Queues {
  int count = 8;
  bool records_block = false;
};

constexpr Queues kQueues[] = {{.count = 1}, {.count = 8}, {.count = 32}, {32, true}};

// Returns those to try: one with as many queues as `PARPLAN_NCCL_QUEUES` says, if it is set, held
// up by records; else `kQueues`.
std::vector<Queues> QueuesToTry() {
  const char* const asked = std::getenv("PARPLAN_NCCL_QUEUES");
  if (asked != nullptr) return {{std::atoi(asked), true}};
  return {std::begin(kQueues), std::end(kQueues)};
}

// Runs the plan; a failure of the test if it hangs, or gets memory within steps. Launches take up
// to `latency` microseconds, which `seed` draws.
Counts RunOnFakes(const PlanCase& c, const Queues& queues, int latency = 0, uint32_t seed = 0) {
  ResetFakes();
  TheFakeCuda().queue_count = queues.count;
  TheFakeCuda().records_block = queues.records_block;
  TheFakeNccl().records_ends = true;
  TheFakeCuda().launch_latency = latency;
  TheFakeCuda().launch_seed = seed;
  TheFakeNccl().first_messages_block = true;
  const int size = c.plan.device_count;
  Job shared;
  Counts counts;
  std::barrier<> meeting(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      RankOfJob job(shared, rank, size);
      const absl::Status status = RunOn(job, c, meeting, counts);
      if (status.ok()) return;
      ADD_FAILURE() << "rank " << rank << ": " << status << "; " << DescribeHang();
      job.Abort(std::string(status.message()));
      meeting.arrive_and_drop();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(TheFakeNccl().made, TheFakeNccl().ended);
  EXPECT_EQ(TheFakeNccl().aborted, 0);
  EXPECT_EQ(TheFakeNccl().unused, 0);
  EXPECT_EQ(counts.made_in_steps, 0);
  EXPECT_EQ(counts.connected_in_steps, 0);
  EXPECT_EQ(counts.allocations_in_steps, 0);
  EXPECT_EQ(counts.allocated_bytes, 0);
  return counts;
}

TEST(NcclPrograms, PlansOfEveryKindDoNotHang) {
  int most_open = 0;
  for (const PlanCase& c : PlanCases()) {
    if (c.plan.device_count == 1) continue;
    SCOPED_TRACE(c.name);
    for (const Queues& queues : QueuesToTry()) {
      RunOnFakes(c, queues);
      most_open = std::max(most_open, TheFakeCuda().most_open.load());
    }
    if (testing::Test::HasFailure()) return;
  }
  // Each holds multiprocessors while it waits, and those that wait must leave room for others
  // (docs/adr/0031-what-the-review-of-cuda-left.md).
  std::printf("operations of a device under way at once: at most %d\n", most_open);
  EXPECT_LE(most_open, kMostOpen);
}

// The number of a plan is the seed of the plan and of its launches. `PARPLAN_NCCL_PLAN_COUNT` plans
// from `PARPLAN_NCCL_PLAN_FIRST` on: 10,000 take some twenty minutes of a processor (docs/cuda.md).
TEST(NcclPrograms, RandomPlansDoNotHang) {
  constexpr size_t kUsualCount = 200;
  const char* const asked = std::getenv("PARPLAN_NCCL_PLAN_COUNT");
  const char* const skipped = std::getenv("PARPLAN_NCCL_PLAN_FIRST");
  const size_t first = skipped == nullptr ? 0 : std::strtoul(skipped, nullptr, 10);
  const size_t count = asked == nullptr ? kUsualCount : std::strtoul(asked, nullptr, 10);
  const std::vector<Queues> queues = QueuesToTry();
  const std::vector<PlanCase> cases = RandomPlanCases(static_cast<int>(first + count), 16);
  for (size_t index = first; index < cases.size(); ++index) {
    SCOPED_TRACE(testing::Message() << "plan " << index << ", " << cases[index].name);
    RunOnFakes(cases[index], queues[index % queues.size()], /*latency=*/50,
               static_cast<uint32_t>(index));
    if (testing::Test::HasFailure()) return;
    if ((index + 1 - first) % kUsualCount != 0) continue;
    std::printf("plans %zu to %zu did not hang\n", first, index);
    std::fflush(stdout);
  }
}

// Returns the plan with the first layer's strategy in all layers.
PlanCase OfOneStrategy(PlanCase c) {
  const Strategy strategy = c.plan.stages[0].layer_runs[0].strategy;
  for (StagePlan& stage : c.plan.stages) {
    for (StageLayerRun& run : stage.layer_runs) run.strategy = strategy;
  }
  return c;
}

// The cost model prices every communicator that a rank makes in a plan of one strategy whose
// stages are not interleaved (docs/adr/0031-what-the-review-of-cuda-left.md), and where ranks only
// share tokens no other either.
TEST(NcclPrograms, PlansOfOneStrategyMakeNoMoreCommunicatorsThanArePriced) {
  int with_context_alone = 0;
  for (const PlanCase& mixed : RandomPlanCases(120, 16)) {
    PlanCase c = OfOneStrategy(mixed);
    if (c.plan.schedule == Schedule::kInterleaved || c.plan.device_count > 8) continue;
    if (!RankProgram::Create(c.plan, c.Model(), 0).ok()) continue;
    SCOPED_TRACE(PlanGist(c.plan));
    RunOnFakes(c, {.count = 8});
    const Strategy& strategy = c.plan.stages[0].layer_runs[0].strategy;
    const int depth = c.plan.pipeline_parallel_degree();
    const int priced = CommunicatorCount(strategy, depth, /*has_tied_table_elsewhere=*/false);
    const bool shares_tokens_alone =
        depth == 1 && strategy.context_parallel_degree == c.plan.device_count;
    with_context_alone += shares_tokens_alone ? 1 : 0;
    for (int rank = 0; rank < c.plan.device_count; ++rank) {
      const int made = CommunicatorsMadeOn(rank);
      ASSERT_LE(made, priced) << "rank " << rank;
      ASSERT_TRUE(!shares_tokens_alone || made == priced) << "rank " << rank << ": " << made;
    }
  }
  EXPECT_GT(with_context_alone, 0);
}

// With one micro-batch the first stage posts the receive of its only gradient before its first
// pass. The launches of that pass wait for nothing, since `RankTrainer` rehearses: without it this
// hangs.
TEST(NcclPrograms, KernelsAreLoadedBeforeAnyOperationWaits) {
  PlanCase c = PlanCaseNamed("Pp2");
  c.plan.micro_batch_count = 1;
  RunOnFakes(c, {.count = 8});
}

// A GPT whose heads 8 ranks can share.
ModelSpec WideGpt(int decoder_count) {
  const auto layer = [](LayerDefinition raw) {
    raw.hidden_size = 64;
    raw.sequence_length = 24;
    return *LayerDefinition::Create(raw, "layer");
  };
  return *ModelSpec::Create(
      "wide",
      {layer({.layer_definition_id = "embedding",
              .kind = LayerKind::kEmbedding,
              .vocabulary_size = 96}),
       layer({.layer_definition_id = "decoder",
              .kind = LayerKind::kDecoder,
              .attention_head_count = 16,
              .feed_forward_size = 256,
              .feed_forward_kind = FeedForwardKind::kGelu}),
       layer({.layer_definition_id = "head", .kind = LayerKind::kHead, .vocabulary_size = 96})},
      {{0, 1}, {1, decoder_count}, {2, 1}}, Precision::kFp32, Optimizer::kAdam);
}

// Every host waits once a step, for the loss, and each collective is one call.
TEST(NcclPrograms, ATensorParallelStepWaitsOnceAndCallsNcclOnceACollective) {
  PlanCase wide = {.name = "Tp8", .plan = PlanOf(WideGpt(6), 8, {8}, {Tp(8)}, kCaseBatch, 1)};
  wide.other_model = WideGpt;
  for (const PlanCase& c : {PlanCaseNamed("Tp3"), wide}) {
    SCOPED_TRACE(c.name);
    const int ranks = c.plan.device_count;
    const Counts counts = RunOnFakes(c, {.count = 8});
    EXPECT_EQ(counts.host_waits, ranks);
    // Embedding 1; 6 layers, 2 each way; head 3 and its inputs' gradients; the loss; for each
    // micro-batch, of which there is one.
    constexpr int kOperations = 1 + 6 * 4 + 4 + 1;
    EXPECT_LE(counts.operations, ranks * kOperations);
    // For each operation the call itself, an event before it for which its stream waits, and one
    // after it for which the device's stream waits; 4 uploads of tokens, each a copy, an event and
    // a look at an earlier one; the loss, copied and awaited.
    EXPECT_LE(counts.host_calls, ranks * (5 * kOperations + 3 * 4 + 3));
  }
}

// A host that is further ahead than the uploads that can be under way waits for the first of them.
TEST(NcclPrograms, HostsRunAheadOfTheirDevicesByFourUploads) {
  PlanCase c = PlanCaseNamed("Tp3");
  c.plan.micro_batch_count = 4;
  const int ranks = c.plan.device_count;
  // 4 uploads in each micro-batch.
  EXPECT_LE(RunOnFakes(c, {.count = 8}).host_waits, ranks * (1 + 4 * 3));
}

// Attention without kernels is refused before any operation of a step, not within it.
TEST(NcclPrograms, AttentionThatADeviceDoesNotHaveIsRefusedBeforeTheFirstStep) {
  ResetFakes();
  const PlanCase c = PlanCases().front();
  Job shared;
  RankOfJob job(shared, 0, 1);
  ASSERT_OK_AND_ASSIGN(const auto device, CudaDevice::Open(0, GroupTransport::kNative));
  ASSERT_OK_AND_ASSIGN(const auto queue, CudaQueue::Create(0));
  SilentKernels kernels(*queue, /*attends=*/false);
  ArrayPool pool(device->memory());
  const std::unique_ptr<TokenSource> tokens = MakeSyntheticTokens(96, 7);
  const ModelSpec model = c.Model();
  ASSERT_OK_AND_ASSIGN(const RankProgram program, RankProgram::Create(c.plan, model, 0));
  EXPECT_THAT(RankTrainer::Create(program, model,
                                  {.kernels = &kernels,
                                   .pool = &pool,
                                   .tokens = tokens.get(),
                                   .make_group =
                                       [&](const GroupSpec& group) {
                                         return device->MakeGroup(job, group.purpose, group.ranks);
                                       }})
                  .status(),
              StatusIs(absl::StatusCode::kUnimplemented, testing::HasSubstr("heads of")));
  EXPECT_EQ(TheFakeNccl().operations, 0);
}

}  // namespace
}  // namespace parplan::cuda
