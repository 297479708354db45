#include "executor/device/cuda/nccl_communicator.h"

#include <chrono>
#include <vector>

#include "base/system/steady_clock.h"
#include "executor/device/cuda/cuda_status.h"
#include "executor/device/cuda/nccl_calls.h"
#include "executor/device/cuda/nccl_library.h"

namespace parplan::cuda {
namespace {

// Operations that may pass between two looks of the watching thread before the caller itself
// removes those that have ended, so that events do not pile up. Not measured.
constexpr size_t kMaxUnseenCount = 64;

// The work of no operation.
class NoWork : public PendingWork {
 public:
  absl::Status Wait() override { return absl::OkStatus(); }
  bool IsDone() override { return true; }
};

}  // namespace

// Shared with the thread of a split, which may be left behind.
struct NcclCommunicator::Calls {
  // Held while NCCL is called, and by whoever takes its communicator away to end it. The latter
  // waits for it no longer than the group's `call_patience`, and then goes on without it.
  std::timed_mutex mutex;
  // No call begins after this is set.
  std::atomic<bool> is_over = false;
};

// Operations that were started as one.
struct NcclCommunicator::Operation {
  std::vector<CollectiveCall> calls;
  // Reached after earlier work of the device.
  EventPtr ready;
  // Its end, and that of the operation before it in its stream, of whatever group; the latter null
  // for the first, and after it was seen to have ended.
  std::shared_ptr<NcclDevice::End> end;
  std::shared_ptr<NcclDevice::End> before;
  // Reached when the operation begins; null unless its time is measured.
  EventPtr begun;
  // Guarded by the communicator's mutex: when it was given to NCCL, later when it was seen to be
  // the oldest, ready and first in its stream; and whether NCCL has it.
  absl::Duration since;
  bool is_seen_ready = false;
  bool is_launched = false;
};

class NcclCommunicator::Work : public PendingWork {
 public:
  Work(NcclCommunicator& group, std::shared_ptr<Operation> operation, bool waits_on_host)
      : group_(group), operation_(std::move(operation)), waits_on_host_(waits_on_host) {}

  absl::Status Wait() override {
    PARPLAN_RETURN_IF_ERROR(operation_->end->Record(group_.stream_));
    if (waits_on_host_) {
      // An abort lets the GPU reach the event too.
      PARPLAN_RETURN_IF_CUDA_ERROR(::cudaEventSynchronize(operation_->end->done().get()));
      return group_.failure();
    }
    PARPLAN_RETURN_IF_ERROR(group_.failure());
    return operation_->end->done().Delay(group_.group_.device->queue().compute_stream());
  }
  bool IsDone() override {
    if (!operation_->end->Record(group_.stream_).ok()) return true;
    const absl::StatusOr<bool> is_reached = operation_->end->done().IsReached();
    return !is_reached.ok() || *is_reached || !group_.failure().ok();
  }

 private:
  NcclCommunicator& group_;
  const std::shared_ptr<Operation> operation_;
  const bool waits_on_host_;
};

NcclCommunicator::NcclCommunicator(NcclGroup group, cudaStream_t stream, void* number)
    : group_(std::move(group)),
      stream_(stream),
      number_(number),
      calls_(std::make_shared<Calls>()) {}

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Create(NcclGroup group) {
  if (const absl::Status status = OpenNccl(); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("group ", group.name, ": ", status.message()));
  }
  PARPLAN_ASSIGN_OR_RETURN(const cudaStream_t stream, group.device->StreamOf(group.purpose));
  PARPLAN_ASSIGN_OR_RETURN(void* const number, group.device->BarrierNumber());
  return std::unique_ptr<NcclCommunicator>(new NcclCommunicator(std::move(group), stream, number));
}

NcclCommunicator::~NcclCommunicator() {
  // The watching thread ends what takes too long.
  while (true) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const absl::Status status = Collect();
      if (running_.empty() || !failure_.ok() || !status.ok()) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  group_.device->Forget(this);
  if (aborting_.joinable()) aborting_.join();
  if (communicator_ == nullptr) return;
  if (running_.empty()) {
    DestroyCommunicator(group_, making_, communicator_);
  } else {
    static_cast<void>(Nccl().ncclCommAbort(communicator_));
  }
}

