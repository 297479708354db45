#include "clients/cpp/bearer_token.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/plan_client.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

// A server that knows no method and remembers with which token each was called.
class TokenListener : public grpc::CallbackGenericService {
 public:
  explicit TokenListener(const std::string& address) {
    // A setting of the process, which servers of other tests turn on. The service knows no names of
    // this server, and the channel would take it for unhealthy.
    grpc::EnableDefaultHealthCheckService(false);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~TokenListener() override { server_->Shutdown(); }
  TokenListener(const TokenListener&) = delete;
  TokenListener& operator=(const TokenListener&) = delete;

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    // The channel itself asks for the health of the server.
    if (absl::StrContains(context->method(), "PlanService")) {
      const auto found = context->client_metadata().find("authorization");
      const std::lock_guard<std::mutex> lock(mutex_);
      tokens_.emplace_back(found == context->client_metadata().end()
                               ? "none"
                               : std::string(found->second.data(), found->second.size()));
    }
    return new Refusal();
  }

  std::vector<std::string> tokens() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return tokens_;
  }

 private:
  class Refusal : public grpc::ServerGenericBidiReactor {
   public:
    Refusal() { Finish({grpc::StatusCode::UNIMPLEMENTED, "no such method"}); }
    void OnDone() override { delete this; }
  };

  std::mutex mutex_;
  std::vector<std::string> tokens_;  // Guarded by mutex_.
  std::unique_ptr<grpc::Server> server_;
};

class BearerTokenTest : public testing::Test {
 protected:
  // Replaces the file, as the kubelet does.
  void WriteToken(const std::string& text) {
    const std::string next = absl::StrCat(file_, ".next");
    std::ofstream(next, std::ios::binary) << text;
    ASSERT_EQ(std::rename(next.c_str(), file_.c_str()), 0);
  }

  const std::string folder_ = MakeTestFolder();
  const std::string file_ = absl::StrCat(folder_, "/token");
};

TEST_F(BearerTokenTest, IsOneWordOfTheFile) {
  WriteToken("\n  abc.DEF-_.123 \r\n");
  EXPECT_THAT(ReadBearerToken(file_), IsOkAndHolds("abc.DEF-_.123"));
  for (const std::string& text :
       {std::string(), std::string(" \n"), std::string("two words"), std::string("a\nb"),
        std::string("a\0b", 3), std::string("\xc3\xa4"), std::string((16 << 10) + 1, 'a')}) {
    WriteToken(text);
    EXPECT_THAT(ReadBearerToken(file_),
                IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  }
  EXPECT_THAT(ReadBearerToken(folder_ + "/none").status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("token_file")));
}

TEST_F(BearerTokenTest, EachCallSendsTheTokenThatTheFileHasThen) {
  ChannelOptions options;
  options.target = absl::StrCat("unix:", folder_, "/socket");
  TokenListener listener(options.target);
  WriteToken("first");
  options.token_file = file_;
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<grpc::Channel> channel, MakeChannel(options));
  PlanClient client(channel);
  EXPECT_THAT(client.GetCapabilities(), StatusIs(StatusCode::kUnimplemented));
  WriteToken("second\n");
  EXPECT_THAT(client.GetCapabilities(), StatusIs(StatusCode::kUnimplemented));
  WriteToken("no token");
  EXPECT_THAT(client.GetCapabilities({.timeout = absl::Seconds(20)}).status(),
              StatusIs(StatusCode::kUnavailable, HasSubstr(file_)));
  EXPECT_THAT(listener.tokens(), ElementsAre("Bearer first", "Bearer second"));
  options.token_file.clear();
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<grpc::Channel> plain, MakeChannel(options));
  EXPECT_THAT(PlanClient(plain).GetCapabilities(), StatusIs(StatusCode::kUnimplemented));
  EXPECT_EQ(listener.tokens().back(), "none");
}

TEST_F(BearerTokenTest, IsNotSentWhereOthersCouldReadIt) {
  WriteToken("token");
  ChannelOptions options;
  options.token_file = file_;
  for (const char* const target : {"127.0.0.1:9477", "dns:///planner:9477", "ipv4:127.0.0.1:1"}) {
    options.target = target;
    EXPECT_THAT(MakeChannel(options).status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("TLS or a Unix socket")));
  }
  options.use_tls = true;
  EXPECT_OK(MakeChannel(options));
  options.token_file = folder_ + "/none";
  EXPECT_THAT(MakeChannel(options), IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
}

}  // namespace
}  // namespace parplan
