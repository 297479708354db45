#include "clients/cpp/bearer_token.h"

#include <grpcpp/support/status.h>
#include <grpcpp/support/string_ref.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/system/posix_file.h"

namespace parplan {
namespace {

// Tokens of Kubernetes have some 1,000 characters; metadata of a call must have less than 64 KiB.
constexpr size_t kMaxTokenBytes = size_t{16} << 10;

class BearerToken : public grpc::MetadataCredentialsPlugin {
 public:
  explicit BearerToken(std::string path) : path_(std::move(path)) {}

  // A thread of gRPC's pool reads the file.
  bool IsBlocking() const override { return true; }

  grpc::Status GetMetadata(grpc::string_ref /*service_url*/, grpc::string_ref /*method_name*/,
                           const grpc::AuthContext& /*channel_auth_context*/,
                           std::multimap<grpc::string, grpc::string>* metadata) override {
    const absl::StatusOr<std::string> token = ReadBearerToken(path_);
    if (!token.ok()) {
      return {grpc::StatusCode::UNAVAILABLE, std::string(token.status().message())};
    }
    metadata->emplace("authorization", absl::StrCat("Bearer ", *token));
    return grpc::Status::OK;
  }

  grpc::string DebugString() override { return absl::StrCat("token in ", path_); }

 private:
  const std::string path_;
};

}  // namespace

absl::StatusOr<std::string> ReadBearerToken(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, {.max_bytes = kMaxTokenBytes});
  if (!text.ok()) {
    return FieldError(Reason::kSpecInvalid, "token_file", text.status().message());
  }
  const absl::string_view token = absl::StripAsciiWhitespace(*text);
  if (token.empty() || !std::all_of(token.begin(), token.end(), [](char c) {
        return absl::ascii_isgraph(static_cast<unsigned char>(c));
      })) {
    return FieldError(Reason::kSpecInvalid, "token_file",
                      absl::StrCat("`", path, "` holds no token, which is one word of ASCII"));
  }
  return std::string(token);
}

std::shared_ptr<grpc::CallCredentials> BearerTokenCredentials(const std::string& path) {
  return grpc::MetadataCredentialsFromPlugin(std::make_unique<BearerToken>(path));
}

}  // namespace parplan
