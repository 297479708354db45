#include "server/audit/audit_verifier.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/json/json_text.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"

namespace parplan {
namespace {

// A line has some hundred bytes; names of resources are limited by the requests that carry them.
constexpr size_t kMaxLineBytes = size_t{1} << 20;

absl::Status Broken(const std::string& path, int64_t line, absl::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, Reason::kSignatureInvalid,
                   absl::StrCat(path, ":", line, ": ", what,
                                "; this line or one before it was changed, taken out or put in"),
                   {{"line", absl::StrCat(line)}});
}

}  // namespace

absl::StatusOr<AuditHead> ReadAuditLine(absl::string_view line) {
  JsonLimits limits;
  limits.max_bytes = kMaxLineBytes;
  limits.max_depth = 4;
  limits.refuses_repeated_members = true;
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue value, ReadJsonText(line, "audit line", limits));
  const JsonValue* const sequence = value.Find("sequence");
  const JsonValue* const previous = value.Find("previous");
  if (sequence == nullptr || sequence->type != JsonValue::Type::kInteger || sequence->integer < 1 ||
      previous == nullptr || previous->type != JsonValue::Type::kString ||
      previous->text.size() != 64) {
    return FieldError(Reason::kSpecInvalid, "audit line", "lacks `sequence` or `previous`");
  }
  return AuditHead{sequence->integer, previous->text};
}

absl::StatusOr<AuditSummary> VerifyAuditFile(const std::string& path,
                                             absl::string_view wanted_digest) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const bool is_absent = errno == ENOENT;
    return MakeError(is_absent ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable,
                     is_absent ? Reason::kResourceNotFound : Reason::kStoreUnavailable,
                     ErrnoToStatus(errno, "read", path).message(), {{"name", path}});
  }
  AuditSummary summary;
  std::string line;
  while (std::getline(file, line)) {
    const int64_t number = summary.line_count + 1;
    // `getline` also returns what follows the last line feed.
    if (file.eof()) return Broken(path, number, "the line has no end");
    const absl::StatusOr<AuditHead> read = ReadAuditLine(line);
    if (!read.ok()) return Broken(path, number, "this is no line of an audit log");
    if (summary.line_count == 0) {
      summary.before = AuditHead{read->sequence - 1, read->digest};
      if (read->sequence == 1 && summary.before != AuditHead()) {
        return Broken(path, number, "the first line of a log names a line before it");
      }
      summary.head = summary.before;
      summary.has_wanted = summary.before.digest == wanted_digest;
    }
    if (read->sequence - 1 != summary.head.sequence) {
      return Broken(
          path, number,
          absl::StrCat("it has number ", read->sequence, " after ", summary.head.sequence));
    }
    if (read->digest != summary.head.digest) {
      return Broken(path, number, "`previous` is not the digest of the line before");
    }
    summary.head = AuditHead{read->sequence, AuditLineDigest(line)};
    summary.has_wanted = summary.has_wanted || summary.head.digest == wanted_digest;
    ++summary.line_count;
  }
  if (file.bad()) {
    return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                     absl::StrCat("cannot read ", path, " to its end"));
  }
  return summary;
}

}  // namespace parplan
