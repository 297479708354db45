#include "executor/device/comm/hello_reader.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>

#include "absl/status/statusor.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/tls_session.h"

namespace parplan {
namespace {

// Bytes of a message before its second text: a hello's nonce and a proof are equally long.
constexpr size_t kFirstTextEnd = kFrameHeaderSize + kNonceSize;
static_assert(kNonceSize == kProofSize);
// Bytes of the digest that a hello has for context.
constexpr size_t kContextSize = 32;

}  // namespace

void HelloReader::Add(Socket socket, absl::Duration now) {
  const auto is_stranger = [](const Silent& silent) { return !silent.name.has_value(); };
  if (static_cast<size_t>(std::count_if(silent_.begin(), silent_.end(), is_stranger)) >=
      kMaxSilentCount) {
    silent_.erase(std::find_if(silent_.begin(), silent_.end(), is_stranger));
  }
  silent_.push_back({std::move(socket), now + kPatience, std::nullopt, "", std::nullopt});
}

size_t HelloReader::NextSize(const Silent& silent) const {
  const absl::string_view arrived = silent.arrived;
  if (arrived.size() < kFrameHeaderSize) return kFrameHeaderSize;
  const absl::StatusOr<FrameHeader> header = HeaderOf(arrived);
  if (!header.ok() || header->key_size != kNonceSize) return 0;
  if (!silent.handshake.has_value()) {
    const bool is_hello = header->kind == FrameKind::kHello && header->value_size == kContextSize;
    return is_hello ? kFirstTextEnd + kContextSize : 0;
  }
  if (header->kind != FrameKind::kProof) return 0;
  if (arrived.size() < kFirstTextEnd) return kFirstTextEnd;
  const absl::string_view proof = arrived.substr(kFrameHeaderSize, kProofSize);
  return IsProof(proof, HandshakeSide::kCaller, *silent.handshake, token_)
             ? kFirstTextEnd + header->value_size
             : 0;
}

HelloReader::Progress HelloReader::Read(Silent& silent) const {
  std::array<char, 4096> bytes;
  while (true) {
    const size_t size = NextSize(silent);
    if (size == 0) return Progress::kWrong;
    if (size == silent.arrived.size()) return Progress::kWhole;
    const ssize_t count =
        ::recv(silent.socket.descriptor(), bytes.data(),
               std::min(bytes.size(), size - silent.arrived.size()), MSG_DONTWAIT);
    if (count == 0) return Progress::kWrong;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return errno == EAGAIN || errno == EWOULDBLOCK ? Progress::kIncomplete : Progress::kWrong;
    }
    silent.arrived.append(bytes.data(), static_cast<size_t>(count));
  }
}

HelloReader::Progress HelloReader::Challenge(Silent& silent) const {
  const absl::StatusOr<std::optional<Frame>> hello = TakeFrame(silent.arrived);
  if (!hello.ok() || !hello->has_value()) return Progress::kWrong;
  Handshake handshake = {.purpose = kRanksPurpose, .listener = rank_};
  const absl::StatusOr<Frame> challenge = ChallengeTo(**hello, handshake, token_);
  // Nothing was sent before on this connection, so it has room for the challenge.
  if (!challenge.ok() || !WriteFrame(silent.socket, *challenge, SteadyNow()).ok()) {
    return Progress::kWrong;
  }
  silent.handshake = std::move(handshake);
  return Progress::kIncomplete;
}

HelloReader::Progress HelloReader::Admit(Silent& silent) const {
  absl::StatusOr<std::optional<Frame>> proof = TakeFrame(silent.arrived);
  // The proof covers the digest that the hello said.
  if (!proof.ok() || !proof->has_value() ||
      DigestOf((*proof)->value) != silent.handshake->context) {
    return Progress::kWrong;
  }
  silent.name = std::move((*proof)->value);
  if (!wants_tls_ || !wants_tls_(silent.handshake->caller, *silent.name)) return Progress::kWhole;
  const bool has_begun =
      silent.socket.StartTls(TlsSide::kServer, TlsKeyOf(*silent.handshake, token_)).ok();
  return has_begun ? Progress::kIncomplete : Progress::kWrong;
}

HelloReader::Progress HelloReader::Advance(Silent& silent, absl::Duration now) const {
  Progress progress = Progress::kIncomplete;
  if (!silent.name.has_value()) {
    const size_t before = silent.arrived.size();
    progress = Read(silent);
    // This rank may have looked late, and a long name comes in parts.
    if (progress == Progress::kWhole ||
        (silent.handshake.has_value() && silent.arrived.size() > std::max(before, kFirstTextEnd))) {
      silent.end = now + kPatience;
    }
    if (progress != Progress::kWhole) return progress;
    progress = silent.handshake.has_value() ? Admit(silent) : Challenge(silent);
    if (progress != Progress::kIncomplete || !silent.name.has_value()) return progress;
    silent.end = now + kTlsPatience;
  }
  const absl::StatusOr<bool> is_done = silent.socket.ContinueTls();
  if (!is_done.ok()) return Progress::kWrong;
  return *is_done ? Progress::kWhole : Progress::kIncomplete;
}

void HelloReader::DropEarlier(const Silent& silent) {
  silent_.remove_if([&silent](const Silent& other) {
    return &other != &silent && other.name == silent.name &&
           other.handshake->caller == silent.handshake->caller;
  });
}

std::vector<HelloReader::Guest> HelloReader::Take(absl::Duration now) {
  std::vector<Guest> guests;
  for (auto each = silent_.begin(); each != silent_.end();) {
    const bool was_stranger = !each->name.has_value();
    const Progress progress = Advance(*each, now);
    if (was_stranger && each->name.has_value()) DropEarlier(*each);
    if (progress == Progress::kIncomplete && now < each->end) {
      ++each;
      continue;
    }
    if (progress == Progress::kWhole) {
      guests.push_back({.socket = std::move(each->socket),
                        .rank = each->handshake->caller,
                        .name = *std::move(each->name)});
    }
    each = silent_.erase(each);
  }
  return guests;
}

bool HelloReader::Await(absl::Span<const int> others, absl::Duration deadline) const {
  std::vector<pollfd> interests;
  for (const int other : others) {
    interests.push_back({.fd = other, .events = POLLIN, .revents = 0});
  }
  for (const Silent& silent : silent_) {
    interests.push_back({.fd = silent.socket.descriptor(), .events = POLLIN, .revents = 0});
  }
  const absl::Duration left =
      std::clamp(deadline - SteadyNow(), absl::ZeroDuration(), absl::Duration(absl::Hours(1)));
  const timespec timeout = absl::ToTimespec(left);
  // A signal ends the wait early, which does no harm.
  return ::ppoll(interests.data(), interests.size(), &timeout, nullptr) > 0 &&
         std::any_of(interests.begin(), interests.begin() + others.size(),
                     [](const pollfd& other) { return other.revents != 0; });
}

}  // namespace parplan
