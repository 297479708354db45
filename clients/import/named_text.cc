#include "clients/import/named_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace parplan {

int CappedProduct(int a, int b) {
  return static_cast<int>(std::min<int64_t>(int64_t{a} * b, kMaxImportCount));
}

std::string EscapeControls(absl::string_view text) {
  std::string escaped;
  for (const char character : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(character))) {
      absl::StrAppendFormat(&escaped, "\\x%02x", static_cast<unsigned char>(character));
    } else {
      escaped.push_back(character);
    }
  }
  return escaped;
}

absl::Status ImportError(Reason reason, absl::string_view file_name, absl::string_view field,
                         absl::string_view rule) {
  const std::string shown = EscapeControls(field);
  return FieldError(reason,
                    field.empty() ? std::string(file_name) : absl::StrCat(file_name, ": ", shown),
                    EscapeControls(rule));
}

absl::StatusOr<nlohmann::json> ParseJsonObject(const NamedText& file, Reason reason) {
  if (file.text.size() > kMaxImportBytes) {
    return ImportError(reason, file.name, "",
                       absl::StrCat("must not exceed ", kMaxImportBytes, " bytes"));
  }
  nlohmann::json value;
  try {
    value = nlohmann::json::parse(file.text);
  } catch (const nlohmann::json::parse_error& error) {
    return ImportError(reason, file.name, "",
                       absl::StrCat("must be JSON; it is broken near byte ", error.byte));
  } catch (const nlohmann::json::exception&) {
    return ImportError(reason, file.name, "", "must be JSON with numbers that fit a double");
  }
  if (!value.is_object()) {
    return ImportError(reason, file.name, "", "must hold one JSON object");
  }
  return value;
}

absl::StatusOr<double> ReadNumber(const nlohmann::json& value, Reason reason,
                                  absl::string_view file_name, absl::string_view field) {
  if (!value.is_number()) return ImportError(reason, file_name, field, "must be a number");
  const double number = value.get<double>();
  if (!std::isfinite(number) || std::abs(number) > 1e12) {
    return ImportError(reason, file_name, field, "must be a number of at most 1e12");
  }
  return number;
}

absl::StatusOr<int> ReadCount(const nlohmann::json& value, int minimum, Reason reason,
                              absl::string_view file_name, absl::string_view field) {
  const std::string rule =
      absl::StrCat("must be a whole number from ", minimum, " to ", kMaxImportCount);
  if (!value.is_number()) return ImportError(reason, file_name, field, rule);
  const double number = value.get<double>();
  if (!(number >= minimum && number <= kMaxImportCount) || number != std::floor(number)) {
    return ImportError(reason, file_name, field, rule);
  }
  return static_cast<int>(number);
}

}  // namespace parplan
