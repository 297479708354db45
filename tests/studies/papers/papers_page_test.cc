// The page and the stored results agree with each other, and with what is answered now.

#include "studies/papers/papers_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "studies/papers/papers_results.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan::papers {
namespace {

constexpr char kAgain[] =
    "make it again: parplan-study papers --source . --machine CPU --commit HASH (only --source . "
    "--only-page if no search changed)";

std::string FileText(const std::string& path) {
  std::ifstream file(SourceDir() + path);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class StoredResults : public testing::Test {
 protected:
  void SetUp() override {
    text_ = FileText("/studies/papers/data/results.json");
    ASSERT_OK_AND_ASSIGN(results_, ParseResults(text_));
  }

  std::string text_;
  PapersResults results_;
};

TEST_F(StoredResults, AreReadAsTheyWereWritten) { EXPECT_EQ(ResultsJson(results_), text_); }

TEST_F(StoredResults, MakeThePageByteByByte) {
  EXPECT_EQ(PapersPage(results_), FileText("/docs/measurements/papers.md")) << kAgain;
  const auto pictures = PapersPictures(results_);
  EXPECT_EQ(pictures.size(), 4u);
  for (const auto& [name, svg] : pictures) {
    EXPECT_EQ(svg, FileText("/docs/images/" + name)) << kAgain;
  }
}

// A part that is not made again keeps the commit of the run that made it, so each has one.
TEST_F(StoredResults, SayWhichRunMadeEachPart) {
  const std::string page = PapersPage(results_);
  for (const char* const section :
       {"ablations", "forward-memory", "granularity", "grid", "long-devices", "long-granularity",
        "long-grid", "long-layers", "long-memory", "long-strategies", "long-walks", "pipelines",
        "times", "unlike-devices"}) {
    SCOPED_TRACE(section);
    ASSERT_TRUE(results_.made.contains(section));
    const SectionRun& run = results_.made[section];
    EXPECT_FALSE(run.machine.empty());
    EXPECT_FALSE(run.commit.empty());
    EXPECT_THAT(page, testing::HasSubstr(absl::StrCat("| `", section, "` |")));
  }
  // How long that took depends on the machine, so the page says it and no limit holds here.
  const bool is_within = results_.WholeSeconds() <= kWholeRunSeconds;
  EXPECT_THAT(page, testing::HasSubstr(is_within ? ", within the" : "**more"));
}

TEST(PapersPage, HasTheCommitOfEachPart) {
  PapersResults results;
  results.made["grid"] = {.machine = "one", .commit = "1234", .seconds = 61.25};
  results.made["long-grid"] = {.machine = "other", .commit = "5678", .seconds = 557.0};
  const std::string page = PapersPage(results);
  EXPECT_THAT(page, testing::HasSubstr("| `grid` | 61.2 | 1234 | one |"));
  EXPECT_THAT(page, testing::HasSubstr("| `long-grid` | 557.0 | 5678 | other |"));
  EXPECT_THAT(page, testing::HasSubstr("takes 61 s of one core, within"));
}

TEST_F(StoredResults, HaveEveryCellAndEveryPlanner) {
  const std::vector<GridQuestion> questions = GridQuestions();
  ASSERT_EQ(results_.grid.size(), questions.size());
  for (size_t index = 0; index < questions.size(); ++index) {
    const GridCell& cell = results_.grid[index];
    EXPECT_EQ(cell.model, ModelName(questions[index].family, questions[index].layer_count));
    EXPECT_EQ(cell.device_count, questions[index].device_count);
    EXPECT_EQ(cell.memory_gb, questions[index].memory_gb);
    EXPECT_EQ(cell.answers.size(), StudyPlanners().size());
  }
  EXPECT_EQ(results_.ablations.size(), AblationQuestions().size());
  EXPECT_EQ(results_.pipelines.size(), PipelineQuestions().size());
  EXPECT_EQ(results_.granularity.size(), AblationQuestions().size());
  EXPECT_EQ(results_.walks.size(), WalkQuestions().size());
  EXPECT_EQ(results_.unlike.size(), UnlikeQuestions().size());
}

// The laws of the paper planners on all 120 cells of `parplan-study papers`, with the batches that
// it searches.
TEST_F(StoredResults, HaveNoPlannerBelowItsBaselinesOrItsParts) {
  int fitting_count = 0;
  for (const GridCell& cell : results_.grid) {
    SCOPED_TRACE(
        absl::StrCat(cell.model, ", ", cell.device_count, " devices, ", cell.memory_gb, " GB"));
    double best = 0.0;
    for (const char* const baseline : kPurePlanners) best = std::max(best, cell.RateOf(baseline));
    for (const char* const baseline : kHybridPlanners) best = std::max(best, cell.RateOf(baseline));
    for (const char* const planner : kPaperPlanners) {
      EXPECT_GE(cell.RateOf(planner), best) << planner;
      best = cell.RateOf(planner);
    }
    for (const char* const method : {kBaseAlone, kBmwAlone}) {
      EXPECT_LE(cell.RateOf(method), best) << method;
    }
    // A proved optimum is above all of them; an unproved one is the best plan known.
    EXPECT_GE(cell.OptimumRate() * (1.0 + kLost), best);
    if (cell.optimum_gap == 0.0) {
      EXPECT_GE(cell.RateOf(kTreeOptimum) * (1.0 + 1e-5), best);
    }
    if (best > 0.0) ++fitting_count;
  }
  EXPECT_GT(fitting_count, 115);
}

TEST_F(StoredResults, HaveNoPlannerThatMoreMemoryMakesSlower) {
  int pair_count = 0;
  for (size_t index = 1; index < results_.grid.size(); ++index) {
    const GridCell& before = results_.grid[index - 1];
    const GridCell& cell = results_.grid[index];
    if (cell.memory_gb < before.memory_gb) continue;
    SCOPED_TRACE(
        absl::StrCat(cell.model, ", ", cell.device_count, " devices, ", cell.memory_gb, " GB"));
    for (const char* const planner : kPaperPlanners) {
      EXPECT_GE(cell.RateOf(planner) * (1.0 + 1e-5), before.RateOf(planner)) << planner;
    }
    ++pair_count;
  }
  EXPECT_EQ(pair_count, 90);
}

// Whoever loses to the optimum has a cause, and nobody else.
TEST_F(StoredResults, HaveACauseWhereTheMethodLoses) {
  for (const GridCell& cell : results_.grid) {
    const double rate = cell.RateOf(kBmwAlone);
    EXPECT_EQ(cell.MethodLoses(), rate < cell.OptimumRate() * (1.0 - kLost)) << cell.model;
    if (!cell.MethodLoses()) continue;
    EXPECT_EQ(cell.method_gist.empty(), rate <= 0.0) << cell.model;
    EXPECT_GT(cell.method_loss.stage_count, 0) << cell.model;
    if (!cell.method_loss.has_strategies) {
      EXPECT_EQ(cell.method_loss.refused_stage_count, 0) << cell.model;
    }
  }
}

// Every seventh cell, 18 of 120: a family has 8 cells for each number of devices (four budgets with
// 32 layers, four with 48), so the stride meets every family, depth, budget and number of devices.
// A search that changed shows here; the whole grid takes a minute.
TEST_F(StoredResults, AreWhatPlannersAnswerNow) {
  const std::vector<GridQuestion> questions = GridQuestions();
  for (size_t index = 1; index < questions.size(); index += 7) {
    SCOPED_TRACE(absl::StrCat(questions[index].device_count, " devices"));
    SCOPED_TRACE(ModelName(questions[index].family, questions[index].layer_count));
    EXPECT_EQ(CellOf(questions[index]), results_.grid[index]) << kAgain;
  }
  EXPECT_EQ(AblationRowOf(AblationQuestions()[2]), results_.ablations[2]) << kAgain;
  EXPECT_EQ(GranularityRowOf(AblationQuestions()[12]), results_.granularity[12]) << kAgain;
  EXPECT_EQ(PipelineRowOf(PipelineQuestions()[1]), results_.pipelines[1]) << kAgain;
  EXPECT_EQ(ForwardMemoryRowOf(Family::kVit, 32), results_.forward_memory[2]) << kAgain;
  EXPECT_EQ(UnlikeRowOf(UnlikeQuestions()[0]), results_.unlike[0]) << kAgain;
  WalkRow walks = WalkRowOf(WalkQuestions()[1]);
  walks.seconds_by_states = results_.walks[1].seconds_by_states;
  EXPECT_EQ(walks, results_.walks[1]) << kAgain;
}

// Tables have a column for each number of a list.
TEST_F(StoredResults, AListOfAnotherLengthIsRefused) {
  for (const std::string list : {"rates", "by_partitions", "by_states", "seconds_by_states"}) {
    // The first row with the list, and the last one: ablations come before granularity.
    for (const size_t place :
         {text_.find("\"" + list + "\":["), text_.rfind("\"" + list + "\":[")}) {
      ASSERT_NE(place, std::string::npos) << list;
      const size_t begin = text_.find('[', place) + 1;
      std::string shorter = text_;
      shorter.erase(begin, text_.find(',', begin) + 1 - begin);
      EXPECT_THAT(ParseResults(shorter).status().message(),
                  testing::HasSubstr("`" + list + "` has"));
      std::string longer = text_;
      EXPECT_THAT(ParseResults(longer.insert(begin, "1.0,")).status().message(),
                  testing::HasSubstr("`" + list + "` has"));
    }
  }
}

TEST(ParseResults, SaysWhatItWants) {
  for (const char* const text : {"", "{", "{}", "[]", R"({"machine": 3})"}) {
    EXPECT_THAT(ParseResults(text).status().message(), testing::HasSubstr("parplan-study papers"));
  }
}

TEST(PapersPage, SaysWhereExactIsBehindASmallerSpace) {
  PapersResults results;
  for (const int memory_gb : {8, 12}) {
    GridCell& cell = results.grid.emplace_back();
    cell.model = "BERT-Huge-32";
    cell.device_count = 8;
    cell.memory_gb = memory_gb;
    cell.answers[kTreeOptimum].rate = 10.0;
    // Slower by a fifth, then faster.
    results.times.push_back({.axis = "other-grid-BERT-Huge-32-8",
                             .value = memory_gb,
                             .planner = "exact",
                             .rate = memory_gb == 8 ? 8.0 : 11.0});
  }
  EXPECT_THAT(PapersPage(results),
              testing::HasSubstr("In 1 of 2 cells `exact` is slower than the fastest plan known"));
  results.times.front().rate = 10.0;
  EXPECT_THAT(PapersPage(results), testing::HasSubstr("In none of 2 cells is `exact` slower"));
}

TEST(PapersPage, OfFewResultsHasOnlyTheirSections) {
  const std::string page = PapersPage({});
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("## Search time")));
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("## What each part is worth")));
  EXPECT_TRUE(PapersPictures({}).empty());
}

}  // namespace
}  // namespace parplan::papers
