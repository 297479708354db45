#include "executor/device/comm/job_fabric.h"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/shared_memory_links.h"
#include "executor/device/comm/tcp_links.h"
#include "executor/device/comm/tls_session.h"

namespace parplan {
namespace {

// Polls of a waiting rank before it sleeps. With a core of its own it polls for some microseconds,
// the time to wake a sleeping thread; on a shared core polling takes the time of the rank that it
// waits for. Not measured against other values.
constexpr int kSpinsWithOwnCore = 2000;
constexpr int kSpinsWithSharedCore = 50;

// Returns what a symbolic link says; nothing if it cannot be read.
std::string LinkText(const char* path) {
  std::array<char, 128> text = {};
  const ssize_t size = ::readlink(path, text.data(), text.size() - 1);
  return {text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

// Returns an id that processes have in common if they can hand each other memory: boot of the
// machine, PID namespace, network namespace (of which the names of Unix sockets are) and user.
std::string MachineName() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return absl::StrCat(boot, "/", LinkText("/proc/self/ns/pid"), "/", LinkText("/proc/self/ns/net"),
                      "/", ::geteuid());
}

// Returns the name of what ranks connect for: the links of a group, or its memory.
constexpr char kLinksPrefix[] = "links/";
std::string LinksOf(const std::string& id) { return absl::StrCat(kLinksPrefix, id); }
std::string MemoryOf(const std::string& id) { return absl::StrCat("memory/", id); }
// Returns the id of the group of such a name.
std::string GroupIdOf(const std::string& name) { return name.substr(name.find('/') + 1); }

// The fact by which ranks notice that they do not agree, after the variable that sets it.
constexpr char kTlsLinksFact[] = "PARPLAN_TLS_LINKS";

bool IsReadable(int descriptor) {
  pollfd interest = {.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&interest, 1, /*timeout=*/0) > 0;
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
  const absl::Duration deadline = options.join_start.value_or(SteadyNow()) + options.join_timeout;
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<Rendezvous> rendezvous,
                           Rendezvous::Join({.address = options.rendezvous,
                                             .token = options.token,
                                             .rank = options.rank,
                                             .world_size = options.world_size,
                                             .patience = deadline - SteadyNow(),
                                             .on_notice = options.on_notice}));
  const bool is_local = options.host == "127.0.0.1";
  PARPLAN_ASSIGN_OR_RETURN(Listener listener,
                           Listener::Open(is_local ? options.host : "", /*port=*/0));
  PARPLAN_ASSIGN_OR_RETURN(LocalListener local_listener, LocalListener::Open());
  std::unique_ptr<JobFabric> fabric(new JobFabric(std::move(options), std::move(rendezvous),
                                                  std::move(listener), std::move(local_listener)));
  PARPLAN_RETURN_IF_ERROR(fabric->Introduce(deadline));
  return fabric;
}

JobFabric::JobFabric(JobFabricOptions options, std::unique_ptr<Rendezvous> rendezvous,
                     Listener listener, LocalListener local_listener)
    : options_(std::move(options)),
      rendezvous_(std::move(rendezvous)),
      listener_(std::move(listener)),
      local_listener_(std::move(local_listener)),
      hellos_(options_.token, options_.rank,
              [this](int caller, const std::string& name) { return WantsTls(caller, name); }) {
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

absl::Status JobFabric::Introduce(absl::Duration deadline) {
  const std::string own = absl::StrCat(MachineName(), " ", options_.host, ":", listener_.port());
  PARPLAN_RETURN_IF_ERROR(rendezvous_->Set(RankFact(options_.rank), own));
  // After the address, so that a contradiction names the host of its rank.
  PARPLAN_RETURN_IF_ERROR(
      rendezvous_->Set(kTlsLinksFact, absl::StrCat(static_cast<int>(options_.tls_links))));
  for (int rank = 0; rank < options_.world_size; ++rank) {
    absl::StatusOr<std::string> other = rendezvous_->Get(RankFact(rank), deadline - SteadyNow());
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

bool JobFabric::WantsTls(int rank, const std::string& name) const {
  if (!absl::StartsWith(name, kLinksPrefix)) return false;
  if (options_.tls_links != TlsLinks::kBetweenNodes) return options_.tls_links == TlsLinks::kAll;
  return rank < 0 || rank >= options_.world_size || machines_[rank] != machines_[options_.rank];
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
  const absl::Duration deadline = SteadyNow() + options_.join_timeout;
  std::unique_ptr<SharedSegment> segment;
  const std::string name = MemoryOf(id);
  if (own == 0) {
    PARPLAN_ASSIGN_OR_RETURN(segment, SharedSegment::Make(size));
    if (size > 1) PARPLAN_RETURN_IF_ERROR(rendezvous_->Set(name, local_listener_.name()));
    for (int other = 1; other < size; ++other) {
      PARPLAN_ASSIGN_OR_RETURN(const Socket socket, AwaitVisitor(name, ranks[other], deadline));
      PARPLAN_RETURN_IF_ERROR(SendDescriptor(socket, segment->descriptor(), deadline));
    }
  } else {
    PARPLAN_ASSIGN_OR_RETURN(const std::string listener,
                             rendezvous_->Get(name, options_.join_timeout));
    PARPLAN_ASSIGN_OR_RETURN(const Socket socket,
                             Visit(name, ranks[0], deadline, [&listener](absl::Duration limit) {
                               return ConnectToLocal(listener, limit);
                             }));
    PARPLAN_RETURN_IF_ERROR(AwaitBytes(socket, name, ranks[0], deadline));
    PARPLAN_ASSIGN_OR_RETURN(FileDescriptor memory, ReceiveDescriptor(socket, deadline));
    PARPLAN_ASSIGN_OR_RETURN(segment, SharedSegment::Open(std::move(memory), size));
  }
  segment->Close();
  return std::make_unique<SharedMemoryLinks>(std::move(segment), own, size, SpinCount());
}

absl::StatusOr<std::unique_ptr<LinkSet>> JobFabric::ConnectSockets(const std::string& id,
                                                                   const std::vector<int>& ranks,
                                                                   int own) {
  const absl::Duration deadline = SteadyNow() + options_.join_timeout;
  const std::string name = LinksOf(id);
  std::vector<Socket> connections(ranks.size());
  // A rank connects to the ranks before it in the group and accepts those after it.
  for (int other = 0; other < own; ++other) {
    PARPLAN_ASSIGN_OR_RETURN(connections[other],
                             Visit(name, ranks[other], deadline,
                                   [&address = addresses_[ranks[other]]](absl::Duration limit) {
                                     return Socket::Connect(address, limit);
                                   }));
  }
  for (size_t other = own + 1; other < ranks.size(); ++other) {
    PARPLAN_ASSIGN_OR_RETURN(connections[other], AwaitVisitor(name, ranks[other], deadline));
  }
  return std::make_unique<TcpLinks>(std::move(connections));
}

absl::StatusOr<Socket> JobFabric::Visit(
    const std::string& name, int rank, absl::Duration deadline,
    const std::function<absl::StatusOr<Socket>(absl::Duration deadline)>& connect) {
  while (true) {
    PARPLAN_RETURN_IF_ERROR(Health());
    const absl::Duration limit = std::min(deadline, SteadyNow() + options_.connect_patience);
    absl::StatusOr<Socket> connected = connect(limit);
    // Tried to the limit, and not at all if it came back before.
    if (absl::IsUnavailable(connected.status()) && limit < deadline &&
        SteadyNow() + kSocketPause >= limit) {
      continue;
    }
    PARPLAN_RETURN_IF_ERROR(connected.status());
    Socket socket = *std::move(connected);
    Handshake handshake = {.purpose = kRanksPurpose,
                           .caller = options_.rank,
                           .listener = rank,
                           .context = DigestOf(name)};
    absl::Status proven = SayHello(socket, handshake, deadline);
    if (proven.ok()) {
      PARPLAN_RETURN_IF_ERROR(AwaitBytes(socket, name, rank, deadline));
      proven = ProveTo(socket, handshake, options_.token, name, deadline);
    }
    if (proven.ok() && WantsTls(rank, name)) {
      proven = socket.StartTls(TlsSide::kClient, TlsKeyOf(handshake, options_.token));
      while (proven.ok()) {
        const absl::StatusOr<bool> is_done = socket.ContinueTls();
        proven = is_done.status();
        if (!proven.ok() || *is_done) break;
        PARPLAN_RETURN_IF_ERROR(AwaitBytes(socket, name, rank, deadline));
      }
    }
    if (proven.ok()) return socket;
    if (!absl::IsUnavailable(proven) || SteadyNow() >= deadline) {
      return absl::Status(proven.code(),
                          absl::StrCat("rank ", options_.rank, " cannot join ", GroupIdOf(name),
                                       " at rank ", rank, ": ", proven.message()));
    }
    // The other rank is lost, or had to drop this connection for those of many strangers.
    PARPLAN_RETURN_IF_ERROR(rendezvous_->AwaitCause());
  }
}

absl::Status JobFabric::AwaitBytes(const Socket& socket, const std::string& name, int rank,
                                   absl::Duration deadline) {
  return ReceiveUntil([&socket] { return IsReadable(socket.descriptor()); }, &socket, name, rank,
                      deadline);
}

absl::StatusOr<Socket> JobFabric::AwaitVisitor(const std::string& name, int rank,
                                               absl::Duration deadline) {
  const std::pair<std::string, int> key = {name, rank};
  PARPLAN_RETURN_IF_ERROR(
      ReceiveUntil([&] { return visitors_.contains(key); }, nullptr, name, rank, deadline));
  return std::move(visitors_.extract(key).mapped());
}

absl::Status JobFabric::ReceiveUntil(const std::function<bool()>& is_done, const Socket* socket,
                                     const std::string& name, int rank, absl::Duration deadline) {
  constexpr absl::Duration kNoticeInterval = absl::Seconds(10);
  absl::Duration next_notice = SteadyNow() + kNoticeInterval;
  std::vector<int> others = {listener_.descriptor(), local_listener_.descriptor()};
  if (socket != nullptr) others.push_back(socket->descriptor());
  while (!is_done()) {
    PARPLAN_RETURN_IF_ERROR(Health());
    const absl::Duration now = SteadyNow();
    if (now >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "rank ", options_.rank, " waited in vain for rank ", rank, " to join ", GroupIdOf(name)));
    }
    if (options_.on_notice && now >= next_notice) {
      next_notice = now + kNoticeInterval;
      options_.on_notice(absl::StrCat("rank ", options_.rank, " waits for rank ", rank, " to join ",
                                      GroupIdOf(name)));
    }
    // Short enough to hear of a job that has failed.
    const absl::Duration end = std::min(deadline, now + absl::Milliseconds(100));
    if (hellos_.Await(others, end)) {
      if (IsReadable(listener_.descriptor())) {
        absl::StatusOr<Socket> visitor = listener_.Accept(end);
        if (visitor.ok()) hellos_.Add(*std::move(visitor), SteadyNow());
      }
      absl::StatusOr<Socket> neighbour = local_listener_.Accept();
      if (neighbour.ok()) hellos_.Add(*std::move(neighbour), SteadyNow());
    }
    for (HelloReader::Guest& guest : hellos_.Take(SteadyNow())) {
      visitors_[{guest.name, guest.rank}] = std::move(guest.socket);
    }
  }
  return absl::OkStatus();
}

}  // namespace parplan
