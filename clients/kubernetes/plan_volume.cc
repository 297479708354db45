#include "clients/kubernetes/plan_volume.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"

namespace parplan::sidecar {
namespace {

namespace fs = std::filesystem;

constexpr char kCurrent[] = ".current";
constexpr char kGenerations[] = ".generations";
constexpr char kGenerationFile[] = "generation";

// Returns OK, or `error` with the code and the reason of this class.
absl::Status Unavailable(const absl::Status& error) {
  if (error.ok()) return error;
  return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable, error.message());
}

bool IsPlainName(absl::string_view name) {
  if (name.empty() || name[0] == '.') return false;
  for (const char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') {
      return false;
    }
  }
  return true;
}

// Returns the part of a name that readers look up in the folder of the volume.
std::string FirstPart(absl::string_view name) {
  return std::string(name.substr(0, name.find('/')));
}

bool IsFileName(absl::string_view name) {
  const size_t slash = name.find('/');
  if (slash == absl::string_view::npos) return IsPlainName(name);
  return IsPlainName(name.substr(0, slash)) && IsPlainName(name.substr(slash + 1));
}

// Makes `link` lead to `target`, in one step whether it was there or not.
absl::Status Lead(const std::string& link, const std::string& target) {
  const std::string staged = link + ".new";
  ::unlink(staged.c_str());
  if (::symlink(target.c_str(), staged.c_str()) != 0) return ErrnoToStatus(errno, "make", staged);
  if (std::rename(staged.c_str(), link.c_str()) != 0) return ErrnoToStatus(errno, "make", link);
  return absl::OkStatus();
}

// The number of the generation that a link leads to, 0 where there is none.
int64_t GenerationOf(const std::string& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  int64_t number = 0;
  if (error || !absl::SimpleAtoi(target.filename().string(), &number)) return 0;
  return number;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlanVolume>> PlanVolume::Open(const std::string& folder) {
  const auto refuse = [&folder](const std::string& why) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable,
                     absl::StrCat("cannot keep plans in ", folder, ": ", why,
                                  "; mount a volume there that this user may write to"));
  };
  std::error_code error;
  fs::create_directories(absl::StrCat(folder, "/", kGenerations), error);
  if (error) return refuse(error.message());
  if (::access(folder.c_str(), R_OK | W_OK | X_OK) != 0) return refuse(ErrnoText(errno));
  std::unique_ptr<PlanVolume> volume(
      new PlanVolume(folder, GenerationOf(absl::StrCat(folder, "/", kCurrent))));
  volume->RemoveOld();
  return volume;
}

std::string PlanVolume::PathOf(const std::string& name) const {
  return absl::StrCat(folder_, "/", name);
}

std::string PlanVolume::FolderOf(int64_t generation) const {
  return absl::StrCat(folder_, "/", kGenerations, "/", generation);
}

absl::Status PlanVolume::Write(const std::vector<VolumeFile>& files) {
  const int64_t next = generation_ + 1;
  const std::string made = FolderOf(next);
  std::error_code error;
  fs::remove_all(made, error);
  if (!fs::create_directory(made, error)) {
    return Unavailable(ErrnoToStatus(error.value(), "make", made));
  }
  fs::permissions(made, static_cast<fs::perms>(0755), error);
  std::set<std::string> folders;
  std::vector<VolumeFile> all = files;
  all.push_back({kGenerationFile, absl::StrCat(next, "\n")});
  for (const VolumeFile& file : all) {
    PARPLAN_CHECK(IsFileName(file.name));
    if (const std::string first = FirstPart(file.name);
        first != file.name && folders.insert(first).second) {
      const std::string folder = absl::StrCat(made, "/", first);
      if (!fs::create_directory(folder, error)) {
        return Unavailable(ErrnoToStatus(error.value(), "make", folder));
      }
      fs::permissions(folder, static_cast<fs::perms>(0755), error);
    }
    // Every container of the pod may read the file; none but the owner may write it.
    PARPLAN_RETURN_IF_ERROR(Unavailable(AtomicWrite(
        absl::StrCat(made, "/", file.name), file.content, {.mode = 0644, .syncs_file = true})));
  }
  for (const std::string& folder : folders) {
    PARPLAN_RETURN_IF_ERROR(Unavailable(SyncFolder(absl::StrCat(made, "/", folder))));
  }
  PARPLAN_RETURN_IF_ERROR(Unavailable(SyncFolder(made)));
  // They lead nowhere until the next step, which shows all files at once.
  for (const VolumeFile& file : all) {
    const std::string name = FirstPart(file.name);
    const std::string target = absl::StrCat(kCurrent, "/", name);
    if (fs::read_symlink(PathOf(name), error) != target) {
      PARPLAN_RETURN_IF_ERROR(Unavailable(Lead(PathOf(name), target)));
    }
  }
  PARPLAN_RETURN_IF_ERROR(
      Unavailable(Lead(PathOf(kCurrent), absl::StrCat(kGenerations, "/", next))));
  generation_ = next;
  RemoveOld();
  return Unavailable(SyncFolder(folder_));
}

void PlanVolume::RemoveOld() const {
  std::error_code error;
  const std::string generations = absl::StrCat(folder_, "/", kGenerations);
  std::vector<fs::path> old;
  for (fs::directory_iterator entry(generations, error), end; !error && entry != end;
       entry.increment(error)) {
    int64_t number = 0;
    const bool is_number = absl::SimpleAtoi(entry->path().filename().string(), &number);
    if (!is_number || number > generation_ || number + 1 < generation_) {
      old.push_back(entry->path());
    }
  }
  for (const fs::path& path : old) fs::remove_all(path, error);
  // Names of files that the current generation has no more.
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code other;
    const bool is_link = entry->is_symlink(other);
    if (is_link && !fs::exists(entry->path(), other)) fs::remove(entry->path(), other);
  }
}

absl::StatusOr<std::string> PlanVolume::Read(const std::string& name) const {
  std::ifstream file(PathOf(name), std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(PathOf(name), ": is not there"));
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

}  // namespace parplan::sidecar
