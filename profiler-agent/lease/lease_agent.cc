#include "profiler-agent/lease/lease_agent.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/system/steady_clock.h"

namespace parplan {
namespace {

using Kind = LeaseAction::Kind;

// Longest single wait, so that no clock arithmetic overflows.
constexpr absl::Duration kLongestWait = absl::Hours(1);
// Pause between two requests if the refusal names none.
constexpr absl::Duration kDefaultRetry = absl::Seconds(1);

// Returns how long to wait, rounded up so that a thread does not wake repeatedly just before its
// time.
std::chrono::milliseconds Wait(absl::Duration left) {
  left = std::clamp(left, absl::ZeroDuration(), kLongestWait);
  return absl::ToChronoMilliseconds(left) + std::chrono::milliseconds(1);
}

LeaseMachineOptions WithInstance(LeaseMachineOptions options) {
  if (options.hello.instance_id().empty()) options.hello.set_instance_id(MakeUuid());
  return options;
}

// Returns the cluster of a node's name: `lab` for `clusters/lab/nodes/n1`.
std::string ClusterOf(const std::string& node) {
  const std::vector<std::string> parts = absl::StrSplit(node, '/');
  return parts.size() > 1 ? parts[1] : "";
}

// A stream and the client that it needs.
struct Connection {
  explicit Connection(std::shared_ptr<grpc::Channel> channel)
      : client(std::move(channel)), stream(client.MakeStream()) {}

  AgentClient client;
  std::unique_ptr<AgentStream> stream;
};

v1::LeaseRequest RequestFor(const LeaseWish& wish, std::string request_id) {
  v1::LeaseRequest request;
  request.set_request_id(std::move(request_id));
  for (const std::string& node : wish.node_ids) request.add_node_ids(node);
  const int64_t nanoseconds = absl::ToInt64Nanoseconds(wish.duration);
  request.mutable_duration()->set_seconds(nanoseconds / 1000000000);
  request.mutable_duration()->set_nanos(static_cast<int32_t>(nanoseconds % 1000000000));
  request.set_even_if_busy(wish.even_if_busy);
  request.set_task(wish.task);
  return request;
}

}  // namespace

LeaseAgent::LeaseAgent(ChannelOptions server, LeaseAgentOptions options)
    : options_([&options] {
        options.machine = WithInstance(std::move(options.machine));
        return std::move(options);
      }()),
      replicas_(std::move(server), ClusterOf(options_.machine.hello.node())),
      random_(std::random_device()()),
      machine_(options_.machine,
               [this] { return std::uniform_real_distribution<double>(0.0, 1.0)(random_); }) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Push(machine_.Start(SteadyNow()));
  }
  reader_ = std::thread([this] { Read(); });
  actor_ = std::thread([this] { Act(); });
  looker_ = std::thread([this] { Look(); });
}

LeaseAgent::~LeaseAgent() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
    replicas_.Stop();
    if (stream_ != nullptr) stream_->Cancel();
    changed_.notify_all();
  }
  looker_.join();
  actor_.join();
  reader_.join();
}

absl::StatusOr<v1::Lease> LeaseAgent::Acquire(const LeaseWish& wish, absl::Duration patience) {
  const absl::Duration deadline = SteadyNow() + patience;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    const std::string id = absl::StrCat(++request_count_);
    requests_[id] = std::nullopt;
    Push(machine_.Request(RequestFor(wish, id), SteadyNow()));
    while (!requests_[id].has_value() && !is_ending_ && SteadyNow() < deadline) {
      changed_.wait_for(lock, Wait(deadline - SteadyNow()));
    }
    const std::optional<Answer> answer = std::move(requests_[id]);
    requests_.erase(id);
    if (is_ending_) return absl::CancelledError("the agent ends");
    if (!answer.has_value()) {
      return absl::UnavailableError("the server did not answer the request for a lease in time");
    }
    if (const auto* const lease = std::get_if<v1::Lease>(&*answer)) return *lease;
    const v1::LeaseRefusal& refusal = std::get<v1::LeaseRefusal>(*answer);
    absl::Duration pause = absl::Seconds(refusal.retry_time().seconds()) +
                           absl::Nanoseconds(refusal.retry_time().nanos());
    if (pause <= absl::ZeroDuration()) pause = kDefaultRetry;
    pause *= 1.0 + std::uniform_real_distribution<double>(0.0, 1.0)(random_);
    const absl::Duration next = SteadyNow() + pause;
    if (next >= deadline) {
      return absl::UnavailableError(absl::StrCat("the server refused a lease: ", refusal.detail()));
    }
    while (!is_ending_ && SteadyNow() < next) changed_.wait_for(lock, Wait(next - SteadyNow()));
    if (is_ending_) return absl::CancelledError("the agent ends");
  }
}

void LeaseAgent::Open(const std::string& lease_id, int rendezvous_port) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Push(machine_.Open(lease_id, rendezvous_port, SteadyNow()));
}

void LeaseAgent::Return(const std::string& lease_id, const std::string& failure_reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Push(machine_.Return(lease_id, failure_reason, SteadyNow()));
}

void LeaseAgent::SetBusy(bool is_busy) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Push(machine_.SetBusy(is_busy, SteadyNow()));
}

bool LeaseAgent::is_connected() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return machine_.is_connected();
}

