#include "executor/device/ranks/rank_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

absl::StatusOr<std::optional<RankEnvironment>> Read(const Variables& variables) {
  return RankEnvironment::FromVariables([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string ErrorOf(const Variables& variables) {
  return std::string(Read(variables).status().message());
}

const Variables kOurs = {{"PARPLAN_RANK", "1"},
                         {"PARPLAN_WORLD_SIZE", "4"},
                         {"PARPLAN_LOCAL_RANK", "1"},
                         {"PARPLAN_RENDEZVOUS", "127.0.0.1:4000"},
                         {"PARPLAN_TOKEN", "secret"}};
const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "n1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "j7"},
                             {"PARPLAN_TOKEN", "secret"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"},
                            {"PMIX_NAMESPACE", "jobspace"}};
const Variables kSlurm = {{"SLURM_PROCID", "0"},         {"SLURM_NTASKS", "2"},
                          {"SLURM_LOCALID", "0"},        {"SLURM_STEP_NODELIST", "n[07-08]"},
                          {"SLURM_STEP_NUM_NODES", "2"}, {"SLURMD_NODENAME", "n07"},
                          {"SLURM_JOB_ID", "99"},        {"SLURM_STEP_ID", "3"},
                          {"PARPLAN_TOKEN", "secret"}};

Variables With(Variables variables, const Variables& others) {
  for (const auto& [name, value] : others) variables[name] = value;
  return variables;
}

Variables Without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

TEST(RankEnvironment, IsNothingWhereNobodyLaunched) {
  const auto found = Read({{"HOME", "/root"}, {"PARPLAN_TOKEN", "secret"}});
  ASSERT_OK(found.status());
  EXPECT_FALSE(found->has_value());
}

TEST(RankEnvironment, ReadsOurs) {
  const auto found = Read(kOurs);
  ASSERT_OK(found.status());
  EXPECT_EQ((*found)->launcher, Launcher::kParplan);
  EXPECT_EQ((*found)->rank, 1);
  EXPECT_EQ((*found)->world_size, 4);
  EXPECT_FALSE((*found)->serves_rendezvous());
  EXPECT_EQ((*found)->ToFabricOptions().rendezvous, "127.0.0.1:4000");
  EXPECT_EQ((*found)->ToFabricOptions().token, "secret");
}

TEST(RankEnvironment, ReadsTorchrunAndLeavesItsPortToIt) {
  const auto found = Read(kTorchrun);
  ASSERT_OK(found.status());
  EXPECT_EQ((*found)->launcher, Launcher::kTorchrun);
  EXPECT_EQ((*found)->rank, 5);
  EXPECT_EQ((*found)->rendezvous, "n1:29501");
  EXPECT_EQ((*found)->token, "secret");
  EXPECT_NE((*found)->host, "127.0.0.1");
}

TEST(RankEnvironment, PortAndTokenCanBeGiven) {
  const auto found = Read(With(kTorchrun, {{"PARPLAN_PORT", "31000"}, {"PARPLAN_TOKEN", "own"}}));
  ASSERT_OK(found.status());
  EXPECT_EQ((*found)->rendezvous, "n1:31000");
  EXPECT_EQ((*found)->token, "own");
}

TEST(RankEnvironment, ReadsOpenMpi) {
  const auto found = Read(kOpenMpi);
  ASSERT_OK(found.status());
  EXPECT_EQ((*found)->launcher, Launcher::kOpenMpi);
  EXPECT_EQ((*found)->rank, 5);
  EXPECT_THAT((*found)->rendezvous, HasSubstr("127.0.0.1:2"));
  EXPECT_THAT(ErrorOf(With(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}})),
              HasSubstr("MASTER_ADDR"));
}

TEST(RankEnvironment, ReadsSlurmAndRankZeroServes) {
  const auto found = Read(kSlurm);
  ASSERT_OK(found.status());
  EXPECT_EQ((*found)->launcher, Launcher::kSlurm);
  EXPECT_THAT((*found)->rendezvous, HasSubstr("n07:"));
  EXPECT_EQ((*found)->host, "n07");
  EXPECT_EQ((*found)->token, "secret");
  EXPECT_TRUE((*found)->serves_rendezvous());
  EXPECT_THAT((*found)->ToFabricOptions().rendezvous, HasSubstr("127.0.0.1:"));
  // All steps of a job meet elsewhere.
  const auto other = Read(With(kSlurm, {{"SLURM_STEP_ID", "4"}}));
  EXPECT_NE((*found)->rendezvous, (*other)->rendezvous);
}

TEST(RankEnvironment, RanksOnSeveralNodesNeedASecret) {
  for (const Variables& several :
       {kTorchrun, kSlurm,
        With(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"MASTER_ADDR", "n1"}})}) {
    EXPECT_THAT(ErrorOf(Without(several, "PARPLAN_TOKEN")),
                AllOf(HasSubstr("PARPLAN_TOKEN"), HasSubstr("several nodes")));
    EXPECT_OK(Read(With(several, {{"PARPLAN_TOKEN", "secret"}})).status());
  }
}

