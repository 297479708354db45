// A rehearsal launches everything that steps launch, before its rank communicates.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/executor/device/kernels/wrapped_kernels.h"
#include "tests/executor/trainer/plan_cases.h"
#include "tests/executor/trainer/run_plan.h"

namespace parplan {
namespace {

// The kernels of one rank, with their shapes.
struct Launches {
  std::set<std::string> early;
  // Those that came first when an operation of a group had been called.
  std::set<std::string> late;
  bool has_communicated = false;
  template <typename... Shape>
  void Note(const char* kernel, const Shape&... shape) {
    std::string launch = kernel;
    (absl::StrAppend(&launch, " ", shape), ...);
    if (!has_communicated)
      early.insert(std::move(launch));
    else if (!early.contains(launch))
      late.insert(std::move(launch));
  }
};

class NotingKernels : public WrappedKernels {
 public:
  NotingKernels(std::unique_ptr<LayerKernels> inner, Launches* launches)
      : WrappedKernels(std::move(inner)), launches_(*launches) {}
  void CopyRows(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                int64_t row_count, int64_t row_size) override {
    launches_.Note("copy", from_stride, to_stride, row_count, row_size);
    WrappedKernels::CopyRows(from, from_stride, to, to_stride, row_count, row_size);
  }
  void Multiply(const MatrixProduct& p) override {
    launches_.Note("product", p.transposes_a, p.transposes_b, p.m, p.n, p.k, p.adds);
    WrappedKernels::Multiply(p);
  }
  void AddStatistics(const void* x, void* y, int64_t count) override {
    launches_.Note("add statistics", count);
    WrappedKernels::AddStatistics(x, y, count);
  }
  void Add(const void* x, void* y, int64_t count) override {
    launches_.Note("add", count);
    WrappedKernels::Add(x, y, count);
  }
  void NormBackward(NormKind kind, const void* dy, const void* x, const void* gain,
                    const void* kept, void* dx, void* gain_gradient, void* bias_gradient,
                    int64_t row_count, int64_t row_size) override {
    launches_.Note("norm backward", row_count, row_size);
    WrappedKernels::NormBackward(kind, dy, x, gain, kept, dx, gain_gradient, bias_gradient,
                                 row_count, row_size);
  }
  void GeluBackward(const void* x, const void* dy, void* dx, int64_t count) override {
    launches_.Note("gelu backward", count);
    WrappedKernels::GeluBackward(x, dy, dx, count);
  }
  void SwigluBackward(const void* x, const void* dy, void* dx, int64_t row_count,
                      int64_t row_size) override {
    launches_.Note("swiglu backward", row_count, row_size);
    WrappedKernels::SwigluBackward(x, dy, dx, row_count, row_size);
  }
  void Attention(const AttentionShape& shape, const void* q, const void* k, const void* v,
                 void* output, void* kept) override {
    Note("attention", shape);
    WrappedKernels::Attention(shape, q, k, v, output, kept);
  }
  void AttentionBackward(const AttentionShape& shape, const void* q, const void* k, const void* v,
                         const void* output, const void* kept, const void* output_gradient,
                         void* dq, void* dk, void* dv) override {
    Note("attention backward", shape);
    WrappedKernels::AttentionBackward(shape, q, k, v, output, kept, output_gradient, dq, dk, dv);
  }
  void MergeAttention(const AttentionShape& shape, const void* part, const void* part_kept,
                      void* output, void* kept) override {
    Note("merge", shape);
    WrappedKernels::MergeAttention(shape, part, part_kept, output, kept);
  }
  void EmbedBackward(const int32_t* tokens, int64_t token_count, const void* dy,
                     int64_t first_token, int64_t row_count, int64_t row_size,
                     void* table_gradient) override {
    launches_.Note("embed backward", token_count, row_count, row_size);
    WrappedKernels::EmbedBackward(tokens, token_count, dy, first_token, row_count, row_size,
                                  table_gradient);
  }
  void LogitGradients(void* logits, const int32_t* targets, const void* largest, const void* sums,
                      double factor, int64_t row_count, int64_t row_size,
                      int64_t first_column) override {
    launches_.Note("logit gradients", row_count, row_size);
    WrappedKernels::LogitGradients(logits, targets, largest, sums, factor, row_count, row_size,
                                   first_column);
  }
  void AdamStep(const AdamSettings& settings, int64_t step, const void* gradients,
                void* first_moments, void* second_moments, void* masters, void* parameters,
                int64_t count) override {
    launches_.Note("adam", count);
    WrappedKernels::AdamStep(settings, step, gradients, first_moments, second_moments, masters,
                             parameters, count);
  }

