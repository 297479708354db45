#include "clients/slurm/slurm_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/status_matchers.h"

namespace parplan::slurm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kLeast[] = R"({"cluster": "lab", "server": "p:9477",
  "devices": {"gpu:h200": {"device_kind": "NVIDIA H200", "device_memory_bytes": "150000000000"}}})";

std::string With(const std::string& members) {
  std::string text = kLeast;
  return text.insert(1, members + ", ");
}

TEST(SlurmConfig, HasDefaults) {
  ASSERT_OK_AND_ASSIGN(const SlurmConfig config, SlurmConfig::FromJson(kLeast, "c.json"));
  EXPECT_EQ(config.deadline, absl::Seconds(20));
  EXPECT_EQ(config.when_away, Policy::kLaunch);
  EXPECT_EQ(config.when_refused, Policy::kCancel);
  EXPECT_EQ(config.devices.at("gpu:h200").device_memory_bytes, 150000000000);
}

TEST(SlurmConfig, ReadsPoliciesAndTimes) {
  ASSERT_OK_AND_ASSIGN(
      const SlurmConfig config,
      SlurmConfig::FromJson(With(R"("when_away": "requeue", "when_refused": "launch",
                                    "deadline_seconds": 2.5, "search_seconds": 1, "spool_dir": "/a/b")"),
                            "c.json"));
  EXPECT_EQ(config.when_away, Policy::kRequeue);
  EXPECT_EQ(config.when_refused, Policy::kLaunch);
  EXPECT_EQ(config.deadline, absl::Seconds(2.5));
  EXPECT_EQ(config.spool_dir, "/a/b");
}

TEST(SlurmConfig, NamesWhatIsWrong) {
  const auto error = [](const std::string& text) {
    return std::string(SlurmConfig::FromJson(text, "c.json").status().message());
  };
  EXPECT_THAT(error(With(R"("when_awy": "launch")")), HasSubstr("when_away"));
  EXPECT_THAT(error(With(R"("when_away": "cancel")")), HasSubstr("`launch` or `requeue`"));
  EXPECT_THAT(error(With(R"("deadline_seconds": 0)")), HasSubstr("deadline_seconds"));
  EXPECT_THAT(error(With(R"("deadline_seconds": 4, "deadline_seconds": 5)")), HasSubstr("twice"));
  EXPECT_THAT(error(With(R"("node_dir": "run")")), HasSubstr("node_dir"));
  EXPECT_THAT(error(With(R"("log": "run.log")")), HasSubstr("log"));
  for (const char* const field :
       {"tls_ca", "tls_certificate", "tls_key", "token_file", "trust_memory"}) {
    EXPECT_THAT(error(With(absl::StrCat("\"", field, "\": \"relative\""))),
                AllOf(HasSubstr(field), HasSubstr("absolute path")));
  }
  EXPECT_THAT(error(With(R"("slurm_bin_dir": "bin")")), HasSubstr("slurm_bin_dir"));
  EXPECT_THAT(error(With(R"("deadline_seconds": 5, "search_seconds": 5)")),
              AllOf(HasSubstr("search_seconds"), HasSubstr("deadline_seconds")));
  EXPECT_THAT(error(With(R"("first_master_port": 65000)")), HasSubstr("first_master_port"));
  EXPECT_THAT(error(R"({"cluster": "lab", "server": "p"})"), HasSubstr("devices"));
  EXPECT_THAT(error(R"({"cluster": "lab", "devices": {"gpu": {"device_kind": "x"}}})"),
              HasSubstr("device_memory_bytes"));
  EXPECT_THAT(error("[]"), HasSubstr("object"));
}

TEST(SlurmConfig, ATokenNeedsTlsOrAUnixSocket) {
  const std::string token = R"("token_file": "/etc/parplan/token")";
  EXPECT_THAT(SlurmConfig::FromJson(With(token), "c.json").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("token_file"), HasSubstr("give tls_ca"))));
  EXPECT_OK(SlurmConfig::FromJson(With(token + R"(, "tls_ca": "/etc/parplan/ca.pem")"), "c.json")
                .status());
  const std::string socket =
      absl::StrReplaceAll(With(token), {{"p:9477", "unix:/run/parplan/socket"}});
  EXPECT_OK(SlurmConfig::FromJson(socket, "c.json").status());
}

TEST(SlurmConfig, PathsHaveTheNodeInThem) {
  EXPECT_EQ(NodePath("/run/%n/jobs", "n7"), "/run/n7/jobs");
}

// The example that is handed out.
TEST(SlurmConfig, TheExampleIsRead) {
  std::ifstream file(PARPLAN_SLURM_EXAMPLE);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_OK(SlurmConfig::FromJson(text, "parplan-slurm.json").status());
}

}  // namespace
}  // namespace parplan::slurm
