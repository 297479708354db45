// Lets agents say whatever comes, in any order, while time passes. Whoever is connected is so
// once, nodes of a lease are connected and in no other, and all ends.
//
// An input is a list of frames: a byte for who speaks, one for the seconds that pass before, two
// for the size of a ConnectAgentRequest, and the request. An empty one is the end of a stream.

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "parplan/v1/agent_service.pb.h"
#include "proto/wire/duration_wire.h"
#include "server/core/agent_messages.h"
#include "server/core/lease_keeper.h"
#include "tests/fuzz/message_mutator.h"

namespace parplan {
namespace {

constexpr int kSpeakerCount = 6;
constexpr size_t kMaxFrames = 40;
constexpr size_t kHeaderSize = 4;

struct Frame {
  int speaker = 0;
  uint8_t seconds = 0;
  std::string request;
};

std::vector<Frame> ReadFrames(const uint8_t* data, size_t size) {
  std::vector<Frame> frames;
  while (size >= kHeaderSize && frames.size() < kMaxFrames) {
    const size_t length = std::min(size - kHeaderSize, size_t{data[2]} << 8 | data[3]);
    frames.push_back(
        {.speaker = data[0] % kSpeakerCount,
         .seconds = data[1],
         .request = std::string(reinterpret_cast<const char*>(data) + kHeaderSize, length)});
    data += kHeaderSize + length;
    size -= kHeaderSize + length;
  }
  return frames;
}

std::string WriteFrames(const std::vector<Frame>& frames) {
  std::string bytes;
  for (const Frame& frame : frames) {
    const size_t length = std::min(frame.request.size(), size_t{0xffff});
    bytes += static_cast<char>(frame.speaker);
    bytes += static_cast<char>(frame.seconds);
    bytes += static_cast<char>(length >> 8);
    bytes += static_cast<char>(length & 0xff);
    bytes.append(frame.request, 0, length);
  }
  return bytes;
}

void CheckRefusal(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  PARPLAN_CHECK(detail.has_value());
  PARPLAN_CHECK(detail->reason == Reason::kSpecInvalid ||
                detail->reason == Reason::kAgentConnected ||
                detail->reason == Reason::kUploadTooLarge);
}

// A keeper, and streams to it as the core has them.
class Fleet {
 public:
  Fleet() : keeper_(SmallLimits()) {}

  void Play(const Frame& frame) {
    now_ += absl::Seconds(frame.seconds);
    Hear(keeper_.Tick(now_));
    AgentConnection& connection = connections_[frame.speaker];
    if (connection == 0) {
      Greet(frame, connection);
    } else if (frame.request.empty()) {
      Hang(frame.speaker);
    } else if (!Obey(frame, connection)) {
      // A message that breaks a rule ends the stream.
      Hang(frame.speaker);
    }
    CheckRules();
  }

  void End() {
    Hear(keeper_.Close(absl::UnavailableError("over"), "over"));
    PARPLAN_CHECK(keeper_.agent_count() == 0 && keeper_.lease_count() == 0);
    PARPLAN_CHECK(open_leases_.empty());
  }

 private:
  static Limits SmallLimits() {
    Limits limits;
    limits.max_agent_count = 4;
    limits.max_lease_node_count = 3;
    limits.max_lease_duration = absl::Minutes(5);
    return limits;
  }

  void Greet(const Frame& frame, AgentConnection& connection) {
    v1::ConnectAgentRequest request;
    if (!request.ParseFromString(frame.request) || !request.has_hello()) return;
    const absl::StatusOr<AgentFacts> facts = ReadHello(request.hello());
    if (!facts.ok()) return CheckRefusal(facts.status());
    const AgentConnection fresh = ++last_connection_;
    const absl::StatusOr<LeaseKeeper::News> news =
        keeper_.Connect(fresh, *facts, request.hello().is_busy(), now_);
    if (!news.ok()) return CheckRefusal(news.status());
    connection = fresh;
    Hear(*news);
  }

