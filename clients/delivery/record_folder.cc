#include "clients/delivery/record_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/digest.h"

namespace parplan {
namespace {

constexpr char kEnding[] = ".record";
constexpr char kStagedEnding[] = ".new";
// First line of each file; the digest follows, then a newline and the content.
constexpr char kHeader[] = "parplan record 1 ";
constexpr size_t kDigestBytes = 64;

absl::Status Unavailable(absl::string_view what, const std::string& path, int error) {
  return MakeError(
      absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
      absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error),
                   error == ENOSPC || error == EDQUOT ? "; make room on this disk" : ""));
}

// A descriptor that closes itself.
class File {
 public:
  File(const std::string& path, int flags)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, S_IRUSR | S_IWUSR)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  // 0 or the error.
  int WriteAll(absl::string_view data) const {
    while (!data.empty()) {
      const ssize_t written = ::write(descriptor_, data.data(), data.size());
      if (written < 0 && errno != EINTR) return errno;
      if (written > 0) data.remove_prefix(static_cast<size_t>(written));
    }
    return 0;
  }
  int Sync() const { return ::fsync(descriptor_) == 0 ? 0 : errno; }

 private:
  const int descriptor_;
};

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
  if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0) return refuse(std::strerror(errno));
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
  const File folder(path_, O_RDONLY | O_DIRECTORY);
  const int error = folder.is_open() ? folder.Sync() : errno;
  return error == 0 ? absl::OkStatus() : Unavailable("synchronize", path_, error);
}

absl::Status RecordFolder::Write(const std::string& name, absl::string_view content) {
  const std::string path = FileOf(name);
  const std::string staged = path + kStagedEnding;
  int error = 0;
  {
    const File file(staged, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.is_open()) return Unavailable("write", staged, errno);
    error = file.WriteAll(absl::StrCat(kHeader, Sha256Hex(content), "\n"));
    if (error == 0) error = file.WriteAll(content);
    if (error == 0) error = file.Sync();
  }
  if (error == 0 && std::rename(staged.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(staged.c_str());
    return Unavailable("write", path, error);
  }
  return SyncFolder();
}

absl::StatusOr<std::string> RecordFolder::Read(const std::string& name) const {
  const std::string path = FileOf(name);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (errno == ENOENT) return absl::NotFoundError(absl::StrCat("no record ", path));
    return Unavailable("read", path, errno);
  }
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  absl::string_view content = text;
  const size_t header_bytes = std::strlen(kHeader) + kDigestBytes + 1;
  if (content.size() >= header_bytes && absl::ConsumePrefix(&content, kHeader) &&
      content[kDigestBytes] == '\n' &&
      content.substr(0, kDigestBytes) == Sha256Hex(content.substr(kDigestBytes + 1))) {
    return text.substr(header_bytes);
  }
  return absl::DataLossError(
      absl::StrCat(path, " is damaged: its content is not what its checksum says"));
}

absl::Status RecordFolder::Remove(const std::string& name) {
  const std::string path = FileOf(name);
  if (::unlink(path.c_str()) != 0) {
    return errno == ENOENT ? absl::OkStatus() : Unavailable("remove", path, errno);
  }
  return SyncFolder();
}

absl::Status RecordFolder::SetAside(const std::string& name, const std::string& why) {
  const std::string path = FileOf(name);
  const std::string aside = absl::StrCat(path_, "/", name, ".", why);
  if (std::rename(path.c_str(), aside.c_str()) != 0) return Unavailable("rename", path, errno);
  return SyncFolder();
}

std::vector<std::string> RecordFolder::Names() const {
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
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace parplan
