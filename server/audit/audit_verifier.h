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
  // The line before the first one of the file: `AuditHead()` if the file begins with line 1 or has
  // no lines, whatever it goes on after; else the last line of the file that came before.
  AuditHead before;
  // The last line; equal to `before` if there is none.
  AuditHead head;
  // Whether a line, or the one before the first, has the digest that was asked for; false if none
  // was asked for, and for a file without lines.
  bool has_wanted = false;
};

// Reads a log and checks that `ReadAuditLine` can read every line, and that each has the next
// number and names the digest of the line before, which is 64 zeros for line 1. A change of the
// last line, or lines taken out at the end, show only in `head`, which the server logs and keeps
// nowhere else; lines taken out at the beginning show only in `before`. The files of one log are
// whole together if `before` of each file with lines equals `head` of the last such file before it.
// `wanted_digest`, written as in `AuditHead`, is only looked for: its absence is no error, and an
// empty one asks for none. Takes no lock, so a log that a server writes at the moment may end in
// half a line.
//
// DATA_LOSS (SIGNATURE_INVALID) naming the first line that fails the check: it, or a line before
// it, was changed, taken out or put in; also for a last line without its line feed. NOT_FOUND
// (RESOURCE_NOT_FOUND) if there is no such file, UNAVAILABLE (STORE_UNAVAILABLE) if it cannot be
// read. A file without lines is fine. Linear in the file; keeps one line in memory, however long.
absl::StatusOr<AuditSummary> VerifyAuditFile(const std::string& path,
                                             absl::string_view wanted_digest = "");

// Returns the number of `line` itself (`sequence`) and the digest that it names as that of the line
// before (`digest`). `line` comes without its line feed; its own digest is `AuditLineDigest`.
// INVALID_ARGUMENT (SPEC_INVALID) for a text that is no JSON object, is longer than 1 MiB, is
// nested more than 4 deep, has a member twice, or lacks a `sequence` of 1 or more or a `previous`
// of 64 bytes. Other members are not checked.
absl::StatusOr<AuditHead> ReadAuditLine(absl::string_view line);

}  // namespace parplan

#endif  // PARPLAN_SERVER_AUDIT_AUDIT_VERIFIER_H_
