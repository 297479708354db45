#include "executor/device/comm/cpu_communicator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/cpu_task.h"

namespace parplan {
namespace {

// Longest sleep of a waiting rank before it checks the health of the job and its deadline.
constexpr absl::Duration kLongestSleep = absl::Milliseconds(10);
// Attempts, a millisecond apart, to look at the operations under way. Whoever moves them holds them
// for microseconds; a communicator that waits for the cause of a failure holds them for seconds.
constexpr int kLookCount = 200;

}  // namespace

absl::Status JobWatch::ReportStall(const std::string& what, int awaited_rank) {
  return absl::DeadlineExceededError(
      awaited_rank < 0 ? what : absl::StrCat(what, ", waiting for rank ", awaited_rank));
}

absl::Status JobWatch::AwaitCause() { return Health(); }

// An operation and its result.
class CpuCommunicator::Task : public CpuTask {
 public:
  using CpuTask::CpuTask;
  // Guarded by the mutex of the communicator until `is_over`.
  absl::Status result;
  std::atomic<bool> is_over = false;
};

class CpuCommunicator::Work : public PendingWork {
 public:
  Work(CpuCommunicator& communicator, std::shared_ptr<Task> task)
      : communicator_(communicator), task_(std::move(task)) {}
  absl::Status Wait() override { return communicator_.Await(*task_); }
  bool IsDone() override {
    if (!task_->is_over.load(std::memory_order_acquire)) communicator_.Progress();
    return task_->is_over.load(std::memory_order_acquire);
  }

 private:
  CpuCommunicator& communicator_;
  const std::shared_ptr<Task> task_;
};

CpuCommunicator::CpuCommunicator(CpuGroup group) : group_(std::move(group)) {
  shaped_links_.resize(size());
  for (int other = 0; other < size(); ++other) {
    if (other == rank() || group_.shapes.empty() || !group_.shapes[other].is_shaped()) continue;
    shaped_links_[other] =
        std::make_unique<ShapedLink>(group_.links->link(other), group_.shapes[other]);
  }
}

CpuCommunicator::~CpuCommunicator() {
  const std::lock_guard<std::mutex> lock(mutex_);
  FailLocked(absl::AbortedError("the communicator is gone"));
}

Link& CpuCommunicator::LinkTo(int rank) {
  if (shaped_links_[rank] != nullptr) return *shaped_links_[rank];
  return group_.links->link(rank);
}

absl::StatusOr<std::shared_ptr<CpuCommunicator::Task>> CpuCommunicator::Enqueue(
    const CollectiveCall& call) {
  PARPLAN_RETURN_IF_ERROR(CheckCall(call, rank(), size(), name()));
  auto task = std::make_shared<Task>(call, rank(), size());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  tasks_.push_back(task);
  open_count_.fetch_add(1, std::memory_order_release);
  return task;
}

absl::StatusOr<std::unique_ptr<PendingWork>> CpuCommunicator::Start(const CollectiveCall& call) {
  PARPLAN_ASSIGN_OR_RETURN(std::shared_ptr<Task> task, Enqueue(call));
  if (!Progress() || IsBusy()) {
    if (group_.on_started) group_.on_started();
  }
  return std::make_unique<Work>(*this, std::move(task));
}

absl::Status CpuCommunicator::Run(const CollectiveCall& call) {
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<Task> task, Enqueue(call));
  return Await(*task);
}

absl::Status CpuCommunicator::RunTogether(absl::Span<const CollectiveCall> calls) {
  std::vector<std::shared_ptr<Task>> tasks;
  absl::Status result;
  for (const CollectiveCall& call : calls) {
    absl::StatusOr<std::shared_ptr<Task>> task = Enqueue(call);
    if (!task.ok()) {
      result = task.status();
      break;
    }
    tasks.push_back(*std::move(task));
  }
  for (const std::shared_ptr<Task>& task : tasks) {
    const absl::Status status = Await(*task);
    if (result.ok()) result = status;
  }
  return result;
}

bool CpuCommunicator::Progress() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ProgressLocked();
}

