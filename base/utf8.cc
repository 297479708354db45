#include "base/utf8.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace parplan {

Utf8Character FirstUtf8Character(absl::string_view text) {
  PARPLAN_CHECK(!text.empty());
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  size_t size = 0;
  uint32_t value = 0;
  uint32_t smallest = 0;
  if (first >= 0xC2 && first < 0xE0) {
    size = 2, value = first & 0x1F, smallest = 0x80;
  } else if (first >= 0xE0 && first < 0xF0) {
    size = 3, value = first & 0x0F, smallest = 0x800;
  } else if (first >= 0xF0 && first < 0xF5) {
    size = 4, value = first & 0x07, smallest = 0x10000;
  } else {
    return {};
  }
  if (text.size() < size) return {};
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3F);
  }
  if (value < smallest || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return {};
  return {value, size};
}

std::string Utf8Prefix(absl::string_view text, size_t max_count) {
  std::string prefix;
  for (size_t count = 0; count < max_count && !text.empty(); ++count) {
    const size_t size = FirstUtf8Character(text).size;
    absl::StrAppend(&prefix, size == 0 ? kUtf8Replacement : text.substr(0, size));
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return prefix;
}

}  // namespace parplan
