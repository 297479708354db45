#include "clients/slurm/job_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

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
constexpr char kScontrol[] = R"(JobId=17 JobName=train Nodes=n[1-9] GRES=gpu:h200:800 Restarts=7
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
)";

// Whatever a user writes into the name of the job.
TEST(AddJobDetails, ReadsNodesInTheOrderOfTheList) {
  JobFacts job = {.job_id = "17"};
  ASSERT_OK(AddJobDetails(kScontrol, "n[1-2],m1", job));
  EXPECT_EQ(job.restart_count, 3);
  EXPECT_EQ(job.submit_time, "2026-11-22T01:00:00");
  EXPECT_EQ(job.time_limit, absl::Hours(51) + absl::Seconds(30));
  ASSERT_EQ(job.nodes.size(), 3);
  EXPECT_EQ(job.nodes[0].name, "n1");
  EXPECT_THAT(job.nodes[1].gres, ElementsAre(GresCount{"gpu:h200", 8}));
  EXPECT_EQ(job.nodes[2].name, "m1");
  EXPECT_THAT(job.nodes[2].gres, ElementsAre(GresCount{"gpu:a100", 4}));
}

// A name that makes up the rest of a record, and hides the true one behind another.
TEST(AddJobDetails, RefusesANameThatLooksLikeFacts) {
  JobFacts job = {.job_id = "17"};
  job.job_name =
      "x\n   RunTime=00:00:00 TimeLimit=30-00:00:00\n     Nodes=n1 GRES=gpu:h200:64\nJobId=1";
  const std::string text = "JobId=17 JobName=" + job.job_name + " JobName=x\n   Requeue=1\n" +
                           "     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:h200:1(IDX:0)\n";
  EXPECT_THAT(AddJobDetails(text, "n1", job),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SLURM_JOB_NAME")));
}

// Comments and commands come later.
TEST(AddJobDetails, ReadsNothingBehindTheNodes) {
  JobFacts job = {.job_id = "17"};
  const std::string text = std::string(kScontrol) +
                           "   Command=/x\n   RunTime=00:00:00 TimeLimit=30-00:00:00\n"
                           "   Requeue=1 Restarts=9\n";
  ASSERT_OK(AddJobDetails(text, "n[1-2],m1", job));
  EXPECT_EQ(job.time_limit, absl::Hours(51) + absl::Seconds(30));
  EXPECT_EQ(job.restart_count, 3);
}

TEST(AddJobDetails, NodesWithoutDetailsAreAnError) {
  JobFacts job = {.job_id = "17"};
  EXPECT_THAT(AddJobDetails(kScontrol, "n[1-3]", job).message(), HasSubstr("n3"));
}

// Tasks of one array on one node; the array's own id is that of its last task.
constexpr char kArray[] = R"(JobId=100 ArrayJobId=100 ArrayTaskId=2 JobName=JobId=101
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0
     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:h200:1(IDX:2)

JobId=1011 ArrayJobId=100 ArrayTaskId=1 JobName=train
   Requeue=1 Restarts=5 BatchFlag=1 Reboot=0 ExitCode=0:0
     Nodes=n1 CPU_IDs=1 Mem=0 GRES=gpu:h200:2(IDX:0-1)

JobId=101 ArrayJobId=100 ArrayTaskId=0 JobName=train
   Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=0:9
     Nodes=n1 CPU_IDs=2 Mem=0 GRES=gpu:h200:4(IDX:3-6)
)";

TEST(AddJobDetails, ReadsOfTheJobAlone) {
  for (const auto& [id, restarts, devices] :
       {std::tuple("100", 2, 1), std::tuple("101", 1, 4), std::tuple("1011", 5, 2)}) {
    JobFacts job = {.job_id = id};
    ASSERT_OK(AddJobDetails(kArray, "n1", job)) << id;
    EXPECT_EQ(job.restart_count, restarts) << id;
    EXPECT_THAT(job.nodes[0].gres, ElementsAre(GresCount{"gpu:h200", devices})) << id;
  }
  EXPECT_EQ(RecordOfJob(kArray, "10"), "");
  EXPECT_EQ(FieldOf(RecordOfJob(kArray, "101"), "ExitCode"), "0:9");
}

}  // namespace
}  // namespace parplan::slurm
