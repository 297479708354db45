// Bugs that are planted in collectives and kernels make a run differ from a serial one: what the
// parity tests look for, they find.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/executor/device/kernels/wrapped_kernels.h"
#include "tests/executor/trainer/plan_cases.h"
#include "tests/executor/trainer/run_plan.h"

namespace parplan {
namespace {

// Replaces the call and returns true, or returns false to let the call proceed.
using Tamper = std::function<bool(const GroupSpec& group, int call_number, CollectiveCall& call,
                                  Communicator& inner, absl::Status& status)>;

// Counts calls over all operations, from 0.
class TamperedCommunicator : public Communicator {
 public:
  TamperedCommunicator(GroupSpec group, std::unique_ptr<Communicator> inner, Tamper tamper)
      : group_(std::move(group)), inner_(std::move(inner)), tamper_(std::move(tamper)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override {
    CollectiveCall changed = call;
    absl::Status status;
    if (tamper_(group_, count_++, changed, *inner_, status)) {
      if (!status.ok()) return status;
      return std::make_unique<Done>();
    }
    return inner_->Start(changed);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    return inner_->Split(color, key);
  }
  void Abort(absl::string_view reason) override { inner_->Abort(reason); }
  CommunicatorStats Stats() const override { return inner_->Stats(); }

 private:
  class Done : public PendingWork {
   public:
    absl::Status Wait() override { return absl::OkStatus(); }
    bool IsDone() override { return true; }
  };

  const GroupSpec group_;
  const std::unique_ptr<Communicator> inner_;
  const Tamper tamper_;
  int count_ = 0;
};

RunOptions WithTamper(const Tamper& tamper) {
  RunOptions options;
  options.wrap_group = [tamper](const GroupSpec& group, std::unique_ptr<Communicator> inner) {
    return std::make_unique<TamperedCommunicator>(group, std::move(inner), tamper);
  };
  return options;
}

RunOptions WithKernels(
    std::function<std::unique_ptr<LayerKernels>(std::unique_ptr<LayerKernels> inner)> wrap) {
  RunOptions options;
  options.wrap_kernels = [wrap = std::move(wrap)](int, std::unique_ptr<LayerKernels> inner) {
    return wrap(std::move(inner));
  };
  return options;
}

// Deviation of a run of this case; parity tests accept 1e-10.
double Parity(const std::string& plan_case, const RunOptions& options) {
  const PlanCase c = PlanCaseNamed(plan_case);
  const ModelSpec model = c.Model();
  const RunOutcome serial = RunSerially(c.plan, model, {});
  const RunOutcome parallel = RunPlan(c.plan, model, options);
  const double difference = DifferenceOf(parallel, serial, ElementType::kFloat64);
  return parallel.ranks_agree ? difference : std::max(difference, 1.0);
}

constexpr double kAccepted = 1e-10;

// Whether nothing is found where nothing is planted: else the others would say nothing.
TEST(PlantedBugs, WrappersThatChangeNothingAreNotFound) {
  const Tamper none = [](const GroupSpec&, int, CollectiveCall&, Communicator&, absl::Status&) {
    return false;
  };
  EXPECT_LE(Parity("Tp2Dp2Zero3", WithTamper(none)), kAccepted);
  EXPECT_LE(Parity("Recompute", WithKernels([](std::unique_ptr<LayerKernels> inner) {
                     return std::make_unique<WrappedKernels>(std::move(inner));
                   })),
            kAccepted);
}

// An operation of groups of one purpose that every rank leaves out.
Tamper Drop(const std::string& purpose, Operation operation, int call_number) {
  return [=](const GroupSpec& group, int number, CollectiveCall& call, Communicator& inner,
             absl::Status&) {
    if (group.purpose != purpose || call.operation != operation) return false;
    if (call_number >= 0 && number != call_number) return false;
    // The value that a rank would have without the others.
    const int64_t bytes = call.count * ElementSize(call.type);
    if (operation == Operation::kReduceScatter) {
      const char* const own = static_cast<const char*>(call.send) + inner.rank() * bytes;
      if (own != call.receive) std::copy_n(own, bytes, static_cast<char*>(call.receive));
    } else if (operation == Operation::kAllReduce && call.send != call.receive) {
      std::copy_n(static_cast<const char*>(call.send), bytes, static_cast<char*>(call.receive));
    } else if (operation == Operation::kAllGather) {
      for (int rank = 0; rank < inner.size(); ++rank) {
        char* const place = static_cast<char*>(call.receive) + rank * bytes;
        if (place != call.send) {
          std::copy_n(static_cast<const char*>(call.send), bytes, place);
        }
      }
    }
    return true;
  };
}

TEST(PlantedBugs, DroppedReductionsOfGradients) {
  EXPECT_GT(Parity("Dp2", WithTamper(Drop("gradient", Operation::kAllReduce, -1))), kAccepted);
  EXPECT_GT(Parity("Dp2Zero2", WithTamper(Drop("gradient", Operation::kReduceScatter, -1))),
            kAccepted);
  // One of them, once.
  EXPECT_GT(Parity("Dp2", WithTamper(Drop("gradient", Operation::kAllReduce, 0))), kAccepted);
  EXPECT_GT(Parity("Dp2Zero1", WithTamper(Drop("gradient", Operation::kReduceScatter, 0))),
            kAccepted);
}

TEST(PlantedBugs, DroppedReductionsOfActivations) {
  EXPECT_GT(Parity("Tp2", WithTamper(Drop("tensor", Operation::kAllReduce, 0))), kAccepted);
  EXPECT_GT(Parity("Tp2Sequence", WithTamper(Drop("tensor", Operation::kReduceScatter, -1))),
            kAccepted);
  // In the backward pass only: late in a step, after all forward passes of a micro-batch.
  EXPECT_GT(Parity("Tp2", WithTamper(Drop("tensor", Operation::kAllReduce, 16))), kAccepted);
}

TEST(PlantedBugs, RowsThatAreCopiedAndNotGathered) {
  EXPECT_GT(Parity("Tp2Sequence", WithTamper(Drop("tensor", Operation::kAllGather, -1))),
            kAccepted);
}

TEST(PlantedBugs, TiedTablesThatAreNotAddedUp) {
  EXPECT_GT(Parity("Pp2Tied", WithTamper(Drop("tied", Operation::kAllReduce, -1))), kAccepted);
}

// After the optimizer's step others' parts of the parameters stay as they were before it.
TEST(PlantedBugs, StaleGathers) {
  const Tamper leave = [](const GroupSpec& group, int, CollectiveCall& call, Communicator&,
                          absl::Status&) {
    return group.purpose == "gradient" && call.operation == Operation::kAllGather;
  };
  EXPECT_GT(Parity("Dp2Zero1", WithTamper(leave)), kAccepted);
  EXPECT_GT(Parity("Dp2Zero2", WithTamper(leave)), kAccepted);
}

// Gradients are added up by ranks that share a matrix and not by those that have the same part.
TEST(PlantedBugs, WrongGroups) {
  RunOptions options;
  options.regroup = [](const GroupSpec& group, int rank) {
    if (group.purpose != "gradient") return group.ranks;
    return rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
  };
  EXPECT_GT(Parity("Tp2Dp2", options), kAccepted);
  options.regroup = [](const GroupSpec& group, int rank) {
    if (group.purpose != "tensor") return group.ranks;
    return rank % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3};
  };
  EXPECT_GT(Parity("Tp2Dp2", options), kAccepted);
}

// A rank's place in its group is another's, so it takes another's slice.
TEST(PlantedBugs, WrongSlices) {
  const Tamper rotate = [](const GroupSpec& group, int, CollectiveCall& call, Communicator& inner,
                           absl::Status& status) {
    if (group.purpose != "tensor" || call.operation != Operation::kReduceScatter) return false;
    // Everyone gets the next rank's rows.
    const int64_t bytes = call.count * ElementSize(call.type);
    std::vector<char> turned(bytes * inner.size());
    for (int rank = 0; rank < inner.size(); ++rank) {
      std::copy_n(static_cast<const char*>(call.send) + (rank + 1) % inner.size() * bytes, bytes,
                  turned.data() + rank * bytes);
    }
    call.send = turned.data();
    status = inner.Run(call);
    return true;
  };
  EXPECT_GT(Parity("Tp2Sequence", WithTamper(rotate)), kAccepted);
}

// Losses are scaled by the tokens of a micro-batch and not of the step.
TEST(PlantedBugs, MissingScalingByMicroBatches) {
  class Unscaled : public WrappedKernels {
   public:
    using WrappedKernels::WrappedKernels;
    void LogitGradients(void* logits, const int32_t* targets, const void* largest, const void* sums,
                        double factor, int64_t row_count, int64_t row_size,
                        int64_t first_column) override {
      WrappedKernels::LogitGradients(logits, targets, largest, sums, 4.0 * factor, row_count,
                                     row_size, first_column);
    }
  };
  EXPECT_GT(Parity("MicroBatches", WithKernels([](std::unique_ptr<LayerKernels> inner) {
                     return std::make_unique<Unscaled>(std::move(inner));
                   })),
            kAccepted);
}

// Attention that is recomputed from what was there before: the queries of another pass.
TEST(PlantedBugs, StaleRecomputation) {
  class Stale : public WrappedKernels {
   public:
    using WrappedKernels::WrappedKernels;
    void Attention(const AttentionShape& shape, const void* q, const void*, const void*,
                   void* output, void* kept) override {
      const int64_t count = shape.query_count * shape.query_stride;
      const auto* const numbers = static_cast<const double*>(q);
      std::vector<double> own(numbers, numbers + count);
      // Passes go forward through all layers and then back, so every second call of six.
      const bool recomputes = calls_++ % 12 >= 6;
      const double* const from = recomputes && !last_.empty() ? last_.data() : own.data();
      const int64_t row = shape.query_sample_stride;
      const int64_t query = int64_t{shape.head_count} * shape.head_size;
      const int64_t key_value = int64_t{shape.key_value_head_count} * shape.head_size;
      EXPECT_EQ(row, query + 2 * key_value);
      WrappedKernels::Attention(shape, from, from + query, from + query + key_value, output, kept);
      last_ = std::move(own);
    }

   private:
    int64_t calls_ = 0;
    std::vector<double> last_;
  };
  EXPECT_GT(Parity("Recompute", WithKernels([](std::unique_ptr<LayerKernels> inner) {
                     return std::make_unique<Stale>(std::move(inner));
                   })),
            kAccepted);
}

// Blocks of a message between stages that arrive instead of others.
TEST(PlantedBugs, MessagesOfAnotherMicroBatch) {
  RunOptions options;
  options.wrap_group = [](const GroupSpec& group, std::unique_ptr<Communicator> inner) {
    auto held = std::make_shared<std::vector<char>>();
    return std::make_unique<TamperedCommunicator>(
        group, std::move(inner),
        [held](const GroupSpec& of, int, CollectiveCall& call, Communicator& with,
               absl::Status& status) {
          if (of.purpose.rfind("forward", 0) != 0 || call.operation != Operation::kSend) {
            return false;
          }
          // Each is one behind.
          const int64_t bytes = call.count * ElementSize(call.type);
          const char* const data = static_cast<const char*>(call.send);
          std::vector<char> own(data, data + bytes);
          if (static_cast<int64_t>(held->size()) == bytes) {
            call.send = held->data();
            status = with.Run(call);
            *held = std::move(own);
            return true;
          }
          *held = std::move(own);
          return false;
        });
  };
  EXPECT_GT(Parity("Pp2", options), kAccepted);
}

}  // namespace
}  // namespace parplan