  // Whether the stream goes on.
  bool Obey(const Frame& frame, AgentConnection connection) {
    v1::ConnectAgentRequest request;
    if (!request.ParseFromString(frame.request)) return false;
    keeper_.Heard(connection, now_);
    absl::StatusOr<LeaseKeeper::News> news = LeaseKeeper::News();
    switch (request.message_case()) {
      case v1::ConnectAgentRequest::kHeartbeat:
        keeper_.SetBusy(connection, request.heartbeat().is_busy());
        break;
      case v1::ConnectAgentRequest::kRequestLease:
        return Ask(request.request_lease(), connection);
      case v1::ConnectAgentRequest::kOpenLease:
        news = keeper_.Open(connection, NameOf(request.open_lease().lease_id()),
                            request.open_lease().rendezvous_port());
        break;
      case v1::ConnectAgentRequest::kRenewLease: {
        const absl::StatusOr<absl::Duration> duration =
            DurationFromProto(request.renew_lease().duration(), "renew_lease.duration");
        if (!duration.ok()) return false;
        news = keeper_.Renew(connection, NameOf(request.renew_lease().lease_id()), *duration, now_);
        break;
      }
      case v1::ConnectAgentRequest::kReturnLease:
        news = keeper_.Return(connection, NameOf(request.return_lease().lease_id()),
                              request.return_lease().failure_reason());
        break;
      case v1::ConnectAgentRequest::kHello:
      case v1::ConnectAgentRequest::MESSAGE_NOT_SET:
        break;
    }
    if (!news.ok()) {
      CheckRefusal(news.status());
      return false;
    }
    Hear(*news);
    return true;
  }

  bool Ask(const v1::LeaseRequest& request, AgentConnection connection) {
    const absl::StatusOr<LeaseQuestion> question = ReadLeaseRequest(request);
    if (!question.ok()) {
      CheckRefusal(question.status());
      return false;
    }
    const auto answer =
        keeper_.Request(connection, *question, absl::StrCat("l", ++last_lease_), "token", now_);
    if (!answer.ok()) {
      CheckRefusal(answer.status());
      return false;
    }
    if (const auto* const refused = std::get_if<LeaseRefused>(&*answer)) {
      PARPLAN_CHECK(RefusalMessage(*refused, question->request_id).has_lease_refused());
    } else {
      Hear(std::get<LeaseKeeper::News>(*answer));
    }
    return true;
  }

  void Hang(int speaker) {
    const AgentConnection connection = std::exchange(connections_[speaker], 0);
    Hear(keeper_.Disconnect(connection));
    Forget(connection);
  }

  // Who is gone hears of nothing.
  void Forget(AgentConnection connection) {
    std::erase_if(open_leases_, [&](const auto& place) { return place.first == connection; });
  }

  // Inputs can't know the names of leases, so a short one stands for one of those there are.
  std::string NameOf(const std::string& said) const {
    if (said.size() != 1 || last_lease_ == 0) return said;
    const int back = static_cast<unsigned char>(said[0]) % 4;
    return absl::StrCat("l", last_lease_ - std::min(back, last_lease_ - 1));
  }

  // Agents hear nothing of leases they are not in, and of an end once.
  void Hear(const LeaseKeeper::News& all) {
    for (const LeaseNews& news : all) {
      if (news.kind == LeaseNews::Kind::kDisconnected) {
        PARPLAN_CHECK(!news.status.ok());
        for (AgentConnection& connection : connections_) {
          if (connection == news.to) connection = 0;
        }
        Forget(news.to);
        continue;
      }
      PARPLAN_CHECK(NewsMessage(news, now_).message_case() !=
                    v1::ConnectAgentResponse::MESSAGE_NOT_SET);
      const std::pair<AgentConnection, std::string> place = {news.to, news.lease.id};
      if (news.kind == LeaseNews::Kind::kEnded) {
        PARPLAN_CHECK(open_leases_.erase(place) == 1);
      } else {
        PARPLAN_CHECK(news.lease.end - news.lease.start <= SmallLimits().max_lease_duration);
        open_leases_.insert(place);
      }
    }
  }

