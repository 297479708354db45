#include "clients/planctl/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/files/input_files.h"
#include "proto/wire/calibration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/profile_wire.h"

namespace parplan::planctl {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;

// For `errno`.
absl::Status WriteError(const std::string& path) {
  switch (errno) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
    case ENAMETOOLONG:
      return FieldError(Reason::kSpecInvalid, path,
                        absl::StrCat("cannot be written: ", std::strerror(errno),
                                     "; check the folder and your rights"));
    default:
      return absl::InternalError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno),
                                              "; check free space and the disk"));
  }
}

bool WriteAll(int file, absl::string_view content) {
  while (!content.empty()) {
    const ssize_t count = write(file, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    content.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// Writes to what is there and is no file.
absl::Status WriteInto(const std::string& path, absl::string_view content) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return WriteError(path);
  const bool whole = WriteAll(file, content);
  const absl::Status error = whole ? absl::OkStatus() : WriteError(path);
  close(file);
  return error;
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
  std::string text;
  if (path == "-") {
    std::ostringstream content;
    content << std::cin.rdbuf();
    text = std::move(content).str();
  } else {
    PARPLAN_ASSIGN_OR_RETURN(text, ReadInputFile(path));
  }
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
  struct stat before = {};
  if (stat(path.c_str(), &before) == 0 && !S_ISREG(before.st_mode)) {
    return WriteInto(path, content);
  }
  std::error_code no_link;
  const std::string target = std::filesystem::canonical(path, no_link).string();
  const std::string& place = no_link ? path : target;
  const std::string staged = absl::StrCat(place, ".", getpid(), ".new");
  const int file = open(staged.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return WriteError(path);
  absl::Status status;
  if (!WriteAll(file, content) || fsync(file) != 0) status = WriteError(path);
  if (close(file) != 0 && status.ok()) status = WriteError(path);
  if (status.ok() && rename(staged.c_str(), place.c_str()) != 0) status = WriteError(path);
  if (!status.ok()) unlink(staged.c_str());
  return status;
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

absl::StatusOr<v1::Calibration> ReadCalibration(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(v1::Calibration calibration, ReadMessage<v1::Calibration>(path));
  PARPLAN_RETURN_IF_ERROR(CalibrationFromProto(calibration, path).status());
  return calibration;
}

}  // namespace parplan::planctl
