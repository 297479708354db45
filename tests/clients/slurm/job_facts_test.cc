#include "clients/slurm/job_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/support/status_matchers.h"

namespace parplan::slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ExpandHosts, ReadsRangesZerosAndSeveralBrackets) {
  const auto names = [](const char* text) {
    const absl::StatusOr<std::vector<std::string>> hosts = ExpandHosts(text);
    EXPECT_OK(hosts.status());
    return hosts.value_or(std::vector<std::string>());
  };
  EXPECT_THAT(names("n1"), ElementsAre("n1"));
  EXPECT_THAT(names("n[1-3]"), ElementsAre("n1", "n2", "n3"));
  EXPECT_THAT(names("n[08-10,3],login"), ElementsAre("n08", "n09", "n10", "n3", "login"));
  EXPECT_THAT(names("r[1-2]n[1,4]x"), ElementsAre("r1n1x", "r1n4x", "r2n1x", "r2n4x"));
}

TEST(ExpandHosts, RefusesWhatIsNoList) {
  for (const char* const text : {"", "n[1-", "n]", "n[a]", "n[3-1]", "n1,,n2", "n[1-99999999]",
                                 "n[]", "n[1-2-3]", "a b", "n[0-999]m[0-999]"}) {
    EXPECT_FALSE(ExpandHosts(text).ok()) << text;
  }
}

TEST(ParseGres, ReadsTypesCountsAndIndices) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<GresCount> found,
      ParseGres("gpu:h200:8(IDX:0-3,5),core:2,shard:a:0(S:0),core:here(CNT:3),x(CNT:1)"));
  EXPECT_THAT(found,
              ElementsAre(GresCount{"gpu:h200", 8}, GresCount{"core", 2}, GresCount{"shard:a", 0},
                          GresCount{"core:here", 3}, GresCount{"x", 1}));
  ASSERT_OK_AND_ASSIGN(const std::vector<GresCount> none, ParseGres("(null)"));
  EXPECT_THAT(none, IsEmpty());
  for (const char* const text : {"gpu", "gpu:many", ":4", "gpu:-1", "gpu(CNT:)", "(CNT:1)"}) {
    EXPECT_FALSE(ParseGres(text).ok()) << text;
  }
}

TEST(ParseTimeLimit, ReadsDaysAndHours) {
  EXPECT_EQ(ParseTimeLimit("01:02:03"), absl::Seconds(3723));
  EXPECT_EQ(ParseTimeLimit("365-00:00:00"), absl::Hours(24 * 365));
  for (const char* const text : {"UNLIMITED", "", "Partition_Limit", "1:2", "x-00:00:00"}) {
    EXPECT_EQ(ParseTimeLimit(text), absl::InfiniteDuration()) << text;
  }
}

TEST(JobFromEnvironment, ReadsWishes) {
  const std::map<std::string, std::string> variables = {{"SLURM_JOB_ID", "17"},
                                                        {"SLURM_JOB_RESTART_COUNT", "2"},
                                                        {"SPANK_PARPLAN_PLAN", "auto"},
                                                        {"SPANK_PARPLAN_MODEL", "{}"},
                                                        {"SPANK_PARPLAN_TARGET", "megatron"},
                                                        {"SPANK_PARPLAN_SPACE", "all,-gpipe"},
                                                        {"SPANK_PARPLAN_EXPORT", "a,b"},
                                                        {"SPANK_PARPLAN_BATCH", "64"}};
  const auto lookup = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  ASSERT_OK_AND_ASSIGN(const JobFacts job, JobFromEnvironment(lookup));
  EXPECT_EQ(job.job_id, "17");
  EXPECT_EQ(job.restart_count, 2);
  EXPECT_EQ(job.wishes.plan, "auto");
  EXPECT_EQ(job.wishes.global_batch_size, 64);
  EXPECT_EQ(job.wishes.target, "megatron");
  EXPECT_EQ(job.wishes.space, "all,-gpipe");
  EXPECT_EQ(job.wishes.exports, "a,b");
  EXPECT_EQ(job.wishes.planner, "");
}

