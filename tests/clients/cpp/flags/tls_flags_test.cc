#include "clients/cpp/flags/tls_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/service/shell/command_line.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class TlsFlagsTest : public testing::Test {
 protected:
  TlsFlagsTest() { AddTlsFlags(line_.root(), "Server", channel_); }

  shell::CommandLine line_{"", "program"};
  ChannelOptions channel_;
};

TEST_F(TlsFlagsTest, LeaveDefaultsAlone) {
  EXPECT_THAT(line_.ParseWords({}), IsEmpty());
  EXPECT_FALSE(channel_.use_tls);
  EXPECT_THAT(channel_.ca_file, IsEmpty());
  EXPECT_EQ(channel_.target, ChannelOptions().target);
}

TEST_F(TlsFlagsTest, SetWhatTheyName) {
  EXPECT_THAT(line_.ParseWords({"--tls", "--tls-ca", "ca.pem", "--tls-certificate", "own.pem",
                                "--tls-key", "own.key", "--tls-server-name", "planner.example.org",
                                "--token-file", "token"}),
              IsEmpty());
  EXPECT_TRUE(channel_.use_tls);
  EXPECT_EQ(channel_.ca_file, "ca.pem");
  EXPECT_EQ(channel_.certificate_file, "own.pem");
  EXPECT_EQ(channel_.key_file, "own.key");
  EXPECT_EQ(channel_.server_name, "planner.example.org");
  EXPECT_EQ(channel_.token_file, "token");
}

TEST_F(TlsFlagsTest, StandInTheirGroupOfTheHelp) {
  EXPECT_THAT(line_.root().help(),
              AllOf(HasSubstr("Server"), HasSubstr("--tls-ca"), HasSubstr("--tls-server-name")));
}

}  // namespace
}  // namespace parplan
