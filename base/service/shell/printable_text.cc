#include "base/service/shell/printable_text.h"

#include <cstddef>

#include "absl/strings/str_format.h"

namespace parplan::shell {
namespace {

// Returns the control character whose UTF-8 begins at `text[at]`, or -1 for any other byte.
int ControlAt(absl::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x20 || byte == 0x7f) return byte;
  // U+0080 to U+009F are two bytes: 0xc2, and the character's number.
  if (byte != 0xc2 || at + 1 == text.size()) return -1;
  const auto next = static_cast<unsigned char>(text[at + 1]);
  return next >= 0x80 && next <= 0x9f ? next : -1;
}

}  // namespace

std::string PrintableText(absl::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const int control = ControlAt(text, i);
    if (control < 0 || control == '\n' || control == '\t') {
      printable.push_back(text[i]);
      continue;
    }
    absl::StrAppendFormat(&printable, "\\u%04x", static_cast<unsigned>(control));
    if (control >= 0x80) ++i;
  }
  return printable;
}

}  // namespace parplan::shell
