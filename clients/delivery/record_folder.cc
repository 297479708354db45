#include "clients/delivery/record_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/error.h"
#include "base/system/posix_file.h"
#include "proto/wire/digest.h"

namespace parplan {
namespace {

constexpr char kEnding[] = ".record";
constexpr char kStagedEnding[] = ".new";
// First line of each file; the digest follows, then a newline and the content.
constexpr char kHeader[] = "parplan record 1 ";
constexpr size_t kDigestBytes = 64;
// Records are written by this class alone, so a file that has more than any caller writes (a window
// or a profile of at most 64 MiB) was damaged or put there by someone else.
constexpr size_t kMaxRecordBytes = size_t{1} << 30;

// Gives an error of posix_file the code and the reason of this folder's contract.
absl::Status Unavailable(const absl::Status& error) {
  return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable, error.message());
}

bool IsName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFolder>> RecordFolder::Open(const std::string& path) {
  const auto refuse = [&path](const std::string& why) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable,
                     absl::StrCat("cannot keep records in ", path, ": ", why,
                                  "; name a folder that this user may write to"));
  };
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return refuse(error.message());
  std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
  if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0) return refuse(ErrnoText(errno));
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (absl::EndsWith(entry->path().string(), kStagedEnding)) ::unlink(entry->path().c_str());
  }
  if (error) return refuse(error.message());
  return std::unique_ptr<RecordFolder>(new RecordFolder(path));
}

std::string RecordFolder::FileOf(const std::string& name) const {
  PARPLAN_CHECK(IsName(name));
  return absl::StrCat(path_, "/", name, kEnding);
}

absl::Status RecordFolder::SyncFolder() const {
  const absl::Status synced = parplan::SyncFolder(path_);
  return synced.ok() ? synced : Unavailable(synced);
}

absl::Status RecordFolder::Write(const std::string& name, absl::string_view content) {
  const absl::Status written =
      AtomicWrite(FileOf(name), absl::StrCat(kHeader, Sha256Hex(content), "\n", content),
                  {.mode = S_IRUSR | S_IWUSR,
                   .syncs_file = true,
                   .syncs_folder = true,
                   .staged_suffix = kStagedEnding});
  return written.ok() ? written : Unavailable(written);
}

absl::StatusOr<std::string> RecordFolder::Read(const std::string& name) const {
  const std::string path = FileOf(name);
  const absl::StatusOr<std::string> text = ReadFile(path, {.max_bytes = kMaxRecordBytes});
  if (absl::IsNotFound(text.status())) return text.status();
  if (!text.ok()) return Unavailable(text.status());
  absl::string_view content = *text;
  const size_t header_bytes = std::strlen(kHeader) + kDigestBytes + 1;
  if (content.size() >= header_bytes && absl::ConsumePrefix(&content, kHeader) &&
      content[kDigestBytes] == '\n' &&
      content.substr(0, kDigestBytes) == Sha256Hex(content.substr(kDigestBytes + 1))) {
    return text->substr(header_bytes);
  }
  return absl::DataLossError(
      absl::StrCat(path, " is damaged: its content is not what its checksum says"));
}

absl::Status RecordFolder::Remove(const std::string& name) {
  const std::string path = FileOf(name);
  if (::unlink(path.c_str()) != 0) {
    return errno == ENOENT ? absl::OkStatus() : Unavailable(ErrnoToStatus(errno, "remove", path));
  }
  return SyncFolder();
}

absl::Status RecordFolder::SetAside(const std::string& name, const std::string& why) {
  const std::string path = FileOf(name);
  const std::string aside = absl::StrCat(path_, "/", name, ".", why);
  if (std::rename(path.c_str(), aside.c_str()) != 0) {
    return Unavailable(ErrnoToStatus(errno, "rename", path));
  }
  return SyncFolder();
}

absl::StatusOr<std::vector<std::string>> RecordFolder::Names() const {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    absl::string_view name = file;
    if (absl::ConsumeSuffix(&name, kEnding) && IsName(std::string(name))) {
      names.emplace_back(name);
    }
  }
  if (error) return Unavailable(ErrnoToStatus(error.value(), "read", path_));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace parplan
