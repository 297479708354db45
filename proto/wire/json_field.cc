#include "proto/wire/json_field.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/enum_wire.h"

namespace parplan {
namespace {

constexpr double kLargestExactInteger = 9007199254740992.0;  // 2^53
constexpr double kTwoTo63 = 9223372036854775808.0;
// Longest quotation in an error, in bytes; longer texts are cut.
constexpr size_t kMaxQuoted = 60;

template <typename... Words>
absl::Status Rule(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat(words...));
}

absl::Status WrongType(const JsonValue& value, absl::string_view expected) {
  return Rule("must be ", expected, ", not ", JsonTypeName(value));
}

std::string Quoted(absl::string_view text) {
  const bool cut = text.size() > kMaxQuoted;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMaxQuoted)), cut ? "..." : "", "\"");
}

bool AllDigits(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// Returns the number of edits (insert, remove, change one character) between two short words.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

absl::string_view JsonTypeName(const JsonValue& value) {
  switch (value.type) {
    case JsonValue::Type::kNull:
      return "null";
    case JsonValue::Type::kBoolean:
      return "true or false";
    case JsonValue::Type::kInteger:
    case JsonValue::Type::kNumber:
      return "a number";
    case JsonValue::Type::kString:
      return "a string";
    case JsonValue::Type::kArray:
      return "a list";
    case JsonValue::Type::kObject:
      return "an object";
  }
  return "an unknown value";
}

absl::StatusOr<int64_t> JsonInteger(const JsonValue& value, int64_t min, int64_t max,
                                    bool allow_string) {
  const absl::string_view expected =
      allow_string ? "a whole number (or a string of its digits)" : "a whole number";
  int64_t integer = 0;
  if (value.type == JsonValue::Type::kInteger) {
    integer = value.integer;
  } else if (value.type == JsonValue::Type::kNumber) {
    const double number = value.number;
    if (number != std::floor(number)) return Rule("must be ", expected, ", not ", number);
    if (std::abs(number) >= kTwoTo63 || number < static_cast<double>(min) ||
        number > static_cast<double>(max)) {
      return Rule("must be between ", min, " and ", max, ", not ", number);
    }
    if (std::abs(number) > kLargestExactInteger) {
      return Rule(
          "must be written with all its digits: beyond 2^53, a number with a point or an "
          "exponent may stand for another one");
    }
    integer = static_cast<int64_t>(value.number);
  } else if (value.type == JsonValue::Type::kString && allow_string) {
    absl::string_view digits = value.text;
    absl::ConsumePrefix(&digits, "-");
    if (digits.empty() || !AllDigits(digits) || !absl::SimpleAtoi(value.text, &integer)) {
      return Rule("must be ", expected, ", not ", Quoted(value.text));
    }
  } else {
    return WrongType(value, expected);
  }
  if (integer < min || integer > max) {
    return Rule("must be between ", min, " and ", max, ", not ", integer);
  }
  return integer;
}

absl::StatusOr<double> JsonNumber(const JsonValue& value) {
  if (value.type != JsonValue::Type::kInteger && value.type != JsonValue::Type::kNumber) {
    return WrongType(value, "a number");
  }
  return value.number == 0 ? 0.0 : value.number;  // Without the sign of -0.
}

absl::StatusOr<bool> JsonBoolean(const JsonValue& value) {
  if (value.type != JsonValue::Type::kBoolean) return WrongType(value, "true or false");
  return value.boolean;
}

absl::StatusOr<std::string> JsonString(const JsonValue& value) {
  if (value.type != JsonValue::Type::kString) return WrongType(value, "a string");
  return value.text;
}

absl::StatusOr<std::string> JsonBytes(const JsonValue& value) {
  if (value.type != JsonValue::Type::kString) return WrongType(value, "a string in base64");
  std::string bytes;
  if (absl::Base64Unescape(value.text, &bytes) || absl::WebSafeBase64Unescape(value.text, &bytes)) {
    return bytes;
  }
  return Rule("must be base64, not ", Quoted(value.text));
}

absl::StatusOr<int> JsonEnum(const JsonValue& value,
                             const google::protobuf::EnumDescriptor& descriptor) {
  const std::string names = EnumValueNames(descriptor);
  if (value.type != JsonValue::Type::kString) {
    return WrongType(value, absl::StrCat("one of ", names));
  }
  const google::protobuf::EnumValueDescriptor* found = descriptor.FindValueByName(value.text);
  if (found != nullptr) return found->number();
  std::vector<std::string> candidates;
  candidates.reserve(descriptor.value_count());
  for (int i = 0; i < descriptor.value_count(); ++i) {
    candidates.push_back(descriptor.value(i)->name());
  }
  return Rule("must be one of ", names, ", not ", Quoted(value.text),
              DidYouMean(value.text, candidates));
}

absl::StatusOr<google::protobuf::Duration> JsonDuration(const JsonValue& value) {
  constexpr absl::string_view kExpected = "a string of seconds like \"0.005s\"";
  if (value.type != JsonValue::Type::kString) return WrongType(value, kExpected);
  absl::string_view text = value.text;
  const bool negative = absl::ConsumePrefix(&text, "-");
  bool good = absl::ConsumeSuffix(&text, "s");
  const size_t point = std::min(text.find('.'), text.size());
  const absl::string_view whole = text.substr(0, point);
  absl::string_view decimals = point < text.size() ? text.substr(point + 1) : absl::string_view();
  good = good && !whole.empty() && whole.size() <= 12 && AllDigits(whole) && AllDigits(decimals) &&
         decimals.size() <= 9 && (point == text.size() || !decimals.empty());
  if (!good) {
    absl::Duration meant;
    const bool other_unit = absl::ParseDuration(value.text, &meant) &&
                            meant < absl::Seconds(kMaxDurationSeconds) &&
                            meant > -absl::Seconds(kMaxDurationSeconds);
    return Rule("must be ", kExpected, ", not ", Quoted(value.text),
                other_unit ? absl::StrCat("; write \"", absl::ToDoubleSeconds(meant), "s\"") : "");
  }
  int64_t seconds = 0;
  int32_t nanos = 0;
  std::string nine_digits(decimals);
  nine_digits.resize(9, '0');
  if (!absl::SimpleAtoi(whole, &seconds) || !absl::SimpleAtoi(nine_digits, &nanos) ||
      seconds > kMaxDurationSeconds || (seconds == kMaxDurationSeconds && nanos > 0)) {
    return Rule("must be at most 315576000000 seconds");
  }
  google::protobuf::Duration duration;
  duration.set_seconds(negative ? -seconds : seconds);
  duration.set_nanos(negative ? -nanos : nanos);
  return duration;
}

absl::StatusOr<google::protobuf::Timestamp> JsonTimestamp(const JsonValue& value) {
  constexpr absl::string_view kExpected = "a time like \"2022-06-01T00:00:00Z\"";
  if (value.type != JsonValue::Type::kString) return WrongType(value, kExpected);
  absl::Time time;
  std::string error;
  if (value.text.empty() || !absl::ascii_isdigit(value.text[0]) ||
      !absl::ParseTime(absl::RFC3339_full, value.text, &time, &error)) {
    return Rule("must be ", kExpected, ", not ", Quoted(value.text));
  }
  const google::protobuf::Timestamp timestamp = TimestampToProto(time);
  if (absl::FromUnixSeconds(timestamp.seconds() + 1) <= time ||
      absl::FromUnixSeconds(timestamp.seconds()) > time) {
    return Rule("must lie between the years 1 and 9999");
  }
  return timestamp;
}

std::string DidYouMean(absl::string_view given, const std::vector<std::string>& names) {
  const std::string word = absl::AsciiStrToLower(given.substr(0, kMaxQuoted));
  size_t nearest_distance = std::max<size_t>(2, word.size() / 3) + 1;
  const std::string* nearest = nullptr;
  for (const std::string& name : names) {
    const size_t distance = EditDistance(word, absl::AsciiStrToLower(name));
    if (distance < nearest_distance) {
      nearest_distance = distance;
      nearest = &name;
    }
  }
  return nearest == nullptr ? "" : absl::StrCat("; did you mean `", *nearest, "`?");
}

}  // namespace parplan