// An array's last task has its id.
TEST(JobFromEnvironment, NamesTasksOfArrays) {
  std::map<std::string, std::string> variables = {{"SLURM_JOB_ID", "100"}};
  const auto name = [&] {
    return JobFromEnvironment([&](const char* variable) -> const char* {
             const auto found = variables.find(variable);
             return found == variables.end() ? nullptr : found->second.c_str();
           })
        ->slurm_name;
  };
  EXPECT_EQ(name(), "100");
  variables["SLURM_ARRAY_JOB_ID"] = "100";
  variables["SLURM_ARRAY_TASK_ID"] = "7";
  EXPECT_EQ(name(), "100_7");
  variables["SLURM_ARRAY_JOB_ID"] = "99";
  EXPECT_EQ(name(), "99_7");
  for (const char* const none : {"", "-1", "4294967294", "x;y"}) {
    variables["SLURM_ARRAY_TASK_ID"] = none;
    EXPECT_EQ(name(), "100") << none;
  }
}

TEST(JobFromEnvironment, NamesPartsOfHeterogeneousJobs) {
  const std::map<std::string, std::string> variables = {
      {"SLURM_JOB_ID", "100"}, {"SLURM_HET_JOB_ID", "100"}, {"SLURM_HET_JOB_OFFSET", "0"}};
  ASSERT_OK_AND_ASSIGN(const JobFacts job,
                       JobFromEnvironment([&](const char* variable) -> const char* {
                         const auto found = variables.find(variable);
                         return found == variables.end() ? nullptr : found->second.c_str();
                       }));
  EXPECT_EQ(job.job_id, "100");
  EXPECT_EQ(job.slurm_name, "100+0");
}

// The id becomes part of paths.
TEST(JobFromEnvironment, RefusesIdsThatAreNoNumbers) {
  for (const char* const id : {"", "../1", "1/2", "-1", "123456789012345678901"}) {
    EXPECT_FALSE(JobFromEnvironment([&](const char* name) -> const char* {
                   return std::string(name) == "SLURM_JOB_ID" ? id : nullptr;
                 }).ok())
        << id;
  }
}

// The form in which Slurm 22.05 prints it.
constexpr char kScontrol[] = R"(JobId=17 JobName=NAME
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   JobState=CONFIGURING Reason=None Dependency=(null)
   RunTime=00:00:00 TimeLimit=2-03:00:30 TimeMin=N/A
   Requeue=1 Restarts=3 BatchFlag=1 Reboot=0 ExitCode=0:0
   SubmitTime=2026-11-22T01:00:00 EligibleTime=2026-11-22T01:00:00
   NodeList=n[1-2],m1
   JOB_GRES=gpu:a100:4,gpu:h200:16
     Nodes=m1 CPU_IDs=0 Mem=0 GRES=gpu:a100:4(IDX:0-3)
     Nodes=n[1-2] CPU_IDs=0-1 Mem=0 GRES=gpu:h200:8(IDX:0-7)
   MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0
   Command=/x
   Comment=TEXT
   Power=
)";

std::string Record(const std::string& name, const std::string& comment = "") {
  return absl::StrReplaceAll(kScontrol, {{"NAME", name}, {"TEXT", comment}});
}

TEST(AddJobDetails, ReadsNodesInTheOrderOfTheList) {
  JobFacts job = {.job_id = "17"};
  ASSERT_OK(
      AddJobDetails(Record("train Nodes=n[1-9] GRES=gpu:h200:800 Restarts=7"), "n[1-2],m1", job));
  EXPECT_EQ(job.restart_count, 3);
  EXPECT_EQ(job.submit_time, "2026-11-22T01:00:00");
  EXPECT_EQ(job.time_limit, absl::Hours(51) + absl::Seconds(30));
  ASSERT_EQ(job.nodes.size(), 3);
  EXPECT_EQ(job.nodes[0].name, "n1");
  EXPECT_THAT(job.nodes[1].gres, ElementsAre(GresCount{"gpu:h200", 8}));
  EXPECT_EQ(job.nodes[2].name, "m1");
  EXPECT_THAT(job.nodes[2].gres, ElementsAre(GresCount{"gpu:a100", 4}));
}

