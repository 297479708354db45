// Reads JSON: text to a tree of values that know their line. Proto JSON (proto/wire/json_file.h),
// the files of keys (proto/envelope/strict_json.h), tokens of service accounts and their key sets,
// lines of the audit log, link shapes of `parplan-exec`, files of Slurm, Kubeflow and
// `planctl runs`, and the sizes of `--opaque` are read by it; others use nlohmann's parser.

#ifndef PARPLAN_BASE_JSON_JSON_TEXT_H_
#define PARPLAN_BASE_JSON_JSON_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

// Limits of files that people write: bytes, and arrays and objects inside one another. A profile of
// a large cluster has a few MiB and 10^5 values.
inline constexpr size_t kMaxJsonBytes = size_t{64} << 20;
inline constexpr int kMaxJsonDepth = 64;

// A value, which owns all values below it.
struct JsonValue {
  // The form of a value, which decides which of the members below have a meaning.
  enum class Type { kNull, kBoolean, kInteger, kNumber, kString, kArray, kObject };

  // Returns the first member of this name, or null if this value is no object or has no such
  // member. Linear in the members; the pointer is valid until this value is changed.
  const JsonValue* Find(absl::string_view name) const;

  Type type = Type::kNull;
  // Line of the text, from 1, on which the value begins.
  int line = 1;
  // Name of the member if the value is one of an object, else empty.
  std::string key;

  // Value of kBoolean.
  bool boolean = false;
  // Value of kInteger: a whole number from -2^63 to 2^63 - 1, written without point or exponent. A
  // larger one is kNumber.
  int64_t integer = 0;
  // Value of kInteger and kNumber.
  double number = 0;
  // Value of kString, in UTF-8.
  std::string text;
  // Values of kArray, and members of kObject, in the order of the text.
  std::vector<JsonValue> items;
};

// Limits of one text, and the errors it gets. A text beyond a limit is refused.
struct JsonLimits {
  // Bytes of the text.
  size_t max_bytes = kMaxJsonBytes;
  // Arrays and objects inside one another, the outermost one included.
  int max_depth = kMaxJsonDepth;
  // Values in all, arrays and objects included, so that a small text cannot take a hundred times
  // its size of memory.
  int max_values = 2'000'000;
  // Whether a second member of a name in one object is an error. Without it `items` has both.
  bool refuses_repeated_members = false;
  // Whether errors may quote the text; not where that may be a secret. The name of a repeated
  // member is quoted in any case.
  bool quotes_text = true;
};

// Reads one JSON value. Pure. INVALID_ARGUMENT (SPEC_INVALID) with an empty `field` and the message
// `file_name:line: ...` for text that is empty, not JSON in UTF-8, has more than one value, has a
// number beyond the range of a double, or goes beyond `limits`. `file_name` is for errors alone; no
// file is read. Linear in the text, up to a logarithm where repeated members are refused.
absl::StatusOr<JsonValue> ReadJsonText(absl::string_view text, absl::string_view file_name,
                                       const JsonLimits& limits = {});

}  // namespace parplan

#endif  // PARPLAN_BASE_JSON_JSON_TEXT_H_
