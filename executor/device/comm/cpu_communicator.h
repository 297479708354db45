// Collectives over links of bytes, driven by whoever waits.
//
// Each operation is a program of steps (collective_program.h). Its messages begin with a
// few words that say what they are, so ranks that call different operations find out.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_CPU_COMMUNICATOR_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_CPU_COMMUNICATOR_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/device/comm/communicator.h"
#include "executor/device/comm/link.h"
#include "executor/device/comm/shaped_link.h"

namespace parplan {

// What a communicator needs of the job it is part of.
class JobWatch {
 public:
  virtual ~JobWatch() = default;
  // OK while the job goes on; cheap then.
  virtual absl::Status Health() = 0;
  // Ends it.
  virtual void Abort(const std::string& why) = 0;
};

struct CpuGroup {
  // For people.
  std::string name;
  int rank = 0;
  // [rank of the group] rank of the job, for errors.
  std::vector<int> job_ranks;
  std::unique_ptr<LinkSet> links;
  // [rank of the group] of the way there; empty: as fast as they are.
  std::vector<LinkShape> shapes;
  // From the start of an operation; ranks of a job may be that far apart.
  absl::Duration operation_timeout = absl::Minutes(5);
  // Outlives the communicator.
  JobWatch* job = nullptr;
  // Makes the communicator of a part of the ranks (of the job, in their order).
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(const std::string& name,
                                                              const std::vector<int>& job_ranks)>
      make_part;
  // Called when an operation has been started that nobody waits for yet.
  std::function<void()> on_started;
};

class CpuCommunicator : public Communicator {
 public:
  explicit CpuCommunicator(CpuGroup group);
  ~CpuCommunicator() override;

  int rank() const override { return group_.rank; }
  int size() const override { return static_cast<int>(group_.job_ranks.size()); }
  const std::string& name() const override { return group_.name; }
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override;
  absl::Status Run(const CollectiveCall& call) override;
  absl::Status RunTogether(absl::Span<const CollectiveCall> calls) override;
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  void Abort(absl::string_view reason) override;
  CommunicatorStats Stats() const override;

  // For a thread that moves what is under way while its owner computes: moves what can be
  // moved, and says whether anything was. From any thread.
  bool Progress();
  // Whether anything is under way. From any thread.
  bool IsBusy() const { return open_count_.load(std::memory_order_acquire) > 0; }

 private:
  class Task;
  class Work;

  absl::StatusOr<std::shared_ptr<Task>> Enqueue(const CollectiveCall& call);
  absl::Status Await(Task& task);
  bool ProgressLocked();
  // Ends everything under way with `status`, and all that comes.
  void FailLocked(const absl::Status& status);
  Link& LinkTo(int rank);

  CpuGroup group_;
  std::vector<std::unique_ptr<ShapedLink>> shaped_links_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<std::shared_ptr<Task>> tasks_;
  absl::Status failure_;
  CommunicatorStats stats_;
  // Of `tasks_`.
  std::atomic<int> open_count_ = 0;
  int split_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_CPU_COMMUNICATOR_H_