// Names that make up the rest of a record, and hide the true one behind another. The name in the
// environment may be an older one: whoever owns a job may rename it at any time.
TEST(AddJobDetails, RefusesTextsThatLookLikeFacts) {
  const std::string whole =
      "x\n   Requeue=1 Restarts=9\n   RunTime=00:00:00 TimeLimit=30-00:00:00\n   SubmitTime=now\n"
      "     Nodes=n[1-2],m1 CPU_IDs=0 Mem=0 GRES=gpu:h200:64\n   MinCPUsNode=1\nJobId=1";
  for (const std::string& text :
       {whole, std::string("x\n     Nodes=n1 GRES=gpu:h200:64"), std::string("x\n\t Requeue=1"),
        std::string("x\r\n   RunTime=00:00:00"), std::string("x\nJobId=17 JobName=x")}) {
    JobFacts job = {.job_id = "17"};
    EXPECT_THAT(AddJobDetails(Record(text), "n[1-2],m1", job),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--job-name")))
        << text;
    EXPECT_THAT(AddJobDetails(Record("x", text), "n[1-2],m1", job),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--job-name")))
        << text;
  }
}

TEST(AddJobDetails, TakesOtherNamesAndComments) {
  for (const std::string text : {"", "two\nlines", "x\n     Nodes=n9 GRES=gpu:h200:64", "\"a' $(b)",
                                 "x Requeue=1 Restarts=9 JobId=1", "\n", "x\nMinCPUsNode=1"}) {
    JobFacts job = {.job_id = "17"};
    ASSERT_OK(AddJobDetails(Record(text, text), "n[1-2],m1", job)) << text;
    EXPECT_EQ(job.restart_count, 3) << text;
    EXPECT_THAT(job.nodes[0].gres, ElementsAre(GresCount{"gpu:h200", 8})) << text;
  }
}

// Texts of pieces of records and whatever separates these. The facts are the true ones, or there is
// an error.
TEST(AddJobDetails, NoNameChangesTheFacts) {
  const std::vector<std::string> pieces = {"JobId=17",
                                           "JobId=1 JobName=y",
                                           "   UserId=root(0)",
                                           "   RunTime=00:00:00 TimeLimit=30-00:00:00",
                                           "TimeLimit=30-00:00:00",
                                           "   Requeue=1 Restarts=9 ExitCode=1:0",
                                           "Restarts=9",
                                           "   SubmitTime=2030-01-01T00:00:00",
                                           "     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:h200:64",
                                           "     Nodes=n[1-2],m1 GRES=gpu:h200:64",
                                           "GRES=gpu:h200:64",
                                           "   MinCPUsNode=1",
                                           "   Features=(null)",
                                           "x"};
  const std::vector<std::string> separators = {"\n", "\n\n", " ", "\r\n", "\n\t", ""};
  std::mt19937 random(1);
  const auto pick = [&random](const std::vector<std::string>& from) {
    return from[std::uniform_int_distribution<size_t>(0, from.size() - 1)(random)];
  };
  int read_count = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string texts[2];
    for (std::string& text : texts) {
      for (unsigned i = random() % 6; i > 0; --i) text += pick(pieces) + pick(separators);
    }
    JobFacts job = {.job_id = "17"};
    if (!AddJobDetails(Record(texts[0], texts[1]), "n[1-2],m1", job).ok()) continue;
    ++read_count;
    ASSERT_EQ(job.restart_count, 3) << texts[0] << "|" << texts[1];
    ASSERT_EQ(job.submit_time, "2026-11-22T01:00:00") << texts[0] << "|" << texts[1];
    ASSERT_EQ(job.time_limit, absl::Hours(51) + absl::Seconds(30));
    ASSERT_EQ(job.nodes.size(), 3);
    ASSERT_THAT(job.nodes[0].gres, ElementsAre(GresCount{"gpu:h200", 8}));
    ASSERT_THAT(job.nodes[2].gres, ElementsAre(GresCount{"gpu:a100", 4}));
  }
  EXPECT_GT(read_count, 500);
}

TEST(AddJobDetails, NodesWithoutDetailsAreAnError) {
  JobFacts job = {.job_id = "17"};
  EXPECT_THAT(AddJobDetails(Record("x"), "n[1-3]", job).message(), HasSubstr("n3"));
}

TEST(AddJobDetails, AnotherJobOrAMissingFactIsAnError) {
  JobFacts job = {.job_id = "1"};
  EXPECT_THAT(AddJobDetails(Record("x"), "n1", job).message(), HasSubstr("job 1"));
  job.job_id = "17";
  for (const char* const start : {"JobId=", "Requeue=", "RunTime=", "SubmitTime="}) {
    const std::string without = absl::StrReplaceAll(Record("x"), {{start, "-"}});
    EXPECT_THAT(AddJobDetails(without, "n1", job).message(), HasSubstr(start));
  }
}

TEST(OnlyLine, IsTheOneThatBeginsSo) {
  ASSERT_OK_AND_ASSIGN(const absl::string_view line, OnlyLine(kScontrol, "Requeue="));
  EXPECT_EQ(FieldOf(line, "ExitCode"), "0:0");
  EXPECT_FALSE(OnlyLine(kScontrol, "ExitCode=").ok());
  EXPECT_FALSE(OnlyLine(absl::StrCat(kScontrol, kScontrol), "Requeue=").ok());
}

}  // namespace
}  // namespace parplan::slurm
