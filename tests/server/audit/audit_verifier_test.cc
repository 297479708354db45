#include "server/audit/audit_verifier.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

class AuditVerifierTest : public testing::Test {
 protected:
  AuditVerifierTest() {
    absl::StatusOr<std::unique_ptr<AuditFile>> log = AuditFile::Open(path, {});
    EXPECT_OK(log.status());
    for (int i = 0; i < 5; ++i) {
      AuditRecord record;
      record.identity = absl::StrCat("cn:caller-", i);
      EXPECT_OK((*log)->Write(record));
    }
    head = (*log)->head();
    std::ifstream file(path, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    text.pop_back();
    lines = absl::StrSplit(text, '\n');
  }

  absl::StatusOr<AuditSummary> Verify(const std::vector<std::string>& with,
                                      absl::string_view wanted = "") const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << absl::StrJoin(with, "\n") << "\n";
    return VerifyAuditFile(path, wanted);
  }

  const std::string path = MakeTestFolder() + "/audit.jsonl";
  AuditHead head;
  std::vector<std::string> lines;
};

TEST_F(AuditVerifierTest, AWholeLogIsWhole) {
  ASSERT_OK_AND_ASSIGN(const AuditSummary summary, Verify(lines));
  EXPECT_EQ(summary.line_count, 5);
  EXPECT_EQ(summary.before, AuditHead());
  EXPECT_EQ(summary.head, head);
}

// Every byte of one line, and some of the others; not of the last, whose digest nothing in the file
// has.
TEST_F(AuditVerifierTest, AnyChangedByteShows) {
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    for (size_t at = i; at < lines[i].size(); at += i == 1 ? 1 : 37) {
      std::vector<std::string> changed = lines;
      changed[i][at] ^= 1;
      const absl::Status status = Verify(changed).status();
      EXPECT_FALSE(status.ok()) << i << " " << at;
      EXPECT_EQ(GetErrorDetail(status)->reason, Reason::kSignatureInvalid);
    }
  }
  std::vector<std::string> changed = lines;
  changed.back()[changed.back().find("caller")] = 'C';
  ASSERT_OK_AND_ASSIGN(const AuditSummary summary, Verify(changed, head.digest));
  EXPECT_FALSE(summary.has_wanted);
}

TEST_F(AuditVerifierTest, LinesTakenOutPutInOrSwappedShow) {
  for (size_t i = 0; i < lines.size(); ++i) {
    std::vector<std::string> without = lines;
    without.erase(without.begin() + static_cast<int64_t>(i));
    const bool is_at_an_end = i == 0 || i + 1 == lines.size();
    EXPECT_EQ(Verify(without).ok(), is_at_an_end) << i;
    std::vector<std::string> twice = lines;
    twice.insert(twice.begin() + static_cast<int64_t>(i), lines[i]);
    EXPECT_FALSE(Verify(twice).ok());
    if (i == 0) continue;
    std::vector<std::string> swapped = lines;
    std::swap(swapped[i - 1], swapped[i]);
    EXPECT_FALSE(Verify(swapped).ok());
  }
}

TEST_F(AuditVerifierTest, WhatIsMissingAtAnEndShowsAgainstWhatIsKnownOfIt) {
  std::vector<std::string> without = lines;
  without.erase(without.begin());
  ASSERT_OK_AND_ASSIGN(AuditSummary summary, Verify(without, head.digest));
  EXPECT_EQ(summary.before.sequence, 1);
  EXPECT_TRUE(summary.has_wanted);
  without = lines;
  without.pop_back();
  ASSERT_OK_AND_ASSIGN(summary, Verify(without, head.digest));
  EXPECT_FALSE(summary.has_wanted);
  EXPECT_EQ(summary.head.sequence, 4);
}

TEST_F(AuditVerifierTest, OtherFilesAreRefused) {
  EXPECT_THAT(VerifyAuditFile(path + ".none"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(Verify({"a text"}).ok());
  EXPECT_FALSE(Verify({"{}"}).ok());
  // The first line of a log has no line before it.
  std::vector<std::string> forged = {lines[0]};
  forged[0].replace(forged[0].rfind("0000"), 4, "1111");
  EXPECT_FALSE(Verify(forged).ok());
  // No number follows the largest.
  std::vector<std::string> last = {lines[3], lines[4]};
  const size_t number = last[0].find(R"("sequence":4)");
  ASSERT_NE(number, std::string::npos);
  last[0].replace(number, 12, R"("sequence":9223372036854775807)");
  EXPECT_FALSE(Verify(last).ok());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << lines[0];
  EXPECT_FALSE(VerifyAuditFile(path).ok());
}

}  // namespace
}  // namespace parplan
