// A text with the name of its file, and readers of the JSON in it. All importers and the readers of
// published runs take such texts.

#ifndef PARPLAN_CLIENTS_IMPORT_NAMED_TEXT_H_
#define PARPLAN_CLIENTS_IMPORT_NAMED_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan {

// Largest file an import reads, in bytes; ParseJsonObject and the readers of other formats refuse
// larger ones. Not measured.
inline constexpr size_t kMaxImportBytes = size_t{64} << 20;

// Largest count or size that an import accepts: far above any model, and small
// enough that products of two stay exact.
inline constexpr int kMaxImportCount = 1 << 24;

// Returns the product of two counts of at least 0, at most kMaxImportCount.
int CappedProduct(int a, int b);

// The importers are pure functions over these; planctl reads the files.
struct NamedText {
  // The path that the user gave; some formats keep facts in file names.
  std::string name;
  std::string text;
};

// Returns the text with control characters as `\x1b`, so that what a file says cannot steer a
// terminal.
std::string EscapeControls(absl::string_view text);

// Returns INVALID_ARGUMENT (`reason`) with `FILE: FIELD`, or FILE alone if `field` is empty, and
// the broken rule (`FieldError` of base/error.h). Control characters of field and
// rule are escaped (`EscapeControls`), those of the file's name are not.
absl::Status ImportError(Reason reason, absl::string_view file_name, absl::string_view field,
                         absl::string_view rule);

// Returns the object in `file`, or INVALID_ARGUMENT (`reason`) with the file for anything else:
// text that is no JSON, with the byte of the fault, from 1; another value than an object; a number
// that does not fit a double; more than kMaxImportBytes. If a member comes twice, the last one
// counts.
absl::StatusOr<nlohmann::json> ParseJsonObject(const NamedText& file, Reason reason);

// Returns `value` as a finite number of at most 1e12 in magnitude; anything else is
// INVALID_ARGUMENT (`reason`) with file and field.
absl::StatusOr<double> ReadNumber(const nlohmann::json& value, Reason reason,
                                  absl::string_view file_name, absl::string_view field);

// Returns `value` as a whole number from `minimum` to kMaxImportCount, which may be written `8.0`;
// anything else, a text of digits included, is INVALID_ARGUMENT (`reason`) with file and field.
absl::StatusOr<int> ReadCount(const nlohmann::json& value, int minimum, Reason reason,
                              absl::string_view file_name, absl::string_view field);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_NAMED_TEXT_H_
