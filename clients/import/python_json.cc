#include "clients/import/python_json.h"

#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace parplan {
namespace {

// Longer ones first. Both texts of a pair have the same length.
constexpr std::pair<absl::string_view, absl::string_view> kNumbers[] = {
    {"-Infinity", R"("-inf"   )"}, {"Infinity", R"("inf"   )"}, {"NaN", R"("" )"}};

}  // namespace

std::string QuotePythonNumbers(std::string text) {
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    if (in_string) continue;
    for (const auto& [written, quoted] : kNumbers) {
      if (!absl::StartsWith(absl::string_view(text).substr(i), written)) continue;
      text.replace(i, quoted.size(), quoted.data(), quoted.size());
      i += quoted.size() - 1;
      break;
    }
  }
  return text;
}

}  // namespace parplan