absl::Status NcclCommunicator::failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

absl::Status NcclCommunicator::NoteMemory(Bytes before) {
  PARPLAN_ASSIGN_OR_RETURN(const Bytes after, group_.device->UsedMemory());
  group_.device->NoteCommunicator(group_.name, after - before);
  return absl::OkStatus();
}

absl::Status NcclCommunicator::Warm() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok() || communicator_ != nullptr) return failure_;
  }
  PARPLAN_ASSIGN_OR_RETURN(const ncclUniqueId id,
                           ShareId(*group_.job, absl::StrCat("nccl/", group_.id), group_.rank));
  making_ = std::make_shared<NcclMaking>(group_.label);
  const auto make = [id, rank = group_.rank, size = group_.size](NcclMaking& making) {
    return Nccl().ncclCommInitRankConfig(&making.communicator, size, id, rank, &making.config);
  };
  const auto aborts = [](ncclComm_t communicator) {
    if (communicator != nullptr) static_cast<void>(Nccl().ncclCommAbort(communicator));
  };
  PARPLAN_ASSIGN_OR_RETURN(const Bytes before, group_.device->UsedMemory());
  PARPLAN_ASSIGN_OR_RETURN(ncclComm_t const communicator,
                           MakeCommunicator(
                               group_, making_, make, [this] { return failure(); }, aborts));
  absl::Status status = NoteMemory(before);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    status.Update(failure_);
    if (status.ok()) communicator_ = communicator;
  }
  if (!status.ok()) {
    aborts(communicator);
    return status;
  }
  group_.device->Watch(this);
  return absl::OkStatus();
}

absl::Status NcclCommunicator::Launch(absl::Span<const CollectiveCall> calls,
                                      ncclComm_t communicator, Operation& operation) {
  PARPLAN_RETURN_IF_ERROR(operation.ready->Delay(stream_));
  if (operation.begun != nullptr) PARPLAN_RETURN_IF_ERROR(operation.begun->Record(stream_));
  const ncclResult_t result = LaunchCalls(calls, group_.size, number_, communicator, stream_);
  // An abort during the call has freed the communicator.
  return NcclStatus(result, nullptr,
                    absl::StrCat(OperationName(calls.front().operation), " of ", group_.name));
}

absl::StatusOr<std::unique_ptr<PendingWork>> NcclCommunicator::StartTogether(
    absl::Span<const CollectiveCall> calls) {
  for (const CollectiveCall& call : calls) {
    PARPLAN_RETURN_IF_ERROR(CheckCall(call, group_.rank, group_.size, group_.name));
  }
  if (calls.empty()) return std::make_unique<NoWork>();
  PARPLAN_RETURN_IF_ERROR(Warm());
  NcclDevice& device = *group_.device;
  const bool is_timed = measures_busy_;
  auto operation = std::make_shared<Operation>();
  operation->calls.assign(calls.begin(), calls.end());
  PARPLAN_ASSIGN_OR_RETURN(operation->ready, device.TakeEvent());
  if (is_timed) {
    PARPLAN_ASSIGN_OR_RETURN(operation->begun, device.TakeEvent(is_timed));
  }
  PARPLAN_ASSIGN_OR_RETURN(EventPtr done, device.TakeEvent(is_timed));
  operation->end = std::make_shared<NcclDevice::End>(std::move(done));
  PARPLAN_ASSIGN_OR_RETURN(operation->before, device.ExchangeLast(stream_, operation->end));
  PARPLAN_RETURN_IF_ERROR(operation->ready->Record(device.queue().compute_stream()));
  operation->since = SteadyNow();
  absl::Status status;
  ncclComm_t communicator = nullptr;
  {
    const std::lock_guard<std::timed_mutex> calling(calls_->mutex);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      PARPLAN_RETURN_IF_ERROR(failure_);
      // The watching thread may take the member away during the call.
      communicator = communicator_;
      if (running_.size() >= kMaxUnseenCount) status = Collect();
      running_.push_back(operation);
      for (const CollectiveCall& call : calls) Count(call);
    }
    if (status.ok()) status = Launch(calls, communicator, *operation);
    const std::lock_guard<std::mutex> lock(mutex_);
    operation->is_launched = status.ok();
  }
  // Its end is measured where it is, not where a caller waits for it.
  if (status.ok() && is_timed) status = operation->end->Record(stream_);
  if (!status.ok()) {
    Fail(status);
    return failure();
  }
  const bool is_barrier = calls.back().operation == parplan::Operation::kBarrier;
  return std::make_unique<Work>(*this, std::move(operation), is_barrier);
}

