#include "executor/device/comm/tls_session.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/system/openssl_handles.h"
#include "base/system/posix_file.h"

namespace parplan {
namespace {

// The name of the key on the wire. A connection has one key, so the name distinguishes nothing.
constexpr absl::string_view kKeyName = "parplan tls 1";
// TLS_AES_128_GCM_SHA256.
constexpr unsigned char kCipher[] = {0x13, 0x01};
// Bytes that one call encrypts: four records. Fewer cost more system calls; more would not leave
// the caller sooner, since a socket takes about as many at a time. Not measured.
constexpr size_t kMaxPieceSize = size_t{4} * SSL3_RT_MAX_PLAIN_LENGTH;
// Bytes that one read from the kernel asks for. OpenSSL would ask for each header and each body.
constexpr size_t kReadSize = 64 << 10;

std::string ReasonOf(unsigned long error) {
  const char* const text = ERR_reason_error_string(error);
  return text == nullptr ? "no reason" : text;
}

// Returns whether the error says that this side's settings leave it nothing to offer.
bool IsOfOwnSettings(unsigned long error) {
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return false;
  switch (ERR_GET_REASON(error)) {
    case SSL_R_LIBRARY_HAS_NO_CIPHERS:
    case SSL_R_NO_CIPHERS_AVAILABLE:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_NO_SUITABLE_GROUPS:
      return true;
    default:
      return false;
  }
}

absl::Status NotKept() {
  return absl::DataLossError("the other side does not keep to the protocol of TLS");
}

bool IsTransient(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

// Returns the settings of one side, which all sessions share. All that matters is set here,
// whatever the configuration of OpenSSL on this system says. The error is that of
// `TlsSession::Start`.
absl::StatusOr<SSL_CTX*> MakeContext(TlsSide side) {
  SSL_CTX* const context =
      SSL_CTX_new(side == TlsSide::kClient ? TLS_client_method() : TLS_server_method());
  if (context == nullptr) {
    const unsigned long error = ERR_peek_last_error();
    const absl::StatusCode code = ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE
                                      ? absl::StatusCode::kUnavailable
                                      : absl::StatusCode::kInternal;
    return absl::Status(
        code, absl::StrCat("OpenSSL on this system offers no TLS (", ReasonOf(error), ")"));
  }
  // `Protocol` and `Options` of that configuration may have set them.
  SSL_CTX_clear_options(context, SSL_OP_NO_TLSv1_3 | SSL_OP_ALLOW_NO_DHE_KEX);
  // A provider for FIPS 140 may lack X25519. The two sides need not have the same.
  const bool is_set = SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
                      SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
                      (SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1 ||
                       SSL_CTX_set1_groups_list(context, "P-256") == 1) &&
                      SSL_CTX_set_num_tickets(context, 0) == 1;
  if (!is_set) {
    const unsigned long error = ERR_peek_last_error();
    SSL_CTX_free(context);
    return absl::InternalError(absl::StrCat(
        "OpenSSL on this system lacks TLS 1.3 with TLS_AES_128_GCM_SHA256 and X25519 or P-256 (",
        ReasonOf(error), ")"));
  }
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadSize);
  // There is no certificate that a client would trust.
  if (side == TlsSide::kClient) SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  return context;
}

const absl::StatusOr<SSL_CTX*>& ContextOf(TlsSide side) {
  static const absl::StatusOr<SSL_CTX*> client = MakeContext(TlsSide::kClient);
  static const absl::StatusOr<SSL_CTX*> server = MakeContext(TlsSide::kServer);
  return side == TlsSide::kClient ? client : server;
}

}  // namespace

void TlsSession::SslDeleter::operator()(SSL* ssl) const { SSL_free(ssl); }

const BIO_METHOD* TlsSession::Method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* const made =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "parplan connection");
    PARPLAN_CHECK(made != nullptr);
    BIO_meth_set_read(made, ReadBytes);
    BIO_meth_set_write(made, WriteBytes);
    BIO_meth_set_ctrl(made, Control);
    return made;
  }();
  return method;
}

int TlsSession::ReadBytes(BIO* bio, char* data, int size) {
  TlsSession& session = *static_cast<TlsSession*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (!session.arrived_.empty()) {
    const size_t count = std::min(session.arrived_.size(), static_cast<size_t>(size));
    std::copy_n(session.arrived_.data(), count, data);
    session.arrived_.erase(0, count);
    return static_cast<int>(count);
  }
  const ssize_t count = ::recv(session.descriptor_, data, size, MSG_DONTWAIT);
  if (count > 0) return static_cast<int>(count);
  if (count == 0) {
    session.has_ended_ = true;
    return 0;
  }
  if (IsTransient(errno)) {
    BIO_set_retry_read(bio);
  } else {
    session.error_number_ = errno;
  }
  return -1;
}

