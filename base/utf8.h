// Characters of UTF-8 (RFC 3629) in text of any origin. Messages of libraries and of jobs may hold
// other bytes, which Protobuf refuses to send and databases to store. Clients cut and clean such
// text with these functions. NUL is a character like others and stays; callers whose receiver takes
// none replace it.

#ifndef PARPLAN_BASE_UTF8_H_
#define PARPLAN_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace parplan {

// The character U+FFFD, which stands for bytes that are not UTF-8.
inline constexpr absl::string_view kUtf8Replacement = "\xEF\xBF\xBD";

// The first character of a text.
struct Utf8Character {
  uint32_t code_point = 0;
  // Number of bytes, from 1 to 4; 0 if the bytes are not UTF-8: a part of a character, an overlong
  // form, a surrogate or a number beyond U+10FFFF. `code_point` is then 0.
  size_t size = 0;
};

// Returns the character at the front of `text`, or one of size 0. REQUIRES: `text` is not empty;
// aborts otherwise.
Utf8Character FirstUtf8Character(absl::string_view text);

// Returns the first `max_count` characters of `text`, all of it if it has no more. Each byte that
// is part of no character counts as one and is replaced by U+FFFD, so the result is valid UTF-8
// whatever `text` holds.
std::string Utf8Prefix(absl::string_view text, size_t max_count);

}  // namespace parplan

#endif  // PARPLAN_BASE_UTF8_H_
