// Collectives over links of bytes, driven by the thread that waits for them.
//
// Each operation is a program of steps (collective_program.h). Every message begins with a header
// that names its operation, so that ranks that call different operations get an error. `JobFabric`
// makes one for each group.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_CPU_COMMUNICATOR_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_CPU_COMMUNICATOR_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "executor/device/comm/communicator.h"
#include "executor/device/comm/link.h"
#include "executor/device/comm/shaped_link.h"

namespace parplan {

// The state of a job, as a communicator needs it. `RankContext` (rank_context.h) extends it, and
// `JobFabric` implements it. All methods may be called from any thread. `Health` and `AwaitCause`
// are called while the communicator is locked, so they must not call it.
class JobWatch {
 public:
  virtual ~JobWatch() = default;
  // Returns OK while no rank is lost and none has ended the job; cheap then. Else UNAVAILABLE,
  // ABORTED, or DEADLINE_EXCEEDED after a stall, naming the rank.
  virtual absl::Status Health() = 0;
  // Ends the job for all ranks.
  virtual void Abort(const std::string& why) = 0;
  // Finds out why an operation took too long, which ends the job, and returns the failure:
  // DEADLINE_EXCEEDED naming the rank that is to blame, or an earlier failure. `what` says which
  // operation; `awaited_rank` of the job is the one it waits for, -1 if that is not known. Called
  // without the lock of the communicator. By default this does not end the job, and only returns
  // DEADLINE_EXCEEDED with `what` and the awaited rank.
  virtual absl::Status ReportStall(const std::string& what, int awaited_rank);
  // Waits, for seconds at most, for the job to fail because of what broke a connection to another
  // rank, and returns Health. By default it returns Health at once.
  virtual absl::Status AwaitCause();
};

// The parts of which a communicator is made.
struct CpuGroup {
  // Name for messages.
  std::string name;
  // This rank's number in the group.
  int rank = 0;
  // [rank of the group] rank of the job, for errors; its length is the size of the group.
  std::vector<int> job_ranks;
  // Links to the other ranks of the group; not null.
  std::unique_ptr<LinkSet> links;
  // [rank of the group] shape of the link to it, an entry for every rank. Empty: links are not
  // slowed down.
  std::vector<LinkShape> shapes;
  // Limit on an operation from its start, which the rank checks while it waits; also how far apart
  // the ranks of a job may be.
  absl::Duration operation_timeout = absl::Minutes(5);
  // Outlives the communicator. May be null: then nothing but the operations themselves and `Abort`
  // of the communicator can end them.
  JobWatch* job = nullptr;
  // Makes the communicator of some of the ranks, given as ranks of the job in their new order. Null
  // if `Split` is never called.
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(const std::string& name,
                                                              const std::vector<int>& job_ranks)>
      make_part;
  // Called by `Start`, on its thread and without the lock of the communicator, unless the operation
  // and all others ended at once. May be null.
  std::function<void()> on_started;
};

// The communicator of a group over `group.links`. Used by one thread at a time, as `Communicator`
// says; `Abort`, `Progress`, `IsBusy`, `OldestWait` and `Stats` may be called from any thread.
class CpuCommunicator : public Communicator {
 public:
  explicit CpuCommunicator(CpuGroup group);
  // Drops the operations under way, for which other ranks then wait in vain, or over TCP fail.
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

  // Moves the bytes that can be moved now and returns whether there were any, or an operation
  // failed; for a thread that works while the owner computes. Any thread may call it.
  bool Progress();
  // Returns whether an operation is under way. Any thread may call it.
  bool IsBusy() const { return open_count_.load(std::memory_order_acquire) > 0; }

  // The wait of an operation for another rank.
  struct Wait {
    // The rank of the job.
    int rank = -1;
    // When the operation began, on SteadyNow().
    absl::Duration since;
  };
  // Returns the wait of the oldest operation under way. Returns nothing if there is none or it
  // waits for no rank, or if the communicator stays locked for about 0.2 s, as while it waits for
  // the cause of a failure. Any thread may call it.
  std::optional<Wait> OldestWait() const;

 private:
  class Task;
  class Work;

  absl::StatusOr<std::shared_ptr<Task>> Enqueue(const CollectiveCall& call);
  absl::Status Await(Task& task);
  // Returns the rank of the job that an operation waits for; -1 for none.
  int AwaitedJobRank(const Task& task) const;
  bool ProgressLocked();
  // Ends all operations, under way and to come, with `status`.
  void FailLocked(const absl::Status& status);
  Link& LinkTo(int rank);

  CpuGroup group_;
  std::vector<std::unique_ptr<ShapedLink>> shaped_links_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<std::shared_ptr<Task>> tasks_;
  absl::Status failure_;
  CommunicatorStats stats_;
  // Size of `tasks_`.
  std::atomic<int> open_count_ = 0;
  int split_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_CPU_COMMUNICATOR_H_
