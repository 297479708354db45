// Words and lines of the canonical text described in digest.h.

#ifndef PARPLAN_PROTO_WIRE_CANONICAL_TEXT_H_
#define PARPLAN_PROTO_WIRE_CANONICAL_TEXT_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan {

std::string IntegerWord(int64_t value);
std::string NumberWord(double value);
std::string FlagWord(bool value);
std::string StringWord(absl::string_view value);

// In the place of a value that is not there.
inline constexpr char kAbsentWord[] = "-";

// `keyword word word...\n`.
std::string CanonicalLine(absl::string_view keyword, std::initializer_list<std::string> words);

// All lines, sorted as bytes, one after the other.
std::string SortedLines(std::vector<std::string> lines);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_CANONICAL_TEXT_H_
