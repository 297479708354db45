#include "executor/device/comm/job_fabric.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/shared_memory_links.h"
#include "executor/device/comm/steady_clock.h"
#include "executor/device/comm/tcp_links.h"

namespace parplan {
namespace {

// Polls of a waiting rank before it sleeps. With a core of its own it polls for some microseconds,
// the time to wake a sleeping thread; on a shared core polling takes the time of the rank that it
// waits for. Not measured against other values.
constexpr int kSpinsWithOwnCore = 2000;
constexpr int kSpinsWithSharedCore = 50;

// Returns an id that processes have in common if they can share memory: boot of the machine, PID
// namespace and user.
std::string MachineName() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 128> space = {};
  const ssize_t size = ::readlink("/proc/self/ns/pid", space.data(), space.size() - 1);
  return absl::StrCat(boot, "/", absl::string_view(space.data(), std::max<ssize_t>(size, 0)), "/",
                      ::getuid());
}

int CoreCount() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return CPU_COUNT(&cores);
}

}  // namespace

// A communicator that the fabric's progress thread moves, and whose waits the fabric knows.
class JobFabric::Member : public CpuCommunicator {
 public:
  Member(CpuGroup group, JobFabric* fabric) : CpuCommunicator(std::move(group)), fabric_(fabric) {
    if (fabric_->progress_ != nullptr) fabric_->progress_->Add(this);
    const std::lock_guard<std::mutex> lock(fabric_->members_mutex_);
    fabric_->members_.insert(this);
  }
  ~Member() override {
    if (fabric_->progress_ != nullptr) fabric_->progress_->Remove(this);
    const std::lock_guard<std::mutex> lock(fabric_->members_mutex_);
    fabric_->members_.erase(this);
  }

 private:
  JobFabric* const fabric_;
};

absl::StatusOr<std::unique_ptr<JobFabric>> JobFabric::Join(JobFabricOptions options) {
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<Rendezvous> rendezvous,
                           Rendezvous::Join({.address = options.rendezvous,
                                             .token = options.token,
                                             .rank = options.rank,
                                             .world_size = options.world_size,
                                             .patience = options.join_timeout,
                                             .on_notice = options.on_notice}));
  const bool is_local = options.host == "127.0.0.1";
  PARPLAN_ASSIGN_OR_RETURN(Listener listener,
                           Listener::Open(is_local ? options.host : "", /*port=*/0));
  std::unique_ptr<JobFabric> fabric(
      new JobFabric(std::move(options), std::move(rendezvous), std::move(listener)));
  PARPLAN_RETURN_IF_ERROR(fabric->Introduce());
  return fabric;
}

JobFabric::JobFabric(JobFabricOptions options, std::unique_ptr<Rendezvous> rendezvous,
                     Listener listener)
    : options_(std::move(options)),
      rendezvous_(std::move(rendezvous)),
      listener_(std::move(listener)),
      hellos_(options_.token) {
  if (options_.has_progress_thread) progress_ = std::make_unique<ProgressThread>();
  rendezvous_->SetAwaited([this] { return AwaitedRank(); });
}

JobFabric::~JobFabric() { rendezvous_->SetAwaited(nullptr); }

int JobFabric::AwaitedRank() {
  const std::lock_guard<std::mutex> lock(members_mutex_);
  std::optional<CpuCommunicator::Wait> oldest;
  for (const CpuCommunicator* const member : members_) {
    const std::optional<CpuCommunicator::Wait> wait = member->OldestWait();
    if (wait.has_value() && (!oldest.has_value() || wait->since < oldest->since)) oldest = wait;
  }
  return oldest.has_value() ? oldest->rank : -1;
}

absl::Status JobFabric::Introduce() {
  const std::string own = absl::StrCat(MachineName(), " ", options_.host, ":", listener_.port());
  PARPLAN_RETURN_IF_ERROR(rendezvous_->Set(RankFact(options_.rank), own));
  for (int rank = 0; rank < options_.world_size; ++rank) {
    absl::StatusOr<std::string> other = rendezvous_->Get(RankFact(rank), options_.join_timeout);
    if (absl::IsDeadlineExceeded(other.status())) {
      // Those that still wait hear the reason.
      rendezvous_->Abort(std::string(other.status().message()));
    }
    PARPLAN_RETURN_IF_ERROR(other.status());
    const std::pair<std::string, std::string> parts = absl::StrSplit(*other, ' ');
    machines_.push_back(parts.first);
    addresses_.push_back(parts.second);
  }
  return absl::OkStatus();
}

int JobFabric::SpinCount() const {
  if (options_.spin_count >= 0) return options_.spin_count;
  const auto neighbours = std::count(machines_.begin(), machines_.end(), machines_[options_.rank]);
  // A rank that is bound to one core is assumed to have it to itself.
  const int cores = CoreCount();
  return cores == 1 || neighbours <= cores ? kSpinsWithOwnCore : kSpinsWithSharedCore;
}