TEST(RankEnvironment, RanksOnOneNodeMeetWhereNobodyElseReaches) {
  const auto torchrun =
      Read(Without(With(kTorchrun, {{"LOCAL_WORLD_SIZE", "8"}}), "PARPLAN_TOKEN"));
  ASSERT_OK(torchrun.status());
  EXPECT_EQ((*torchrun)->token, "");
  EXPECT_THAT((*torchrun)->job, HasSubstr("j7"));
  EXPECT_EQ((*torchrun)->host, "127.0.0.1");
  EXPECT_EQ((*torchrun)->rendezvous, "127.0.0.1:29501");
  const auto slurm = Read(Without(With(kSlurm, {{"SLURM_STEP_NUM_NODES", "1"}}), "PARPLAN_TOKEN"));
  ASSERT_OK(slurm.status());
  EXPECT_EQ((*slurm)->token, "");
  EXPECT_EQ((*slurm)->job, "slurm 99.3");
  EXPECT_EQ((*slurm)->host, "127.0.0.1");
  EXPECT_THAT((*slurm)->rendezvous, HasSubstr("127.0.0.1:"));
}

TEST(RankEnvironment, LinksBetweenNodesHaveTlsUnlessTheUserSaysNo) {
  for (const Variables& each : {kOurs, kTorchrun, kOpenMpi, kSlurm}) {
    const auto tls_links = [&each](const Variables& others) {
      const auto found = Read(With(each, others));
      EXPECT_OK(found.status());
      return (*found)->ToFabricOptions().tls_links;
    };
    EXPECT_EQ(tls_links({}), TlsLinks::kBetweenNodes);
    EXPECT_EQ(tls_links({{"PARPLAN_TLS_LINKS", "between-nodes"}}), TlsLinks::kBetweenNodes);
    EXPECT_EQ(tls_links({{"PARPLAN_TLS_LINKS", "all"}}), TlsLinks::kAll);
    EXPECT_EQ(tls_links({{"PARPLAN_TLS_LINKS", "none"}}), TlsLinks::kNone);
    for (const char* const wrong : {"", "no", "None", "0"}) {
      EXPECT_THAT(ErrorOf(With(each, {{"PARPLAN_TLS_LINKS", wrong}})),
                  AllOf(HasSubstr("PARPLAN_TLS_LINKS"), HasSubstr("between-nodes, all or none")));
    }
  }
}

TEST(RankEnvironment, TheInnerLauncherCounts) {
  EXPECT_EQ((*Read(With(kSlurm, kOurs)))->launcher, Launcher::kParplan);
  EXPECT_EQ((*Read(With(kSlurm, kTorchrun)))->launcher, Launcher::kTorchrun);
  EXPECT_EQ((*Read(With(kSlurm, kOpenMpi)))->launcher, Launcher::kOpenMpi);
}