bool CpuCommunicator::ProgressLocked() {
  const auto link_to = [this](int other) -> Link& { return LinkTo(other); };
  bool has_moved = false;
  Directions taken(size());
  for (size_t index = 0; index < tasks_.size();) {
    Task& task = *tasks_[index];
    // Messages in one direction keep the order of the operations.
    if (task.directions().Overlap(taken)) {
      taken.Add(task.directions());
      ++index;
      continue;
    }
    const absl::StatusOr<bool> moved = task.Progress(link_to);
    if (!moved.ok()) {
      // The failure of the job explains more than the broken connection it causes.
      absl::Status failure;
      if (group_.job != nullptr) {
        failure =
            absl::IsUnavailable(moved.status()) ? group_.job->AwaitCause() : group_.job->Health();
      }
      if (failure.ok()) {
        failure = absl::Status(
            moved.status().code(),
            absl::StrCat(OperationName(task.call().operation), " of ", name(), " with rank ",
                         AwaitedJobRank(task), ": ", moved.status().message()));
      }
      FailLocked(failure);
      return true;
    }
    has_moved |= *moved;
    if (!task.IsDone()) {
      taken.Add(task.directions());
      ++index;
      continue;
    }
    const CollectiveCall& call = task.call();
    CommunicatorStats::Entry& entry = stats_.entries[static_cast<int>(call.operation)];
    ++entry.call_count;
    entry.byte_count += WholeBytes(call, size());
    entry.busy += SteadyNow() - task.start();
    task.is_over.store(true, std::memory_order_release);
    open_count_.fetch_sub(1, std::memory_order_release);
    tasks_.erase(tasks_.begin() + static_cast<int64_t>(index));
  }
  return has_moved;
}

absl::Status CpuCommunicator::Await(Task& task) {
  const auto link_to = [this](int other) -> Link& { return LinkTo(other); };
  while (true) {
    const uint32_t ticket = group_.links->Ticket();
    absl::Duration longest = kLongestSleep;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const bool has_moved = !task.is_over.load(std::memory_order_acquire) && ProgressLocked();
      if (task.is_over.load(std::memory_order_acquire)) return task.result;
      if (has_moved) continue;
      const absl::Status health = group_.job == nullptr ? absl::OkStatus() : group_.job->Health();
      if (!health.ok()) {
        FailLocked(health);
        continue;
      }
      if (SteadyNow() - task.start() > group_.operation_timeout) {
        const std::string what =
            absl::StrCat(OperationName(task.call().operation), " of ", name(), " took longer than ",
                         absl::FormatDuration(group_.operation_timeout));
        const int awaited = AwaitedJobRank(task);
        // Other threads answer meanwhile whom this rank waits for.
        lock.unlock();
        const absl::Status failure =
            group_.job == nullptr
                ? absl::DeadlineExceededError(absl::StrCat(what, ", waiting for rank ", awaited))
                : group_.job->ReportStall(what, awaited);
        lock.lock();
        FailLocked(failure);
        continue;
      }
      for (const std::shared_ptr<Task>& open : tasks_) {
        const absl::Duration wait = open->UntilWritable(link_to);
        if (wait > absl::ZeroDuration()) longest = std::min(longest, wait);
      }
      group_.links->Prepare();
    }
    group_.links->AwaitChange(ticket, longest);
    const std::lock_guard<std::mutex> lock(mutex_);
    group_.links->Absorb();
  }
}

int CpuCommunicator::AwaitedJobRank(const Task& task) const {
  const int other = task.AwaitedRank();
  return other < 0 ? -1 : group_.job_ranks[other];
}

std::optional<CpuCommunicator::Wait> CpuCommunicator::OldestWait() const {
  std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  for (int look = 0; look < kLookCount && !lock.owns_lock(); ++look) {
    absl::SleepFor(absl::Milliseconds(1));
    (void)lock.try_lock();
  }
  if (!lock.owns_lock() || tasks_.empty()) return std::nullopt;
  if (tasks_.front()->AwaitedRank() < 0) return std::nullopt;
  return Wait{.rank = AwaitedJobRank(*tasks_.front()), .since = tasks_.front()->start()};
}

void CpuCommunicator::FailLocked(const absl::Status& status) {
  if (failure_.ok()) failure_ = status;
  for (const std::shared_ptr<Task>& task : tasks_) {
    task->result = failure_;
    task->is_over.store(true, std::memory_order_release);
    open_count_.fetch_sub(1, std::memory_order_release);
  }
  tasks_.clear();
}

absl::StatusOr<std::unique_ptr<Communicator>> CpuCommunicator::Split(int color, int key) {
  const int own[2] = {color, key};
  std::vector<int> all(size_t{2} * size());
  PARPLAN_RETURN_IF_ERROR(AllGather(ElementType::kByte, own, all.data(), sizeof(own)));
  const int split = split_count_++;
  if (color < 0) return nullptr;
  std::vector<std::pair<int, int>> members;
  for (int other = 0; other < size(); ++other) {
    const int* const pair = &all[size_t{2} * other];
    if (pair[0] == color) members.push_back({pair[1], other});
  }
  std::sort(members.begin(), members.end());
  std::vector<int> job_ranks;
  for (const auto& [unused, other] : members) job_ranks.push_back(group_.job_ranks[other]);
  return group_.make_part(absl::StrCat(name(), "/", split, ".", color), job_ranks);
}

void CpuCommunicator::Abort(absl::string_view reason) {
  if (group_.job != nullptr) group_.job->Abort(std::string(reason));
  const std::lock_guard<std::mutex> lock(mutex_);
  FailLocked(absl::AbortedError(reason));
}

CommunicatorStats CpuCommunicator::Stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

}  // namespace parplan
