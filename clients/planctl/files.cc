#include "clients/planctl/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "clients/files/input_files.h"
#include "clients/planctl/file_kind.h"
#include "proto/wire/calibration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/profile_wire.h"

namespace parplan::planctl {
namespace {

// Returns SPEC_INVALID where the caller named a path that cannot be written, else INTERNAL.
absl::Status WriteError(const std::string& path, const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kOk:
      return error;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInvalidArgument:
      return MakeError(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid, error.message(),
                       {{"field", path}, {"rule", std::string(error.message())}});
    default:
      return absl::InternalError(error.message());
  }
}

// Writes to a terminal, a pipe or a device.
absl::Status WriteInto(const std::string& path, absl::string_view content) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const int error = file.is_open() ? WriteAll(file.get(), content) : errno;
  return error == 0 ? absl::OkStatus() : WriteError(path, ErrnoToStatus(error, "write", path));
}

template <typename Message>
absl::StatusOr<Message> ReadMessage(const std::string& path, FileKind kind) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Message message;
  const absl::Status parsed = ParseJson(text, path, &message);
  if (!parsed.ok()) return NameKind(parsed, text, path, kind);
  return message;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  if (path != "-") return ReadInputFile(path);
  const absl::StatusOr<std::string> text =
      parplan::ReadFile(path, {.max_bytes = kMaxInputFileBytes, .takes_standard_input = true});
  return text.ok() ? text : FieldError(Reason::kSpecInvalid, path, text.status().message());
}

absl::Status WriteFile(const std::string& path, absl::string_view content) {
  if (path == "-") {
    const int error = std::fflush(stdout) == 0 ? WriteAll(STDOUT_FILENO, content) : errno;
    if (error == 0) return absl::OkStatus();
    return WriteError("standard output", ErrnoToStatus(error, "write", "standard output"));
  }
  struct stat before = {};
  if (stat(path.c_str(), &before) == 0 && !S_ISREG(before.st_mode)) {
    return WriteInto(path, content);
  }
  std::error_code no_link;
  const std::string target = std::filesystem::canonical(path, no_link).string();
  const std::string& place = no_link ? path : target;
  // Two commands may write one file at a time; the last one stays.
  return WriteError(path, AtomicWrite(place, content,
                                      {.mode = 0644,
                                       .syncs_file = true,
                                       .staged_suffix = absl::StrCat(".", getpid(), ".new")}));
}

absl::StatusOr<v1::ModelSpec> ReadModel(const std::string& path) {
  return ReadMessage<v1::ModelSpec>(path, FileKind::kModel);
}

absl::StatusOr<v1::ClusterTopology> ReadCluster(const std::string& path) {
  return ReadMessage<v1::ClusterTopology>(path, FileKind::kCluster);
}

absl::StatusOr<v1::MoneyQuestion> ReadMoney(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  v1::MoneyQuestion question;
  PARPLAN_RETURN_IF_ERROR(ParseJson(text, path, &question));
  return question;
}

absl::StatusOr<v1::Profile> ReadProfile(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(v1::Profile profile, ReadMessage<v1::Profile>(path, FileKind::kProfile));
  PARPLAN_RETURN_IF_ERROR(ValidateProfile(profile, path));
  return profile;
}

absl::StatusOr<v1::Calibration> ReadCalibration(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(v1::Calibration calibration,
                           ReadMessage<v1::Calibration>(path, FileKind::kCalibration));
  PARPLAN_RETURN_IF_ERROR(CalibrationFromProto(calibration, path).status());
  return calibration;
}

}  // namespace parplan::planctl
