#include "studies/table2/table2_text.h"

#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/support/status_matchers.h"

namespace parplan::table2 {
namespace {

using ::testing::HasSubstr;

std::string Page() {
  std::ifstream file(PARPLAN_TABLE2_PAGE);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A smaller table, so that a study of it takes no time.
Hypothesis Theirs() {
  Hypothesis hypothesis{.definition = Definition::kRedundant, .batch_text = "4 a device"};
  for (const PublishedRow& row : BuiltInTable().rows) {
    hypothesis.batches.push_back(4 * row.device_count);
    hypothesis.memory_mb.push_back(row.memory_mb);
  }
  Judge(BuiltInTable(), hypothesis);
  return hypothesis;
}

ProductRows NoRows() {
  ProductRows rows{.device = "abacus"};
  rows.cells.resize(BuiltInTable().rows.size());
  rows.recomputing.resize(BuiltInTable().rows.size());
  return rows;
}

TEST(Table2Text, HasAll84Numbers) {
  const std::string text = Table2Text(BuiltInTable(), NoRows(), {Theirs()});
  for (const PublishedRow& row : BuiltInTable().rows) {
    for (const double memory : row.memory_mb) {
      EXPECT_THAT(text, HasSubstr(absl::StrFormat("/ %.2f, 1.00 |", memory)));
    }
    for (const double ratio : row.ratios) {
      EXPECT_THAT(text, HasSubstr(absl::StrFormat("/ %.2f |", ratio)));
    }
  }
  // Prose is broken into lines.
  const std::string prose = absl::StrReplaceAll(text, {{"\n  ", " "}});
  EXPECT_THAT(prose, HasSubstr("Colossal-Auto 1.7B from 2 to 4 (1.00, ours 1.00)"));
  EXPECT_THAT(prose, HasSubstr("0 of 48 memories are off by a factor of 2 or more: none"));
  const nlohmann::ordered_json json = Table2Json(BuiltInTable(), NoRows(), {Theirs()});
  EXPECT_EQ(json["rows"].size(), 12u);
  EXPECT_EQ(json["hypotheses"][0]["batch"], "4 a device");
}

// The page in the repository is what the program prints: its first table, and the hypothesis it
// gives in full, planned again. Print it anew with `parplan-study table2` if this fails.
TEST(Table2Page, IsWhatTheProgramPrints) {
  const std::string page = Page();
  ASSERT_OK_AND_ASSIGN(const ProductRows product, PlanRows(BuiltInTable(), "a100-sxm-80gb", 8));
  EXPECT_TRUE(absl::StartsWith(page, Table2Text(BuiltInTable(), product, {})));

  // The best one.
  std::vector<int64_t> batches;
  for (const PublishedRow& row : BuiltInTable().rows) {
    batches.push_back(row.model == "BERT-Large" ? 1 : row.model == "7.5B" ? 8 : 16);
  }
  ASSERT_OK_AND_ASSIGN(
      const Hypothesis best,
      TryOne(BuiltInTable(), product.device, Definition::kActivations, Precision::kFp32,
             Optimizer::kSgd, batches, "BERT-Large: 1, 1.7B: 16, 3.6B: 16, 7.5B: 8"));
  for (const absl::string_view line : absl::StrSplit(HypothesisText(BuiltInTable(), best), '\n')) {
    if (!absl::StartsWith(line, "|")) continue;
    EXPECT_THAT(page, HasSubstr(std::string(line)));
  }
}

}  // namespace
}  // namespace parplan::table2
