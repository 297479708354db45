// Proofs of two processes of a job to each other that both know the job's token, which neither
// says. Each connection to a rendezvous, and between two ranks, begins with them:
//
//   caller                              listener
//   kHello  rank, nonce, context   ->
//                                  <-   kChallenge  nonce, proof
//   kProof  proof, value           ->
//   TLS, as its client            <->   TLS, as its server
//
// A proof is the HMAC-SHA256, with the token as the key, of its side, the purpose, both ranks, the
// context and both nonces. So it is good for one connection, one pair of ranks and one direction. A
// caller proves nothing to a listener that has not proved itself. Whoever takes part in a
// handshake, or listens to one, can try tokens against a proof as fast as his machines allow: a
// token is a random secret of 128 bits or more. TLS with a key that follows from the token and from
// what both have said (`TlsKeyOf`) covers what comes then, on each connection to a rendezvous and
// on those between ranks for which `JobFabricOptions::tls_links` asks. `Rendezvous`,
// `RendezvousServer`, `HelloReader` and `JobFabric` use this.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_HANDSHAKE_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_HANDSHAKE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/socket.h"

namespace parplan {

// Bytes of a nonce, and of a proof.
inline constexpr size_t kNonceSize = 32;
inline constexpr size_t kProofSize = 32;

// The purposes of connections. The context of a meeting is the number of ranks, that of a
// connection between two ranks the digest of the name of what it is for.
inline constexpr char kMeetingPurpose[] = "parplan meeting 2";
inline constexpr char kRanksPurpose[] = "parplan ranks 2";
// The rank of a rendezvous in a handshake.
inline constexpr int kRendezvousRank = -1;

// The two ends of a connection: who connects, and who accepts.
enum class HandshakeSide { kCaller, kListener };

// All that both proofs of a connection cover. The nonces are filled by the functions below.
struct Handshake {
  std::string purpose;
  // The ranks that the two say they are.
  int caller = 0;
  int listener = kRendezvousRank;
  std::string context;
  std::string caller_nonce;
  std::string listener_nonce;
};

// Returns the SHA-256 of a text, 32 bytes.
std::string DigestOf(absl::string_view text);

// Returns the proof of one side, kProofSize bytes.
std::string MakeProof(HandshakeSide side, const Handshake& handshake, absl::string_view token);
// Returns whether `proof` is that of the side. The time it takes does not depend on where they
// differ.
bool IsProof(absl::string_view proof, HandshakeSide side, const Handshake& handshake,
             absl::string_view token);

// Returns the key of the TLS that follows a handshake, kTlsKeySize bytes (tls_session.h): the
// HKDF-SHA256 (RFC 5869) of the token, without salt, with "parplan tls" and what both proofs cover
// as its info. REQUIRES, unchecked: both nonces are set.
std::string TlsKeyOf(const Handshake& handshake, absl::string_view token);

// The two below are in plain, so DATA_LOSS is none of their errors.
//
// Sends kHello, as the caller, with a fresh nonce until `deadline` on SteadyNow(). All of
// `handshake` but the nonces is set before. The errors of WriteFrame; UNAVAILABLE if the system has
// no random bytes.
absl::Status SayHello(const Socket& socket, Handshake& handshake, absl::Duration deadline);
// Reads kChallenge, as the caller after `SayHello`, and sends the own proof with `value` if that of
// the listener is right. PERMISSION_DENIED if the listener does not prove that it knows the token,
// or refuses, with its reason; the listener then learns no more than that it is refused.
// INVALID_ARGUMENT if it answers with something else, or the errors of ReadFrame and WriteFrame.
absl::Status ProveTo(const Socket& socket, Handshake& handshake, absl::string_view token,
                     const std::string& value, absl::Duration deadline);

// Takes nonce and context of a caller's hello into `handshake`, whose purpose and listener are set,
// and returns the kChallenge for it, as the listener. INVALID_ARGUMENT if the hello has no nonce;
// UNAVAILABLE if the system has no random bytes.
absl::StatusOr<Frame> ChallengeTo(const Frame& hello, Handshake& handshake,
                                  absl::string_view token);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_HANDSHAKE_H_
