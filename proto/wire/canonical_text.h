// Words and lines of the canonical text that digest.h describes. The digests of this folder and the
// fingerprint of the agent's inventory are made of it.

#ifndef PARPLAN_PROTO_WIRE_CANONICAL_TEXT_H_
#define PARPLAN_PROTO_WIRE_CANONICAL_TEXT_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

// Return the word of a value: decimal digits, "%.17g", 0 or 1, and the text in double quotes with
// `"`, `\` and all bytes outside 0x20 to 0x7e as `\xHH`.
std::string IntegerWord(int64_t value);
std::string NumberWord(double value);
std::string FlagWord(bool value);
std::string StringWord(absl::string_view value);

// Word of an absent value.
inline constexpr char kAbsentWord[] = "-";

// Returns the line `keyword word word...\n`.
std::string CanonicalLine(absl::string_view keyword, std::initializer_list<std::string> words);

// Returns the concatenation of the lines, sorted by their bytes.
std::string SortedLines(std::vector<std::string> lines);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_CANONICAL_TEXT_H_
