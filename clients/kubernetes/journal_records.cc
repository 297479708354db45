#include "clients/kubernetes/journal_records.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace parplan::sidecar {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::util::ParseDelimitedFromZeroCopyStream;
using google::protobuf::util::SerializeDelimitedToOstream;

// Followed by a number with leading zeros, or two.
constexpr char kExecutionPrefix[] = "execution-";
constexpr char kWindowsPrefix[] = "windows-";
constexpr int kNumberDigits = 16;

}  // namespace

std::string ExecutionRecordName(int64_t execution_number) {
  return absl::StrFormat("%s%0*d", kExecutionPrefix, kNumberDigits, execution_number);
}

std::string WindowsRecordName(int64_t execution_number, int64_t order) {
  return absl::StrFormat("%s%0*d-%0*d", kWindowsPrefix, kNumberDigits, execution_number,
                         kNumberDigits, order);
}

std::optional<JournalRecordName> ParseRecordName(absl::string_view name) {
  JournalRecordName parsed;
  absl::string_view numbers = name;
  if (absl::ConsumePrefix(&numbers, kExecutionPrefix)) {
    if (!absl::SimpleAtoi(numbers, &parsed.execution_number)) return std::nullopt;
    return parsed;
  }
  parsed.is_windows = true;
  if (!absl::ConsumePrefix(&numbers, kWindowsPrefix) || numbers.size() <= kNumberDigits ||
      !absl::SimpleAtoi(numbers.substr(0, kNumberDigits), &parsed.execution_number) ||
      !absl::SimpleAtoi(numbers.substr(kNumberDigits + 1), &parsed.order)) {
    return std::nullopt;
  }
  return parsed;
}

std::string WriteExecution(const ExecutionContent& content) {
  std::ostringstream text;
  SerializeDelimitedToOstream(content.request, &text);
  SerializeDelimitedToOstream(content.execution, &text);
  return std::move(text).str();
}

absl::StatusOr<ExecutionContent> ParseExecution(const std::string& text) {
  ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  ExecutionContent content;
  if (!ParseDelimitedFromZeroCopyStream(&content.request, &stream, nullptr) ||
      !ParseDelimitedFromZeroCopyStream(&content.execution, &stream, nullptr)) {
    return absl::DataLossError("no execution");
  }
  return content;
}

std::string WriteWindows(absl::Span<const v1::MeasuredWindow> windows) {
  std::ostringstream text;
  for (const v1::MeasuredWindow& window : windows) SerializeDelimitedToOstream(window, &text);
  return std::move(text).str();
}

absl::StatusOr<std::vector<v1::MeasuredWindow>> ParseWindows(const std::string& text) {
  ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  std::vector<v1::MeasuredWindow> windows;
  while (stream.ByteCount() < static_cast<int64_t>(text.size())) {
    bool is_end = false;
    if (!ParseDelimitedFromZeroCopyStream(&windows.emplace_back(), &stream, &is_end)) {
      return absl::DataLossError("no windows");
    }
  }
  return windows;
}

}  // namespace parplan::sidecar
