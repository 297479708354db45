// Checks the chain of an audit log. `parplan-server audit verify` calls `VerifyAuditFile`, and
// `AuditFile` reads the last line of its log by `ReadAuditLine`.

#ifndef PARPLAN_SERVER_AUDIT_AUDIT_VERIFIER_H_
#define PARPLAN_SERVER_AUDIT_AUDIT_VERIFIER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/audit/audit_file.h"

namespace parplan {

// The contents of a log in figures.
struct AuditSummary {
  // Lines of the file, all of which were checked.
  int64_t line_count = 0;
  // The line before the first line of the file: `AuditHead()` if the file begins with line 1 or has
  // no lines (even if an earlier file exists); else the last line of the earlier file.
  AuditHead before;
  // The last line of the file; equal to `before` if the file has no lines.
  AuditHead head;
  // Whether a line of the file, or the line before the first, has the digest `wanted_digest`; false
  // if that is empty, and for a file without lines.
  bool has_wanted = false;
};

// Reads a log and checks that `ReadAuditLine` accepts every line, and that each line has the next
// number and contains the digest of the line before, which is 64 zeros for line 1.
//
// The check cannot detect a changed last line or lines removed at the end: compare `head` with the
// head that the server logged, which is kept nowhere else. It cannot detect lines removed at the
// beginning: compare `before`. Several files form one complete log if `before` of each file with
// lines equals `head` of the last earlier file with lines. `wanted_digest`, written as in
// `AuditHead`, is only looked for: if no line has it, that is no error. Takes no lock, so a log
// that a server is writing may end in half a line.
//
// Takes time linear in the file, and keeps one line in memory, however long. A file without lines
// is valid. Errors:
//   - DATA_LOSS (SIGNATURE_INVALID) with the first line that fails the check: this line or an
//     earlier one was changed, removed or inserted, or it is the last line and has no line feed;
//   - NOT_FOUND (RESOURCE_NOT_FOUND) if there is no such file;
//   - UNAVAILABLE (STORE_UNAVAILABLE) if the file cannot be read.
absl::StatusOr<AuditSummary> VerifyAuditFile(const std::string& path,
                                             absl::string_view wanted_digest = "");

// Returns a pair that belongs to two lines: `sequence` is the number of `line`, and `digest` is the
// member `previous` of `line`, the digest of the line before. `line` has no line feed.
// `AuditLineDigest` (audit_file.h) returns the digest of `line` itself.
// INVALID_ARGUMENT (SPEC_INVALID) for a text that is no JSON object, is longer than 1 MiB, is
// nested more than 4 deep, has a member twice, or lacks a `sequence` of 1 or more or a `previous`
// of 64 bytes. Other members are not checked.
absl::StatusOr<AuditHead> ReadAuditLine(absl::string_view line);

}  // namespace parplan

#endif  // PARPLAN_SERVER_AUDIT_AUDIT_VERIFIER_H_
