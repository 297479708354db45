// TLS 1.3 on a connection whose two ends share a secret key, and no certificates
// (docs/adr/0033-tls-between-ranks.md). `Socket` has one once `StartTls` was called.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_TLS_SESSION_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_TLS_SESSION_H_

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

enum class TlsSide { kClient, kServer };

// Bytes of the key that both sides share.
inline constexpr size_t kTlsKeySize = 32;

// One end of a TLS 1.3 connection over a socket. TLS_AES_128_GCM_SHA256 with the key as an external
// PSK and X25519, or P-256 where a side lacks it, so that who learns the key later reads nothing
// that was recorded; neither tickets nor early data. No method waits. Any thread may call each, two
// at the same time in any order.
//
// Errors of all methods: UNAVAILABLE if the other side is gone, or there is no memory; DATA_LOSS if
// what arrived is not what the other side has sent, or it says so of what it received, or breaks
// off a message of TLS; INTERNAL for an error of OpenSSL itself, or if its settings on this system
// allow no such connection. They stay. The session must then be destroyed with the connection; but
// after an error of `Send` what has arrived before can still be received.
class TlsSession {
 public:
  // Records that one key encrypts; then both sides go on with the next. At most 2^24.5 are safe for
  // AES-GCM (RFC 8446, section 5.5), of 16 KiB at most.
  static constexpr int64_t kRecordsPerKey = int64_t{1} << 23;

  // Starts a session on the connected socket `descriptor`, which stays the caller's and must live
  // as long. `arrived`: bytes that were read from it before and belong to TLS. UNAVAILABLE if there
  // is no memory, INTERNAL if OpenSSL lacks what it needs. REQUIRES, aborts otherwise: `key` has
  // kTlsKeySize bytes.
  static absl::StatusOr<std::unique_ptr<TlsSession>> Start(
      TlsSide side, int descriptor, absl::string_view key, std::string arrived = "",
      int64_t records_per_key = kRecordsPerKey);
  ~TlsSession();

  // Goes on with the handshake; returns whether this side is done with it. The other side has then
  // proved that it knows the key. REQUIRES, unchecked: nothing but the handshake was sent on the
  // connection lately, so that there is room for some 300 bytes.
  absl::StatusOr<bool> Handshake();
  // Sends some of the first bytes of `data`, and returns their number; 0 if there is no room. The
  // next call must begin with the same bytes, of which an encrypted record may be half sent.
  // REQUIRES, unchecked: the handshake is done.
  absl::StatusOr<int64_t> Send(absl::string_view data);
  // Ends the direction to the other side, where a call of `Send` returned 0 and will not be
  // repeated with the same bytes: `Send` is UNAVAILABLE from now on.
  void Abandon();
  // Reads up to `size` bytes and returns their number; 0 if none have arrived. After fewer than
  // `size`, and only then, more arrive when the socket becomes readable, unless `has_pending`.
  // REQUIRES, unchecked: the handshake is done.
  absl::StatusOr<int64_t> Receive(char* data, int64_t size);

  // Returns whether bytes have been read from the socket that `Receive` has not returned, perhaps a
  // part of a record only, or an error has been found that `Receive` returns next.
  bool has_pending() const;
  // Returns the errno with which the system ended the connection, as `Receive` has found; 0 if it
  // did not.
  int error_number() const;

 private:
  struct SslDeleter {
    void operator()(SSL* ssl) const;
  };

  TlsSession(int descriptor, absl::string_view key, std::string arrived, int64_t records_per_key);

  static const BIO_METHOD* Method();
  static int ReadBytes(BIO* bio, char* data, int size);
  static int WriteBytes(BIO* bio, const char* data, int size);
  static long Control(BIO* bio, int command, long number, void* pointer);
  static int UseKey(SSL* ssl, const EVP_MD* digest, const unsigned char** identity,
                    size_t* identity_size, SSL_SESSION** session);
  static int FindKey(SSL* ssl, const unsigned char* identity, size_t identity_size,
                     SSL_SESSION** session);

  // Returns a session of TLS that holds the key; null if there is no memory.
  SSL_SESSION* MakeKeySession() const;
  // Returns what the last call of OpenSSL, whose result is `result`, failed with, and keeps it; OK
  // if it only has to wait for bytes.
  absl::Status FailureLocked(int result);
  absl::Status FailLocked(const absl::Status& status);
  // Hands encrypted bytes to the kernel, as many as it takes. Keeps an error for `Send`.
  absl::Status FlushLocked();

  const int descriptor_;
  std::string key_;
  const int64_t records_per_key_;
  mutable std::mutex mutex_;
  // The members below are guarded by mutex_.
  // Bytes that arrived before the session, and are not read yet.
  std::string arrived_;
  // Encrypted bytes that the kernel has not taken yet, from `sent_` on.
  std::string unsent_;
  size_t sent_ = 0;
  // Bytes of the caller that `unsent_` holds, or that it held and `Send` has not counted yet.
  int64_t uncounted_ = 0;
  int64_t record_count_ = 0;
  bool has_ended_ = false;
  int error_number_ = 0;
  bool lacks_memory_ = false;
  absl::Status failure_;
  // The error that ended the direction to the other side alone, and its errno or 0.
  absl::Status send_failure_;
  int send_error_number_ = 0;
  std::unique_ptr<SSL, SslDeleter> ssl_;
};

// Returns the error of a session for one of OpenSSL (ERR_peek_error()): UNAVAILABLE if this process
// lacks memory, INTERNAL for another fault of its own, else DATA_LOSS.
absl::Status StatusOfTlsError(unsigned long error);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_TLS_SESSION_H_
