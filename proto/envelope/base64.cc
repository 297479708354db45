#include "proto/envelope/base64.h"

#include <cstdint>

#include "absl/strings/escaping.h"

namespace parplan {
namespace {

// Returns the value of one digit; -1 for any other character.
int DigitValue(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  if (c == '/' || c == '_') return 63;
  return -1;
}

}  // namespace

std::optional<std::string> DecodeBase64(absl::string_view text) {
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  if (padding > 0 && text.size() % 4 != 0) return std::nullopt;
  const absl::string_view digits = text.substr(0, text.size() - padding);
  if (digits.size() % 4 == 1) return std::nullopt;

  std::string bytes;
  bytes.reserve(digits.size() / 4 * 3 + 2);
  bool standard = false;
  bool url_safe = false;
  uint32_t bits = 0;
  int bit_count = 0;
  for (const char c : digits) {
    const int value = DigitValue(c);
    if (value < 0) return std::nullopt;
    standard |= c == '+' || c == '/';
    url_safe |= c == '-' || c == '_';
    bits = (bits << 6 | static_cast<uint32_t>(value)) & 0xffff;
    bit_count += 6;
    if (bit_count >= 8) {
      bit_count -= 8;
      bytes.push_back(static_cast<char>(bits >> bit_count & 0xff));
    }
  }
  if (standard && url_safe) return std::nullopt;
  if ((bits & ((1u << bit_count) - 1)) != 0) return std::nullopt;
  return bytes;
}

std::string EncodeBase64(absl::string_view bytes) { return absl::Base64Escape(bytes); }

std::string EncodeBase64Url(absl::string_view bytes) { return absl::WebSafeBase64Escape(bytes); }

}  // namespace parplan