absl::Status LeaseAgent::last_end() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return machine_.last_end();
}

void LeaseAgent::Push(LeaseMachine::Actions actions) {
  for (LeaseAction& action : actions) queue_.push_back(std::move(action));
  // Wakes the acting thread even without new actions, since the next deadline may have changed.
  changed_.notify_all();
}

void LeaseAgent::Read() {
  // Replicas to try, and the index of the present one.
  std::vector<std::string> order;
  size_t index = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stream_wish_ != Wish::kNothing || is_ending_; });
    if (is_ending_) return;
    const bool is_first = std::exchange(stream_wish_, Wish::kNothing) == Wish::kFirst;
    lock.unlock();
    absl::Status end;
    if (is_first) {
      absl::StatusOr<std::vector<std::string>> found = replicas_.Order();
      end = found.status();
      order = found.ok() ? *std::move(found) : std::vector<std::string>();
    }
    index = is_first ? 0 : index + 1;
    if (end.ok()) end = ReadStream(order[index]);
    lock.lock();
    stream_ = nullptr;
    // Drops actions that were meant for the stream that has ended.
    queue_.erase(std::remove_if(queue_.begin(), queue_.end(),
                                [](const LeaseAction& action) {
                                  return action.kind == Kind::kSend ||
                                         action.kind == Kind::kDisconnect;
                                }),
                 queue_.end());
    Push(machine_.StreamEnded(end, SteadyNow(), index + 1 < order.size()));
  }
}

absl::Status LeaseAgent::ReadStream(const std::string& address) {
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = replicas_.MakeChannelTo(address);
  if (!channel.ok()) return channel.status();
  if (replicas_.AwaitReady(**channel) == GRPC_CHANNEL_CONNECTING) {
    return absl::UnavailableError(absl::StrCat("no server answers at ", address));
  }
  const auto connection = std::make_shared<Connection>(*channel);
  const std::shared_ptr<AgentStream> stream(connection, connection->stream.get());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_ending_) return absl::CancelledError("the agent ends");
    stream_ = stream;
    ++stream_number_;
    server_ = address;
  }
  v1::ConnectAgentRequest first;
  *first.mutable_hello() = options_.machine.hello;
  // A failed send is noticed by the next read.
  static_cast<void>(stream->Send(first));
  while (true) {
    const absl::StatusOr<v1::ConnectAgentResponse> message = stream->Receive();
    if (!message.ok()) return message.status();
    const std::lock_guard<std::mutex> lock(mutex_);
    Push(machine_.Received(*message, SteadyNow()));
  }
}

void LeaseAgent::Look() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return wants_look_ || is_ending_; });
    if (is_ending_) return;
    wants_look_ = false;
    const int64_t number = stream_number_;
    const std::string server = server_;
    lock.unlock();
    const bool is_there_better = replicas_.IsThereBetter(server);
    lock.lock();
    // The answer does not apply to a later stream.
    if (number == stream_number_) Push(machine_.Looked(is_there_better, SteadyNow()));
  }
}

void LeaseAgent::Act() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_ending_) {
    const absl::Duration now = SteadyNow();
    if (now >= machine_.NextDeadline()) Push(machine_.Tick(now));
    if (queue_.empty()) {
      changed_.wait_for(lock, Wait(machine_.NextDeadline() - now));
      continue;
    }
    LeaseAction action = std::move(queue_.front());
    queue_.pop_front();
    switch (action.kind) {
      case Kind::kConnect:
      case Kind::kConnectNext:
        stream_wish_ = action.kind == Kind::kConnect ? Wish::kFirst : Wish::kNext;
        changed_.notify_all();
        break;
      case Kind::kLook:
        wants_look_ = true;
        changed_.notify_all();
        break;
      case Kind::kWelcomed: {
        const std::string server = server_;
        lock.unlock();
        if (options_.on_connected) options_.on_connected(server);
        lock.lock();
        break;
      }
      case Kind::kGranted:
      case Kind::kRefused: {
        const bool is_grant = action.kind == Kind::kGranted;
        const auto found =
            requests_.find(is_grant ? action.lease.request_id() : action.refusal.request_id());
        if (found == requests_.end()) {
          // The caller has stopped waiting.
          if (is_grant) Push(machine_.Return(action.lease.lease_id(), "", now));
        } else if (is_grant) {
          found->second = std::move(action.lease);
        } else {
          found->second = std::move(action.refusal);
        }
        changed_.notify_all();
        break;
      }
      default: {
        const std::shared_ptr<AgentStream> stream = stream_;
        lock.unlock();
        Do(action, stream);
        lock.lock();
      }
    }
  }
}

void LeaseAgent::Do(const LeaseAction& action, const std::shared_ptr<AgentStream>& stream) {
  switch (action.kind) {
    case Kind::kDisconnect:
      if (stream != nullptr) stream->Cancel();
      break;
    case Kind::kSend:
      // A stream that has ended reports its end itself.
      if (stream != nullptr) static_cast<void>(stream->Send(action.message));
      break;
    case Kind::kOpened:
      if (options_.on_opened) options_.on_opened(action.lease);
      break;
    case Kind::kEnded:
      if (options_.on_ended) options_.on_ended(action.end);
      break;
    default:
      break;
  }
}

}  // namespace parplan