void NcclCommunicator::Count(const CollectiveCall& call) {
  CommunicatorStats::Entry& entry = stats_.entries[static_cast<int>(call.operation)];
  ++entry.call_count;
  entry.byte_count += WholeBytes(call, group_.size);
}

absl::StatusOr<bool> NcclCommunicator::IsOver(const Operation& operation) const {
  if (operation.end->is_recorded()) return operation.end->done().IsReached();
  if (!operation.is_launched || operation.begun != nullptr) return false;
  // It is the last of its stream, or the caller has just put another behind it: then a later look
  // finds its end recorded.
  return group_.device->IsIdle(stream_);
}

absl::Status NcclCommunicator::Collect() const {
  while (!running_.empty()) {
    const Operation& operation = *running_.front();
    PARPLAN_ASSIGN_OR_RETURN(const bool is_over, IsOver(operation));
    if (!is_over) break;
    if (operation.begun != nullptr) {
      float milliseconds = 0.0f;
      PARPLAN_RETURN_IF_CUDA_ERROR(::cudaEventElapsedTime(&milliseconds, operation.begun->get(),
                                                          operation.end->done().get()));
      const int index = static_cast<int>(operation.calls.front().operation);
      stats_.entries[index].busy += absl::Milliseconds(static_cast<double>(milliseconds));
    }
    running_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status NcclCommunicator::CheckDeadline() const {
  if (running_.empty()) return absl::OkStatus();
  Operation& oldest = *running_.front();
  // It runs at the earliest when the device has come to it; the time before is not its own, nor is
  // that of an operation of another group that is before it in its stream.
  if (oldest.is_launched && !oldest.is_seen_ready) {
    PARPLAN_ASSIGN_OR_RETURN(oldest.is_seen_ready, oldest.ready->IsReached());
    if (oldest.is_seen_ready && oldest.before != nullptr) {
      PARPLAN_ASSIGN_OR_RETURN(oldest.is_seen_ready, oldest.before->done().IsReached());
    }
    if (oldest.is_seen_ready) oldest.before = nullptr;
    oldest.since = SteadyNow();
    return absl::OkStatus();
  }
  if (SteadyNow() - oldest.since <= group_.job->operation_timeout()) return absl::OkStatus();
  const bool was_recorded = oldest.end->is_recorded();
  PARPLAN_ASSIGN_OR_RETURN(const bool is_over, IsOver(oldest));
  // If its end was recorded meanwhile, the stream is busy with another.
  if (is_over || was_recorded != oldest.end->is_recorded()) return absl::OkStatus();
  return Overdue(group_, OperationName(oldest.calls.front().operation));
}

void NcclCommunicator::Look() {
  absl::Status status = group_.job->Health();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok() || communicator_ == nullptr) return;
    const std::string what = absl::StrCat("operations of ", group_.name);
    ncclResult_t state = ncclSuccess;
    status.Update(
        NcclStatus(Nccl().ncclCommGetAsyncError(communicator_, &state), communicator_, what));
    status.Update(NcclStatus(state, communicator_, what));
    status.Update(Collect());
    status.Update(CheckDeadline());
  }
  // NCCL does not say whom it waits for; a rank that is frozen does not answer the rendezvous.
  if (absl::IsDeadlineExceeded(status)) {
    status = group_.job->ReportStall(std::string(status.message()), /*awaited_rank=*/-1);
  }
  if (!status.ok()) Fail(status);
}

