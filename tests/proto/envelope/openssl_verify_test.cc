// `openssl` and `jq` alone, without a line of ours but a shell script, come to the
// same answer as PlanVerifier about who signed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "proto/envelope/base64.h"
#include "proto/envelope/envelope_json.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/shared_data.h"

namespace parplan {
namespace {

class OpensslVerify : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* tool : {"bash", "jq", "openssl"}) {
      const std::string command = std::string("command -v ") + tool + " >/dev/null 2>&1";
      if (std::system(command.c_str()) != 0) GTEST_SKIP() << tool << " is not installed";
    }
    std::string name = testing::TempDir() + "/openssl-verify-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // The exit status of the script over an envelope and a bundle.
  int Run(const std::string& envelope, const TrustBundle& bundle) {
    std::ofstream(folder_ + "/envelope.json") << envelope;
    std::ofstream(folder_ + "/trust.jwks.json") << bundle.ToJson();
    const std::string command = "bash '" + SourceDir() + "/tests/integration/openssl_verify.sh' '" +
                                folder_ + "/envelope.json' '" + folder_ + "/trust.jwks.json' > '" +
                                folder_ + "/out' 2>&1";
    const int status = std::system(command.c_str());
    std::ifstream out(folder_ + "/out");
    output_.assign(std::istreambuf_iterator<char>(out), {});
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  const PrivateKey trusted_ = FirstKey();
  const PrivateKey other_ = SecondKey();
  std::string folder_;
  std::string output_;
};

TEST_F(OpensslVerify, AcceptsWhatTheSignerWrites) {
  EXPECT_EQ(Run(EnvelopeToJson(Sign(MakePayload(), {&trusted_})), Trusting({&trusted_})), 0)
      << output_;
  EXPECT_THAT(output_, testing::HasSubstr(trusted_.public_key().key_id()));
}

TEST_F(OpensslVerify, AcceptsOneTrustedSignatureOfTwoAndAnyHint) {
  v1::SignedPlan plan = Sign(MakePayload(), {&other_, &trusted_});
  plan.mutable_signatures(1)->clear_key_id();
  EXPECT_EQ(Run(EnvelopeToJson(plan), Trusting({&trusted_})), 0) << output_;
}

TEST_F(OpensslVerify, RefusesAnAlteredPayloadAndAnotherKey) {
  v1::SignedPlan plan = Sign(MakePayload(), {&trusted_});
  EXPECT_EQ(Run(EnvelopeToJson(plan), Trusting({&other_})), 1) << output_;
  plan.mutable_payload()->back() ^= 1;
  EXPECT_EQ(Run(EnvelopeToJson(plan), Trusting({&trusted_})), 1) << output_;
}

TEST_F(OpensslVerify, RefusesAnAlteredType) {
  v1::SignedPlan plan = Sign(MakePayload(), {&trusted_});
  plan.set_payload_type("application/vnd.parplan.plan.v2+protobuf");
  EXPECT_EQ(Run(EnvelopeToJson(plan), Trusting({&trusted_})), 1) << output_;
}

TEST_F(OpensslVerify, SaysWhenItsFilesAreNotThere) {
  std::filesystem::create_directory(folder_ + "/empty");
  const std::string command = "bash '" + SourceDir() + "/tests/integration/openssl_verify.sh' '" +
                              folder_ + "/none' '" + folder_ + "/none' 2>/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2);
}

}  // namespace
}  // namespace parplan