int TlsSession::WriteBytes(BIO* bio, const char* data, int size) {
  TlsSession& session = *static_cast<TlsSession*>(BIO_get_data(bio));
  // After an error nothing can be sent, not even the answer to a change of the key.
  if (session.send_failure_.ok()) session.unsent_.append(data, size);
  return size;
}

long TlsSession::Control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

SSL_SESSION* TlsSession::MakeKeySession() const {
  SSL_SESSION* const session = SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl_.get(), kCipher);
  if (cipher != nullptr &&
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key_.data()),
                                  key_.size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int TlsSession::UseKey(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** identity,
                       size_t* identity_size, SSL_SESSION** session) {
  // The digest, where one is asked for, is that of the only cipher.
  TlsSession& own = *static_cast<TlsSession*>(SSL_get_app_data(ssl));
  *session = own.MakeKeySession();
  own.lacks_memory_ = *session == nullptr;
  *identity = reinterpret_cast<const unsigned char*>(kKeyName.data());
  *identity_size = kKeyName.size();
  return *session == nullptr ? 0 : 1;
}

int TlsSession::FindKey(SSL* ssl, const unsigned char* identity, size_t identity_size,
                        SSL_SESSION** session) {
  *session = nullptr;
  if (absl::string_view(reinterpret_cast<const char*>(identity), identity_size) != kKeyName) {
    return 1;
  }
  TlsSession& own = *static_cast<TlsSession*>(SSL_get_app_data(ssl));
  *session = own.MakeKeySession();
  own.lacks_memory_ = *session == nullptr;
  return *session == nullptr ? 0 : 1;
}

TlsSession::TlsSession(int descriptor, absl::string_view key, std::string arrived,
                       int64_t records_per_key)
    : descriptor_(descriptor),
      key_(key),
      records_per_key_(records_per_key),
      arrived_(std::move(arrived)) {}

TlsSession::~TlsSession() {
  ssl_.reset();
  OPENSSL_cleanse(key_.data(), key_.size());
}

absl::StatusOr<std::unique_ptr<TlsSession>> TlsSession::Start(TlsSide side, int descriptor,
                                                              absl::string_view key,
                                                              std::string arrived,
                                                              int64_t records_per_key) {
  PARPLAN_CHECK(key.size() == kTlsKeySize);
  const OpensslErrorScope errors;
  std::unique_ptr<TlsSession> session(
      new TlsSession(descriptor, key, std::move(arrived), records_per_key));
  PARPLAN_ASSIGN_OR_RETURN(SSL_CTX* const context, ContextOf(side));
  session->ssl_.reset(SSL_new(context));
  BIO* const bio = session->ssl_ == nullptr ? nullptr : BIO_new(Method());
  if (bio == nullptr)
    return absl::UnavailableError("there is no memory for an encrypted connection");
  BIO_set_data(bio, session.get());
  BIO_set_init(bio, 1);
  SSL* const ssl = session->ssl_.get();
  SSL_set_bio(ssl, bio, bio);
  SSL_set_app_data(ssl, session.get());
  if (side == TlsSide::kClient) {
    SSL_set_psk_use_session_callback(ssl, UseKey);
    SSL_set_connect_state(ssl);
  } else {
    SSL_set_psk_find_session_callback(ssl, FindKey);
    SSL_set_accept_state(ssl);
  }
  return session;
}

absl::Status TlsSession::FailLocked(const absl::Status& status) {
  if (failure_.ok()) failure_ = status;
  return failure_;
}

absl::Status TlsSession::FailureLocked(int result) {
  const int kind = SSL_get_error(ssl_.get(), result);
  if (kind == SSL_ERROR_WANT_READ && error_number_ == 0 && !has_ended_) return absl::OkStatus();
  // The system says once why it ended a connection, and may have said it to `Send`.
  if (has_ended_ && error_number_ == 0) error_number_ = send_error_number_;
  if (error_number_ != 0) {
    return FailLocked(
        absl::UnavailableError(DescribeErrno(error_number_, "the other side is gone")));
  }
  if (has_ended_ || kind == SSL_ERROR_ZERO_RETURN) {
    return FailLocked(absl::UnavailableError("the other side closed the connection"));
  }
  const absl::Status failure = FailLocked(StatusOfTlsError(
      lacks_memory_ ? ERR_PACK(ERR_LIB_SSL, 0, ERR_R_MALLOC_FAILURE) : ERR_peek_error()));
  // Hands on the alert that says so to the other side.
  (void)FlushLocked();
  return failure;
}

