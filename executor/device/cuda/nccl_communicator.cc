#include "executor/device/cuda/nccl_communicator.h"

#include <cstring>

#include "absl/strings/escaping.h"
#include "executor/device/comm/steady_clock.h"
#include "executor/device/cuda/cuda_status.h"

namespace parplan::cuda {
namespace {

// Returns the group's id, which rank 0 makes and publishes.
absl::StatusOr<ncclUniqueId> ShareId(RankContext& job, const std::string& key, int rank) {
  ncclUniqueId id;
  if (rank == 0) {
    PARPLAN_RETURN_IF_ERROR(NcclStatus(::ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId"));
    PARPLAN_RETURN_IF_ERROR(job.Publish(
        key, absl::BytesToHexString(absl::string_view(id.internal, sizeof(id.internal)))));
    return id;
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, job.Await(key));
  const std::string bytes = absl::HexStringToBytes(text);
  if (bytes.size() != sizeof(id.internal)) {
    return absl::InternalError(absl::StrCat(key, " is no name of NCCL's"));
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

ncclConfig_t ConfigOf(const std::string& name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = name.c_str();
  return config;
}

}  // namespace

class NcclCommunicator::Work : public PendingWork {
 public:
  Work(NcclChannel& channel, CudaQueue& queue, std::shared_ptr<NcclTask> task, bool waits_on_host)
      : channel_(channel), queue_(queue), task_(std::move(task)), waits_on_host_(waits_on_host) {}

  absl::Status Wait() override {
    PARPLAN_RETURN_IF_ERROR(channel_.AwaitStarted(*task_));
    if (waits_on_host_) return channel_.AwaitDone(*task_);
    PARPLAN_RETURN_IF_CUDA_ERROR(
        ::cudaStreamWaitEvent(queue_.compute_stream(), task_->done.get(), 0));
    return absl::OkStatus();
  }
  bool IsDone() override { return channel_.IsDone(*task_); }

 private:
  NcclChannel& channel_;
  CudaQueue& queue_;
  const std::shared_ptr<NcclTask> task_;
  const bool waits_on_host_;
};

NcclChannelSetting NcclCommunicator::SettingOf(const std::string& name, int rank, int size) {
  return {.name = name,
          .rank = rank,
          .size = size,
          .job = group_.job,
          .queue = group_.queue,
          .make = nullptr,
          .on_done = [this](const CollectiveCall& call, absl::Duration busy) {
            const std::lock_guard<std::mutex> lock(mutex_);
            CommunicatorStats::Entry& entry = stats_.entries[static_cast<int>(call.operation)];
            ++entry.call_count;
            entry.byte_count += WholeBytes(call, group_.size);
            entry.busy += busy;
          }};
}

std::unique_ptr<NcclChannel> NcclCommunicator::MakeChannel(const std::string& key, int rank,
                                                           int size) {
  NcclChannelSetting setting = SettingOf(group_.name, rank, size);
  setting.make = [this, key, rank, size]() -> absl::StatusOr<ncclComm_t> {
    PARPLAN_ASSIGN_OR_RETURN(const ncclUniqueId id, ShareId(*group_.job, key, rank));
    ncclConfig_t config = ConfigOf(group_.name);
    ncclComm_t communicator = nullptr;
    const ncclResult_t result = ::ncclCommInitRankConfig(&communicator, size, id, rank, &config);
    if (result != ncclSuccess && result != ncclInProgress) {
      return NcclStatus(result, nullptr, absl::StrCat("the making of ", group_.name));
    }
    return communicator;
  };
  return std::make_unique<NcclChannel>(std::move(setting));
}

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Create(NcclGroup group) {
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(std::move(group)));
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMalloc(&made->number_, sizeof(float)));
  made->channel_ = made->MakeChannel(absl::StrCat("nccl/", made->group_.id), made->group_.rank,
                                     made->group_.size);
  PARPLAN_RETURN_IF_ERROR(made->channel_->AwaitReady());
  return made;
}

NcclCommunicator::~NcclCommunicator() {
  channel_.reset();
  pair_channels_.clear();
  if (number_ != nullptr) static_cast<void>(::cudaFree(number_));
}

NcclChannel& NcclCommunicator::ChannelFor(const CollectiveCall& call) {
  const bool sends = call.operation == Operation::kSend;
  if (!sends && call.operation != Operation::kReceive) return *channel_;
  const Pair pair = sends ? Pair(group_.rank, call.peer) : Pair(call.peer, group_.rank);
  const std::lock_guard<std::mutex> lock(pairs_mutex_);
  std::unique_ptr<NcclChannel>& channel = pair_channels_[pair];
  if (channel == nullptr) {
    // The sender is rank 0 of the channel, which is made in the background.
    channel = MakeChannel(absl::StrCat("nccl/", group_.id, "/", pair.first, ">", pair.second),
                          sends ? 0 : 1, 2);
  }
  return *channel;
}

absl::StatusOr<std::unique_ptr<PendingWork>> NcclCommunicator::Start(const CollectiveCall& call) {
  PARPLAN_RETURN_IF_ERROR(CheckCall(call, group_.rank, group_.size, group_.name));
  NcclChannel& channel = ChannelFor(call);
  auto task = std::make_shared<NcclTask>();
  CollectiveCall own = call;
  const bool is_barrier = call.operation == Operation::kBarrier;
  if (is_barrier) {
    own = {.operation = Operation::kAllReduce, .count = 1, .send = number_, .receive = number_};
  } else if (call.operation == Operation::kSend) {
    own.peer = 1;
  } else if (call.operation == Operation::kReceive) {
    own.peer = 0;
  }
  task->calls = {own};
  task->start = SteadyNow();
  PARPLAN_RETURN_IF_CUDA_ERROR(
      ::cudaEventRecord(task->ready.get(), group_.queue->compute_stream()));
  PARPLAN_RETURN_IF_ERROR(channel.Start(task));
  return std::make_unique<Work>(channel, *group_.queue, std::move(task), is_barrier);
}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::Split(int color, int key) {
  const int split = split_count_++;
  ncclComm_t part = nullptr;
  NcclGroup group = group_;
  group.name = absl::StrCat(group_.name, "/", split, ".", color);
  group.id = absl::StrCat(group_.id, "/", split, ".", color);
  PARPLAN_RETURN_IF_ERROR(channel_->Call([&](ncclComm_t whole) -> absl::Status {
    ncclConfig_t config = ConfigOf(group.name);
    const ncclResult_t result =
        ::ncclCommSplit(whole, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part, &config);
    if (result != ncclSuccess && result != ncclInProgress) {
      return NcclStatus(result, whole, absl::StrCat("the split of ", group_.name));
    }
    PARPLAN_RETURN_IF_ERROR(channel_->Settle(whole, "the split"));
    if (part == nullptr) return absl::OkStatus();
    PARPLAN_RETURN_IF_ERROR(channel_->Settle(part, "the split"));
    PARPLAN_RETURN_IF_ERROR(
        NcclStatus(::ncclCommUserRank(part, &group.rank), part, "ncclCommUserRank"));
    return NcclStatus(::ncclCommCount(part, &group.size), part, "ncclCommCount");
  }));
  if (part == nullptr) return nullptr;
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(std::move(group)));
  NcclChannelSetting setting =
      made->SettingOf(made->group_.name, made->group_.rank, made->group_.size);
  setting.make = [part]() -> absl::StatusOr<ncclComm_t> { return part; };
  made->channel_ = std::make_unique<NcclChannel>(std::move(setting));
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMalloc(&made->number_, sizeof(float)));
  PARPLAN_RETURN_IF_ERROR(made->channel_->AwaitReady());
  return made;
}

void NcclCommunicator::Abort(absl::string_view reason) {
  group_.job->Abort(std::string(reason));
  const absl::Status status = absl::AbortedError(reason);
  channel_->Fail(status);
  const std::lock_guard<std::mutex> lock(pairs_mutex_);
  for (const auto& [unused, channel] : pair_channels_) channel->Fail(status);
}

CommunicatorStats NcclCommunicator::Stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

}  // namespace parplan::cuda
