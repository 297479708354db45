#include "tests/clients/planctl/view/expect_tidy.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_split.h"
#include "clients/planctl/view/text_layout.h"

namespace parplan::planctl {
namespace {

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n'); }

}  // namespace

void ExpectLinesFit(const std::string& text) {
  for (const std::string& line : Lines(text)) EXPECT_LE(ColumnCount(line), kTextWidth) << line;
}

void ExpectTidy(const std::string& text) {
  ExpectLinesFit(text);
  for (const std::string& line : Lines(text)) {
    EXPECT_FALSE(!line.empty() && line.back() == ' ') << line;
  }
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace parplan::planctl