absl::Status StatusOfTlsError(unsigned long error) {
  const std::string suffix = absl::StrCat(" (TLS: ", ReasonOf(error), ")");
  if (IsOfOwnSettings(error)) {
    return absl::InternalError(absl::StrCat(
        "the settings of OpenSSL on this system allow no connection between ranks", suffix));
  }
  if (ERR_COMMON_ERROR(error)) {
    if (ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE) {
      return absl::UnavailableError(
          absl::StrCat("there is no memory for an encrypted connection", suffix));
    }
    return absl::InternalError(absl::StrCat("the encryption of a connection failed", suffix));
  }
  // Reasons from SSL_AD_REASON_OFFSET on are alerts of the other side.
  const bool is_alert =
      ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) >= SSL_AD_REASON_OFFSET;
  return absl::DataLossError(absl::StrCat(
      is_alert ? "the other side received something else than this one has sent: it was altered on "
                 "its way"
               : "what arrived is not what the other side has sent: it was altered on its way, or "
                 "comes from another program",
      suffix));
}

absl::Status TlsSession::FlushLocked() {
  if (!send_failure_.ok()) return send_failure_;
  while (sent_ < unsent_.size()) {
    const ssize_t count = ::send(descriptor_, unsent_.data() + sent_, unsent_.size() - sent_,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent_ += static_cast<size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return absl::OkStatus();
    } else if (errno != EINTR) {
      send_error_number_ = errno;
      send_failure_ =
          absl::UnavailableError(DescribeErrno(send_error_number_, "the other side is gone"));
      unsent_.clear();
      return send_failure_;
    }
  }
  unsent_.clear();
  sent_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<bool> TlsSession::Handshake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  // OpenSSL takes any error in the queue of this thread for that of the next call.
  ERR_clear_error();
  const OpensslErrorScope errors;
  const int result = SSL_do_handshake(ssl_.get());
  if (result != 1) PARPLAN_RETURN_IF_ERROR(FailureLocked(result));
  PARPLAN_RETURN_IF_ERROR(FlushLocked());
  if (!unsent_.empty()) {
    return FailLocked(absl::UnavailableError("the other side takes nothing"));
  }
  if (result != 1) return false;
  // No handshake without the key ends well, since none trusts a certificate.
  if (SSL_session_reused(ssl_.get()) != 1) {
    return FailLocked(absl::DataLossError("the other side does not prove that it knows the key"));
  }
  return true;
}

absl::StatusOr<int64_t> TlsSession::Send(absl::string_view data) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (!send_failure_.ok()) return send_failure_;
  // OpenSSL takes any error in the queue of this thread for that of the next call.
  ERR_clear_error();
  const OpensslErrorScope errors;
  if (uncounted_ == 0 && !data.empty()) {
    const absl::string_view piece = data.substr(0, kMaxPieceSize);
    // Neither is possible while the other side has said a part of a message about the connection,
    // which an honest one says at once.
    if (record_count_ >= records_per_key_) {
      if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
        return FailLocked(NotKept());
      }
      record_count_ = 0;
    }
    // Takes all, since bytes for the kernel wait in `unsent_`.
    const int result = SSL_write(ssl_.get(), piece.data(), static_cast<int>(piece.size()));
    if (result <= 0) {
      PARPLAN_RETURN_IF_ERROR(FailureLocked(result));
      return FailLocked(NotKept());
    }
    uncounted_ = result;
    record_count_ += (result + SSL3_RT_MAX_PLAIN_LENGTH - 1) / SSL3_RT_MAX_PLAIN_LENGTH;
  }
  PARPLAN_RETURN_IF_ERROR(FlushLocked());
  if (!unsent_.empty()) return 0;
  const int64_t count = std::min(uncounted_, static_cast<int64_t>(data.size()));
  uncounted_ -= count;
  return count;
}

void TlsSession::Abandon() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!send_failure_.ok()) return;
  send_failure_ = absl::UnavailableError(
      "the other side did not take a message in time, so nothing can follow it");
  unsent_.clear();
}

absl::StatusOr<int64_t> TlsSession::Receive(char* data, int64_t size) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  // OpenSSL takes any error in the queue of this thread for that of the next call.
  ERR_clear_error();
  const OpensslErrorScope errors;
  int64_t count = 0;
  while (count < size) {
    const int result = SSL_read(ssl_.get(), data + count,
                                static_cast<int>(std::min<int64_t>(size - count, 1 << 30)));
    if (result > 0) {
      count += result;
      continue;
    }
    // Bytes that arrived before an error come first; the next call returns the error.
    const absl::Status failure = FailureLocked(result);
    if (count > 0 || failure.ok()) break;
    return failure;
  }
  // Hands on the answers to changes of the key, so that a side that only reads does not keep them;
  // `Send` returns an error.
  if (!unsent_.empty()) (void)FlushLocked();
  return count;
}

bool TlsSession::has_pending() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !failure_.ok() || !arrived_.empty() || SSL_has_pending(ssl_.get()) == 1;
}

int TlsSession::error_number() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_number_;
}

}  // namespace parplan
