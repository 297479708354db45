#include "server/main/state_watch.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/system/machine_memory.h"

namespace parplan {
namespace {

// For an answer to the server itself. A busy machine takes milliseconds.
constexpr absl::Duration kProbeTimeout = absl::Seconds(5);

constexpr int kDeafExitCode = 1;

// Growth or decline of the process after which memory is given back: that takes milliseconds.
constexpr int64_t kTrimBytes = int64_t{8} << 20;
// Looks that give memory back after such a change. With one alone, 100 MB that were still in use at
// that look stayed: once they are free, the allocator keeps them, and the process does not change.
constexpr int kTrimLooks = 6;

}  // namespace

void StateWatch::Look() {
  if (Note(core_.CheckSigning(), "cannot sign", "no plan can be made: ", "signing again",
           can_sign_)) {
    server_.SetSigning(can_sign_);
  }
  if (Note(core_.CheckWriting(), "cannot write",
           "what is stored can only be read: ", "writing again", can_write_)) {
    server_.SetWriting(can_write_);
  }
  Note(server_.RefreshTls(), "tls files",
       "the last good ones stay in use: ", "tls files read again", can_read_tls_);
  // The memory that a burst of calls took lies in many parts, which the allocator keeps by itself.
  if (std::abs(ResidentBytes() - resident_bytes_) > kTrimBytes) trims_left_ = kTrimLooks;
  if (trims_left_ > 0) {
    --trims_left_;
    malloc_trim(0);
    resident_bytes_ = ResidentBytes();
  }
}

bool StateWatch::Note(const absl::Status& status, const char* bad_event, const char* meaning,
                      const char* good_event, bool& is_well) {
  if (status.ok() == is_well) return false;
  is_well = status.ok();
  if (is_well) {
    log_.Info(good_event, {{"message", ""}});
  } else {
    log_.Error(bad_event, {{"message", absl::StrCat(meaning, status.message())}});
  }
  return true;
}

std::unique_ptr<HearingWatch> WatchHearing(ServerLog& log, RpcServer& server) {
  return std::make_unique<HearingWatch>(
      [&server] { return server.Probe(kProbeTimeout); }, HearingWatch::Options(),
      [&log, &server](const absl::Status& status) {
        server.SetAnswering(status.ok());
        if (status.ok()) {
          log.Info("answering again", {{"message", ""}});
        } else {
          log.Error("deaf", {{"message", std::string(status.message())}});
        }
      },
      [&log] {
        log.Error("ended", {{"message",
                             "the server answered no call for half a minute; it ends so that its "
                             "supervisor starts it again"}});
        // Threads that hang would hold up an orderly end, and the store survives a crash.
        std::_Exit(kDeafExitCode);
      });
}

}  // namespace parplan