  void CheckRules() {
    PARPLAN_CHECK(keeper_.agent_count() <= SmallLimits().max_agent_count);
    std::set<std::string> leases;
    std::set<std::string> nodes;
    for (const char* const cluster : {"lab", "other"}) {
      for (const ConnectedAgent& agent : keeper_.List(cluster, now_)) {
        PARPLAN_CHECK(nodes.insert(absl::StrCat(cluster, "/", agent.facts.node)).second);
        if (!agent.lease_id.empty()) leases.insert(agent.lease_id);
        AgentToProto(agent);
      }
    }
    PARPLAN_CHECK(static_cast<int>(leases.size()) <= keeper_.lease_count());
    const std::optional<absl::Duration> deadline = keeper_.NextDeadline();
    PARPLAN_CHECK(deadline.has_value() == (keeper_.agent_count() > 0));
  }

  LeaseKeeper keeper_;
  absl::Duration now_ = absl::Hours(1);
  // [speaker] 0: no stream.
  std::array<AgentConnection, kSpeakerCount> connections_ = {};
  AgentConnection last_connection_ = 0;
  int last_lease_ = 0;
  // Who has heard of which lease, and not of its end.
  std::set<std::pair<AgentConnection, std::string>> open_leases_;
};

}  // namespace
}  // namespace parplan

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  parplan::Fleet fleet;
  for (const parplan::Frame& frame : parplan::ReadFrames(data, size)) fleet.Play(frame);
  fleet.End();
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  static const auto& words = *new std::vector<std::string>{"",
                                                           "clusters/lab/nodes/n1",
                                                           "clusters/lab/nodes/n2",
                                                           "clusters/other/nodes/n1",
                                                           "n1",
                                                           "n2",
                                                           "GPU",
                                                           "\x01",
                                                           "a b"};
  parplan::MessageMutator mutator(seed);
  if (mutator.Draw(20) == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<parplan::Frame> frames = parplan::ReadFrames(data, size);
  const size_t choice = mutator.Draw(6);
  if (frames.empty() || choice == 0) {
    // An agent that comes, so that there is someone to ask.
    parplan::v1::ConnectAgentRequest request;
    parplan::v1::AgentHello& hello = *request.mutable_hello();
    hello.set_node(words[1 + mutator.Draw(3)]);
    hello.set_instance_id(mutator.Draw(3) == 0 ? "again" : std::to_string(mutator.Draw(1000)));
    hello.set_host("h");
    hello.set_device_kind("GPU");
    hello.set_device_count(1);
    frames.insert(frames.begin() + static_cast<ptrdiff_t>(mutator.Draw(frames.size() + 1)),
                  {.speaker = static_cast<int>(mutator.Draw(parplan::kSpeakerCount)),
                   .request = request.SerializeAsString()});
  } else if (choice == 1) {
    frames.push_back(frames[mutator.Draw(frames.size())]);
  } else if (choice == 2) {
    frames.erase(frames.begin() + static_cast<ptrdiff_t>(mutator.Draw(frames.size())));
  } else {
    parplan::Frame& frame = frames[mutator.Draw(frames.size())];
    if (mutator.Draw(3) == 0) frame.seconds = static_cast<uint8_t>(mutator.Draw(256));
    if (mutator.Draw(3) == 0) {
      frame.speaker = static_cast<int>(mutator.Draw(parplan::kSpeakerCount));
    }
    parplan::v1::ConnectAgentRequest request;
    if (!request.ParsePartialFromString(frame.request)) request.Clear();
    mutator.Mutate(words, &request);
    frame.request = request.SerializePartialAsString();
  }
  const std::string bytes = parplan::WriteFrames(frames);
  if (bytes.size() > max_size) return 0;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