absl::StatusOr<std::unique_ptr<Communicator>> JobFabric::MakeGroup(const std::string& name,
                                                                   const std::vector<int>& ranks) {
  const auto own = std::find(ranks.begin(), ranks.end(), options_.rank);
  if (own == ranks.end() || std::set<int>(ranks.begin(), ranks.end()).size() != ranks.size() ||
      std::any_of(ranks.begin(), ranks.end(),
                  [this](int rank) { return rank < 0 || rank >= options_.world_size; })) {
    return absl::InvalidArgumentError(
        absl::StrCat("group ", name, " of ranks ", absl::StrJoin(ranks, ","),
                     ": name distinct ranks of the job, rank ", options_.rank, " among them"));
  }
  const std::string key = absl::StrCat(name, ":", absl::StrJoin(ranks, ","));
  const std::string id = absl::StrCat(key, "#", group_counts_[key]++);
  CpuGroup group{.name = absl::StrCat(name, "[", absl::StrJoin(ranks, ","), "]"),
                 .rank = static_cast<int>(own - ranks.begin()),
                 .job_ranks = ranks,
                 .operation_timeout = options_.operation_timeout,
                 .job = this,
                 .make_part = [this](const std::string& part, const std::vector<int>& members) {
                   return MakeGroup(part, members);
                 }};
  PARPLAN_ASSIGN_OR_RETURN(group.links, Connect(id, ranks, group.rank));
  if (options_.shape) {
    for (const int other : ranks) {
      group.shapes.push_back(other == options_.rank ? LinkShape()
                                                    : options_.shape(options_.rank, other));
    }
  }
  if (progress_ != nullptr) group.on_started = [this] { progress_->Wake(); };
  return std::make_unique<Member>(std::move(group), this);
}

absl::StatusOr<std::unique_ptr<LinkSet>> JobFabric::Connect(const std::string& id,
                                                            const std::vector<int>& ranks,
                                                            int own) {
  const bool is_one_machine = std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return machines_[rank] == machines_[options_.rank];
  });
  if (ranks.size() == 1 || (is_one_machine && options_.transport == TransportKind::kAutomatic)) {
    return ShareMemory(id, ranks, own);
  }
  return ConnectSockets(id, ranks, own);
}

absl::StatusOr<std::unique_ptr<LinkSet>> JobFabric::ShareMemory(const std::string& id,
                                                                const std::vector<int>& ranks,
                                                                int own) {
  const int size = static_cast<int>(ranks.size());
  std::unique_ptr<SharedSegment> segment;
  const std::string key = absl::StrCat("memory/", id);
  if (own == 0) {
    PARPLAN_ASSIGN_OR_RETURN(segment, SharedSegment::Make(size));
    if (size > 1) PARPLAN_RETURN_IF_ERROR(rendezvous_->Set(key, segment->path()));
    for (int other = 1; other < size; ++other) {
      PARPLAN_RETURN_IF_ERROR(
          rendezvous_->Get(absl::StrCat(key, "/", other), options_.join_timeout).status());
    }
  } else {
    PARPLAN_ASSIGN_OR_RETURN(const std::string path, rendezvous_->Get(key, options_.join_timeout));
    PARPLAN_ASSIGN_OR_RETURN(segment, SharedSegment::Open(path, size));
    PARPLAN_RETURN_IF_ERROR(rendezvous_->Set(absl::StrCat(key, "/", own), "open"));
  }
  segment->Close();
  return std::make_unique<SharedMemoryLinks>(std::move(segment), own, size, SpinCount());
}

absl::StatusOr<std::unique_ptr<LinkSet>> JobFabric::ConnectSockets(const std::string& id,
                                                                   const std::vector<int>& ranks,
                                                                   int own) {
  const absl::Duration deadline = SteadyNow() + options_.join_timeout;
  std::vector<Socket> connections(ranks.size());
  // A rank connects to the ranks before it in the group and accepts those after it.
  for (int other = 0; other < own; ++other) {
    PARPLAN_ASSIGN_OR_RETURN(connections[other],
                             Socket::Connect(addresses_[ranks[other]], deadline));
    PARPLAN_RETURN_IF_ERROR(WriteFrame(connections[other],
                                       {.kind = FrameKind::kHello,
                                        .number = static_cast<uint32_t>(options_.rank),
                                        .key = options_.token,
                                        .value = id},
                                       deadline));
  }
  for (size_t other = own + 1; other < ranks.size(); ++other) {
    PARPLAN_ASSIGN_OR_RETURN(connections[other], AwaitVisitor(id, ranks[other], deadline));
  }
  return std::make_unique<TcpLinks>(std::move(connections));
}

absl::StatusOr<Socket> JobFabric::AwaitVisitor(const std::string& id, int rank,
                                               absl::Duration deadline) {
  constexpr absl::Duration kNoticeInterval = absl::Seconds(10);
  absl::Duration next_notice = SteadyNow() + kNoticeInterval;
  while (true) {
    const auto visitor = visitors_.find({id, rank});
    if (visitor != visitors_.end()) {
      Socket socket = std::move(visitor->second);
      visitors_.erase(visitor);
      return socket;
    }
    PARPLAN_RETURN_IF_ERROR(Health());
    const absl::Duration now = SteadyNow();
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank ", options_.rank, " waited in vain for rank ", rank, " to join ", id));
    }
    if (options_.on_notice && now >= next_notice) {
      next_notice = now + kNoticeInterval;
      options_.on_notice(
          absl::StrCat("rank ", options_.rank, " waits for rank ", rank, " to join ", id));
    }
    // Short enough to hear of a job that has failed.
    const absl::Duration end = std::min(deadline, now + absl::Milliseconds(100));
    if (hellos_.Await(listener_, end)) {
      absl::StatusOr<Socket> socket = listener_.Accept(end);
      if (socket.ok()) hellos_.Add(*std::move(socket), SteadyNow());
    }
    for (HelloReader::Guest& guest : hellos_.Take(SteadyNow())) {
      visitors_[{guest.hello.value, static_cast<int>(guest.hello.number)}] =
          std::move(guest.socket);
    }
  }
}

}  // namespace parplan