void NcclCommunicator::Fail(const absl::Status& status) {
  bool is_idle = true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) return;
    // From here on no operation and no split begins. A caller that makes one after the other would
    // otherwise take the lock of calls again before this thread gets it, and be within a call when
    // the abort comes.
    failure_ = status;
    calls_->is_over = true;
    // Not worth an error of the device if all that remains has just ended.
    static_cast<void>(Collect());
    is_idle = running_.empty();
  }
  // The error is kept before the GPU continues, since aborted operations leave undefined results.
  if (!is_idle) group_.device->queue().Fail(status);
  // The last call that takes long waits for others within NCCL: only an abort from outside ends it.
  const std::unique_lock<std::timed_mutex> calling(
      calls_->mutex, absl::ToChronoMilliseconds(group_.call_patience));
  const std::lock_guard<std::mutex> lock(mutex_);
  ncclComm_t const communicator = std::exchange(communicator_, nullptr);
  if (communicator == nullptr) return;
  aborting_ = std::thread([communicator, device = group_.device->queue().device()] {
    static_cast<void>(::cudaSetDevice(device));
    static_cast<void>(Nccl().ncclCommAbort(communicator));
  });
}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::Split(int color, int key) {
  PARPLAN_RETURN_IF_ERROR(Warm());
  const int split = split_count_++;
  NcclGroup group = group_;
  group.name = absl::StrCat(group_.name, "/", split, ".", color);
  group.id = absl::StrCat(group_.id, "/", split, ".", color);
  group.label = group.name;
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<NcclCommunicator> made, Create(std::move(group)));
  ncclComm_t whole = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    PARPLAN_RETURN_IF_ERROR(failure_);
    whole = communicator_;
  }
  // Without `splitShare`: operations of communicators that share resources wait for each other.
  const auto making = std::make_shared<NcclMaking>(made->group_.label);
  made->making_ = making;
  PARPLAN_ASSIGN_OR_RETURN(const Bytes before, group_.device->UsedMemory());
  const auto make = [calls = calls_, whole, color, key](NcclMaking& part) {
    const std::lock_guard<std::timed_mutex> calling(calls->mutex);
    if (calls->is_over) return ncclInvalidUsage;
    return Nccl().ncclCommSplit(whole, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key,
                                &part.communicator, &part.config);
  };
  bool is_given_up = false;
  const auto aborts = [this, &is_given_up](ncclComm_t /*part*/) {
    is_given_up = true;
    Fail(absl::AbortedError(absl::StrCat("a split of ", group_.name, " was given up")));
  };
  const absl::StatusOr<ncclComm_t> made_part = MakeCommunicator(
      made->group_, making, make, [&made] { return made->failure(); }, aborts);
  if (!made_part.ok()) {
    // NCCL's error of a split that ended with this group says nothing of why the group ended.
    if (!is_given_up) PARPLAN_RETURN_IF_ERROR(failure());
    // The part was made, and this group failed meanwhile.
    if (making->result == ncclSuccess && making->communicator != nullptr) {
      static_cast<void>(Nccl().ncclCommAbort(making->communicator));
    }
    return made_part.status();
  }
  ncclComm_t const part = *made_part;
  if (part == nullptr) return nullptr;
  made->communicator_ = part;
  PARPLAN_RETURN_IF_ERROR(made->NoteMemory(before));
  int rank = 0;
  int size = 0;
  PARPLAN_RETURN_IF_ERROR(
      NcclStatus(Nccl().ncclCommUserRank(part, &rank), part, "ncclCommUserRank"));
  PARPLAN_RETURN_IF_ERROR(NcclStatus(Nccl().ncclCommCount(part, &size), part, "ncclCommCount"));
  made->group_.rank = rank;
  made->group_.size = size;
  group_.device->Watch(made.get());
  return made;
}

void NcclCommunicator::Abort(absl::string_view reason) {
  group_.job->Abort(std::string(reason));
  Fail(absl::AbortedError(reason));
}

CommunicatorStats NcclCommunicator::Stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  static_cast<void>(Collect());
  return stats_;
}

}  // namespace parplan::cuda