 private:
  void Note(const char* kernel, const AttentionShape& s) {
    launches_.Note(kernel, s.sample_count, s.query_count, s.key_count, s.head_count,
                   s.key_value_head_count, s.head_size, s.is_causal, s.first_query, s.query_stride,
                   s.key_value_stride, s.output_stride, s.adds_gradients);
  }
  Launches& launches_;
};

class NotingCommunicator : public Communicator {
 public:
  NotingCommunicator(std::unique_ptr<Communicator> inner, Launches* launches)
      : inner_(std::move(inner)), launches_(*launches) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override {
    launches_.has_communicated = true;
    return inner_->Start(call);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    return inner_->Split(color, key);
  }
  void Abort(absl::string_view reason) override { inner_->Abort(reason); }
  CommunicatorStats Stats() const override { return inner_->Stats(); }

 private:
  const std::unique_ptr<Communicator> inner_;
  Launches& launches_;
};

// `launches` gets an entry for each rank.
RunOutcome RunNoting(const PlanCase& c, bool rehearses, std::vector<Launches>& launches) {
  launches.assign(c.plan.device_count, {});
  RunOptions options{.type = ElementType::kFloat32,
                     .step_count = 2,
                     .communicates_ahead = true,
                     .rehearses = rehearses};
  options.wrap_group = [&](const GroupSpec& group, std::unique_ptr<Communicator> inner) {
    // The ranks of a group are in order.
    const int rank = group.ranks[inner->rank()];
    return std::make_unique<NotingCommunicator>(std::move(inner), &launches[rank]);
  };
  options.wrap_kernels = [&](int rank, std::unique_ptr<LayerKernels> inner) {
    return std::make_unique<NotingKernels>(std::move(inner), &launches[rank]);
  };
  return RunPlan(c.plan, c.Model(), options);
}

// On a GPU the first launch of a kernel, and the first product and attention of a shape, may wait
// for the whole device, and so for other ranks.
TEST(Rehearsal, EveryLaunchComesFirstBeforeAnyOperation) {
  for (const char* const name :
       {"Tp2SequenceRecompute", "Tp2SequenceDp2Zero2", "Ring2Dp2Zero3", "Ring3Recompute",
        "Ulysses2Selective", "Pp2Tied", "Pp2Interleaved", "AllKindsOfFour",
        "DifferentSidesOfABoundary", "LlamaTp2Ring2", "BertTp2Dp2"}) {
    SCOPED_TRACE(name);
    const PlanCase c = PlanCaseNamed(name);
    std::vector<Launches> launches;
    const RunOutcome rehearsed = RunNoting(c, /*rehearses=*/true, launches);
    for (const Launches& of_rank : launches) {
      EXPECT_FALSE(of_rank.early.empty());
      EXPECT_THAT(of_rank.late, testing::IsEmpty());
    }
    // Nothing of it is left: results and memory are those without it.
    const RunOutcome plain = RunNoting(c, /*rehearses=*/false, launches);
    for (const Launches& of_rank : launches)
      EXPECT_THAT(of_rank.late, testing::Not(testing::IsEmpty()));
    EXPECT_EQ(rehearsed.losses, plain.losses);
    EXPECT_EQ(rehearsed.parameters, plain.parameters);
    for (int rank = 0; rank < c.plan.device_count; ++rank) {
      EXPECT_EQ(rehearsed.peaks[rank].Total(), plain.peaks[rank].Total());
    }
  }
}

}  // namespace
}  // namespace parplan
