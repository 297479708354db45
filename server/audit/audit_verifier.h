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
  int64_t line_count = 0;
  // The line before the first one: number 0 if the log begins with it, else the last line of the
  // file that came before.
  AuditHead before;
  // The last line; that of `before` if there is none.
  AuditHead head;
  // Whether a line, or the one before the first, has the digest that was asked for.
  bool has_wanted = false;
};

// Reads a log and checks that every line is an audit record with the next number and the digest of
// the line before. A change of the last line, or lines taken out at the end, show only in `head`,
// which the server logs and keeps nowhere else; lines taken out at the beginning show only in
// `before`. `wanted_digest` is only looked for: its absence is no error, and an empty one asks for
// none.
//
// DATA_LOSS (SIGNATURE_INVALID) naming the first line that fails the check: it, or a line before
// it, was changed, taken out or put in; also for a last line without its line feed. NOT_FOUND
// (RESOURCE_NOT_FOUND) if there is no such file, UNAVAILABLE (STORE_UNAVAILABLE) if it cannot be
// read. Linear in the file; keeps one line in memory.
absl::StatusOr<AuditSummary> VerifyAuditFile(const std::string& path,
                                             absl::string_view wanted_digest = "");

// Returns the number of `line` itself (`sequence`) and the digest that it names as that of the line
// before (`digest`). The digest of `line` itself is `AuditLineDigest`. INVALID_ARGUMENT
// (SPEC_INVALID) for any other text.
absl::StatusOr<AuditHead> ReadAuditLine(absl::string_view line);

}  // namespace parplan

#endif  // PARPLAN_SERVER_AUDIT_AUDIT_VERIFIER_H_
