#include "clients/planctl/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "planner/base/error.h"
#include "planner/base/status_macros.h"
#include "proto/wire/json_file.h"
#include "proto/wire/profile_wire.h"

namespace parplan::planctl {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;

absl::Status WriteError(const std::string& path) {
  return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                   absl::StrCat("cannot write ", path, ": ", std::strerror(errno),
                                "; check folder, rights and free space"));
}

template <typename Message>
absl::StatusOr<Message> ReadMessage(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Message message;
  PARPLAN_RETURN_IF_ERROR(ParseJson(text, path, &message));
  return message;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ostringstream content;
  if (path == "-") {
    content << std::cin.rdbuf();
  } else {
    std::ifstream file(path, std::ios::binary);
    if (file) content << file.rdbuf();
    // An empty file sets the fail bit of `content`, not of `file`.
    if (!file.good() && !file.eof()) {
      return FieldError(Reason::kSpecInvalid, path,
                        absl::StrCat("cannot be read: ", std::strerror(errno),
                                     "; check the path and your rights"));
    }
  }
  std::string text = std::move(content).str();
  if (text.size() > kMaxFileBytes) {
    return FieldError(Reason::kSpecInvalid, path, "has more than 64 MiB; split it");
  }
  return text;
}

absl::Status WriteFile(const std::string& path, absl::string_view content) {
  if (path == "-") {
    std::fwrite(content.data(), 1, content.size(), stdout);
    if (std::fflush(stdout) != 0) return WriteError("standard output");
    return absl::OkStatus();
  }
  const std::string staged = absl::StrCat(path, ".", getpid(), ".new");
  const int file = open(staged.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return WriteError(path);
  size_t written = 0;
  while (written < content.size()) {
    const ssize_t count = write(file, content.data() + written, content.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  const bool whole = written == content.size() && fsync(file) == 0;
  if (close(file) != 0 || !whole || rename(staged.c_str(), path.c_str()) != 0) {
    const absl::Status error = WriteError(path);
    unlink(staged.c_str());
    return error;
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ModelSpec> ReadModel(const std::string& path) {
  return ReadMessage<v1::ModelSpec>(path);
}

absl::StatusOr<v1::ClusterTopology> ReadCluster(const std::string& path) {
  return ReadMessage<v1::ClusterTopology>(path);
}

absl::StatusOr<v1::Profile> ReadProfile(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(v1::Profile profile, ReadMessage<v1::Profile>(path));
  PARPLAN_RETURN_IF_ERROR(ValidateProfile(profile, path));
  return profile;
}

}  // namespace parplan::planctl