// The plan's launch numbers ranks as torchrun does; a torchrun inside it counts before it, and
// so do ranks that parplan-exec launches there.
TEST(RankEnvironment, ReadsThoseOfAPlan) {
  Variables planned = With(Without(kTorchrun, "TORCHELASTIC_RUN_ID"),
                           {{"PARPLAN_PLAN", "/run/parplan/7/plan.dsse.json"},
                            {"PARPLAN_RANK", "5"},
                            {"PARPLAN_WORLD_SIZE", "8"},
                            {"PARPLAN_LOCAL_RANK", "1"}});
  ASSERT_OK_AND_ASSIGN(std::optional<RankEnvironment> found, Read(With(kSlurm, planned)));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->launcher, Launcher::kPlan);
  EXPECT_EQ(found->rank, 5);
  EXPECT_EQ(found->world_size, 8);
  EXPECT_EQ(found->rendezvous, "n1:29501");

  ASSERT_OK_AND_ASSIGN(found, Read(With(planned, {{"TORCHELASTIC_RUN_ID", "j7"}, {"RANK", "6"}})));
  EXPECT_EQ(found->launcher, Launcher::kTorchrun);
  EXPECT_EQ(found->rank, 6);

  ASSERT_OK_AND_ASSIGN(found, Read(With(planned, kOurs)));
  EXPECT_EQ(found->launcher, Launcher::kParplan);
  EXPECT_EQ(found->rank, 1);

  // The variables of a node alone say nothing of ranks.
  ASSERT_OK_AND_ASSIGN(found, Read(With(kSlurm, {{"PARPLAN_PLAN", "p"}})));
  EXPECT_EQ(found->launcher, Launcher::kSlurm);
}

TEST(RankEnvironment, HalvesAreRefusedByName) {
  for (const Variables& whole : {kOurs, kTorchrun, kSlurm}) {
    for (const auto& [name, value] : whole) {
      const auto found = Read(Without(whole, name));
      if (found.ok()) continue;
      EXPECT_THAT(std::string(found.status().message()), HasSubstr(name));
    }
  }
  EXPECT_THAT(ErrorOf(Without(kOurs, "PARPLAN_TOKEN")), HasSubstr("PARPLAN_TOKEN"));
  EXPECT_THAT(ErrorOf(Without(kTorchrun, "MASTER_PORT")), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(ErrorOf(Without(kTorchrun, "RANK")), HasSubstr("RANK"));
  EXPECT_THAT(ErrorOf(Without(kSlurm, "SLURM_STEP_NODELIST")),
              AllOf(HasSubstr("SLURM_STEP_NODELIST"), HasSubstr("srun")));
  EXPECT_THAT(ErrorOf(Without(kOpenMpi, "OMPI_COMM_WORLD_SIZE")),
              HasSubstr("OMPI_COMM_WORLD_SIZE"));
}

TEST(RankEnvironment, ContradictionsAreRefusedByName) {
  EXPECT_THAT(ErrorOf(With(kOurs, {{"PARPLAN_RANK", "4"}})),
              AllOf(HasSubstr("PARPLAN_RANK"), HasSubstr("0 to 3")));
  EXPECT_THAT(ErrorOf(With(kTorchrun, {{"WORLD_SIZE", "many"}})),
              AllOf(HasSubstr("WORLD_SIZE"), HasSubstr("many")));
  EXPECT_THAT(ErrorOf(With(With(kOpenMpi, kTorchrun), {{"RANK", "6"}})),
              AllOf(HasSubstr("RANK"), HasSubstr("OMPI_COMM_WORLD_RANK")));
  EXPECT_THAT(ErrorOf(With(With(kOpenMpi, kTorchrun), {{"WORLD_SIZE", "9"}})),
              AllOf(HasSubstr("WORLD_SIZE"), HasSubstr("OMPI_COMM_WORLD_SIZE")));
  EXPECT_OK(Read(With(kOpenMpi, kTorchrun)).status());
}

TEST(FirstHostOfSlurm, ReadsRangesAndLists) {
  const auto first = [](const std::string& list) { return *FirstHostOfSlurm(list); };
  EXPECT_EQ(first("node1"), "node1");
  EXPECT_EQ(first("node1,node2"), "node1");
  EXPECT_EQ(first("node[003-010,12],login1"), "node003");
  EXPECT_EQ(first("node[12,14]"), "node12");
  EXPECT_EQ(first("rack[2-3]-node[07-08]-ib"), "rack2-node07-ib");
  EXPECT_EQ(first("[7-9]"), "7");
  for (const char* const none : {"", ",a", "node[", "node[]", "[-3]"}) {
    EXPECT_THAT(FirstHostOfSlurm(none).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("; give a list such as")))
        << none;
  }
}

}  // namespace
}  // namespace parplan
