#include "server/audit/audit_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/audit/audit_verifier.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::HasSubstr;

// A clock that counts how often it was asked, which the log does under its lock.
class StandingClock : public Clock {
 public:
  absl::Time Now() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++asked_count_;
    changed_.notify_all();
    return now;
  }
  absl::Duration Steady() const override { return absl::ZeroDuration(); }

  void AwaitAsked(int count) const {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this, count] { return asked_count_ >= count; });
  }

  absl::Time now = absl::FromUnixSeconds(1767225600);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int asked_count_ = 0;
};

// The disk of the system, which can be told to fail, and to keep a flush waiting.
class FakeDisk : public AuditDisk {
 public:
  int Append(int descriptor, absl::string_view text) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (append_error == 0) return AuditDisk::Append(descriptor, text);
    AuditDisk::Append(descriptor, text.substr(0, text.size() / 2));
    return append_error;
  }
  int Flush(int descriptor) override {
    std::unique_lock<std::mutex> lock(mutex_);
    ++flush_count_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !holds_; });
    return flush_error != 0 ? flush_error : AuditDisk::Flush(descriptor);
  }
  int Cut(int descriptor, int64_t size) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return cut_error != 0 ? cut_error : AuditDisk::Cut(descriptor, size);
  }

  void Hold(bool holds) {
    const std::lock_guard<std::mutex> lock(mutex_);
    holds_ = holds;
    changed_.notify_all();
  }
  void AwaitFlush(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this, count] { return flush_count_ >= count; });
  }
  int flush_count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return flush_count_;
  }

  // Values of errno; set while no record is on its way.
  int append_error = 0;
  int flush_error = 0;
  int cut_error = 0;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool holds_ = false;
  int flush_count_ = 0;
};

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<nlohmann::json> LinesOf(const std::string& path) {
  std::vector<nlohmann::json> lines;
  for (const absl::string_view line : absl::StrSplit(TextOf(path), '\n', absl::SkipEmpty())) {
    lines.push_back(nlohmann::json::parse(line.begin(), line.end()));
  }
  return lines;
}

void Append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

AuditRecord Call(const std::string& resource) {
  AuditRecord record;
  record.identity = "dns:a.example";
  record.role = "operator";
  record.method = "DeleteProfile";
  record.resource = resource;
  record.request_id = "r";
  return record;
}

AuditRecord Refusal(const std::string& identity) {
  AuditRecord record;
  record.event = AuditRecord::Event::kRefusal;
  record.identity = identity;
  return record;
}

class AuditFileTest : public testing::Test {
 protected:
  std::unique_ptr<AuditFile> Open(bool is_required = false) {
    absl::StatusOr<std::unique_ptr<AuditFile>> log =
        AuditFile::Open(path, {.is_required = is_required,
                               .on_failure =
                                   [this](const absl::Status& status, int64_t record_count) {
                                     failures.emplace_back(status.message());
                                     failed_count += record_count;
                                   },
                               .clock = &clock,
                               .disk = &disk});
    EXPECT_OK(log.status());
    return log.ok() ? *std::move(log) : nullptr;
  }

  StandingClock clock;
  FakeDisk disk;
  // Messages, not statuses: copies of a status share memory.
  std::vector<std::string> failures;
  int64_t failed_count = 0;
  const std::string path = MakeTestFolder() + "/audit.jsonl";
};

TEST_F(AuditFileTest, ALineSaysWhoDidWhat) {
  const auto log = Open();
  AuditRecord record = Call("clusters/lab");
  record.event = AuditRecord::Event::kSignature;
  record.job_id = "4711";
  record.plan = "clusters/lab/plans/p";
  record.key_ids = {"k1", "k2"};
  ASSERT_OK(log->Write(record));
  ASSERT_OK(log->Write(Refusal("cn:b")));
  log->Flush();
  EXPECT_EQ(LinesOf(path)[0], nlohmann::json::parse(absl::StrCat(R"({
      "sequence": 1, "time": "2026-01-01T00:00:00+00:00", "event": "signature",
      "decision": "allowed", "identity": "dns:a.example", "role": "operator",
      "method": "DeleteProfile", "resource": "clusters/lab", "job_id": "4711",
      "plan": "clusters/lab/plans/p", "key_ids": ["k1", "k2"], "request_id": "r",
      "previous": ")",
                                                                 std::string(64, '0'), R"("})")));
  EXPECT_EQ(LinesOf(path)[1]["event"], "refusal");
  EXPECT_EQ(LinesOf(path)[1]["decision"], "refused");
  EXPECT_EQ(LinesOf(path)[1]["sequence"], 2);
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
}

TEST_F(AuditFileTest, AnythingInANameStaysInItsLine) {
  const auto log = Open();
  ASSERT_OK(log->Write(Call("a\nb\"\\\x1b\x7f\xff\xe2\x80\xae")));
  ASSERT_OK_AND_ASSIGN(const AuditSummary summary, VerifyAuditFile(path));
  EXPECT_EQ(summary.line_count, 1);
  EXPECT_EQ(summary.head, log->head());
}

TEST_F(AuditFileTest, TextsOfAnyLengthGiveLinesThatAreVerified) {
  {
    const std::unique_ptr<AuditFile> file = Open();
    AuditRecord record = Call(std::string(4 << 20, '\x01'));
    record.job_id = std::string(4 << 20, 'j');
    ASSERT_OK(file->Write(record));
  }
  EXPECT_LT(TextOf(path).size(), size_t{1} << 20);
  EXPECT_THAT(LinesOf(path)[0].at("job_id").get<std::string>(), HasSubstr("4194304 bytes"));
  // A server starts with it, and goes on.
  ASSERT_OK(Open()->Write(Call("after")));
  ASSERT_OK_AND_ASSIGN(const AuditSummary summary, VerifyAuditFile(path));
  EXPECT_EQ(summary.line_count, 2);
}

TEST_F(AuditFileTest, GoesOnAfterARestart) {
  for (int i = 0; i < 3; ++i) {
    const auto log = Open();
    ASSERT_OK(log->Write(Call("x")));
    EXPECT_EQ(log->head().sequence, i + 1);
  }
  ASSERT_OK_AND_ASSIGN(const AuditSummary summary, VerifyAuditFile(path));
  EXPECT_EQ(summary.line_count, 3);
  EXPECT_EQ(summary.before, AuditHead());
}

// A crash in the middle of a write leaves the beginning of a line, of any length.
TEST_F(AuditFileTest, HalfALineThatACrashLeftIsCutOff) {
  ASSERT_OK(Open()->Write(Call("first")));
  const std::string first = TextOf(path);
  ASSERT_OK(Open()->Write(Call("second")));
  const std::string both = TextOf(path);
  for (size_t size = first.size(); size < both.size(); size += 7) {
    std::filesystem::resize_file(path, 0);
    Append(path, both.substr(0, size));
    const auto log = Open();
    ASSERT_OK(log->Write(Call("third")));
    EXPECT_EQ(log->head().sequence, 2);
    EXPECT_OK(VerifyAuditFile(path).status());
  }
}

TEST_F(AuditFileTest, AFileThatIsNoLogIsLeftAlone) {
  for (const std::string text : {"a key", "a text\n", "{\"sequence\":\"x\"}\n", "{\"x\":1", "\n"}) {
    std::filesystem::remove(path);
    Append(path, text);
    EXPECT_THAT(AuditFile::Open(path, {}), StatusIs(absl::StatusCode::kFailedPrecondition)) << text;
    EXPECT_EQ(TextOf(path), text);
  }
  EXPECT_THAT(AuditFile::Open(MakeTestFolder(), {}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(AuditFile::Open("/dev/null", {}), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(AuditFileTest, IsForOneServer) {
  const auto log = Open();
  EXPECT_THAT(AuditFile::Open(path, {}), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(AuditFileTest, ARenamedFileIsFollowedByOneThatGoesOn) {
  const auto log = Open();
  ASSERT_OK(log->Write(Call("first")));
  ASSERT_OK(log->Reopen());  // Nothing was renamed.
  ASSERT_OK(log->Write(Call("second")));
  std::filesystem::rename(path, path + ".1");
  ASSERT_OK(log->Reopen());
  ASSERT_OK(log->Write(Call("third")));
  ASSERT_OK_AND_ASSIGN(const AuditSummary older, VerifyAuditFile(path + ".1"));
  ASSERT_OK_AND_ASSIGN(const AuditSummary newer, VerifyAuditFile(path));
  EXPECT_EQ(older.line_count, 2);
  EXPECT_EQ(newer.line_count, 2);
  EXPECT_EQ(newer.before, older.head);
  EXPECT_THAT(TextOf(path), HasSubstr("\"event\":\"continuation\""));
}

// Without a line the new file would begin at number 1, and the chain would look torn.
TEST_F(AuditFileTest, ARenamedFileIsFollowedEvenIfTheServerEndsAtOnce) {
  {
    const auto log = Open();
    ASSERT_OK(log->Write(Call("first")));
    std::filesystem::rename(path, path + ".1");
    ASSERT_OK(log->Reopen());
  }
  {
    const auto log = Open();
    ASSERT_OK(log->Write(Call("second")));
  }
  ASSERT_OK_AND_ASSIGN(const AuditSummary older, VerifyAuditFile(path + ".1"));
  ASSERT_OK_AND_ASSIGN(const AuditSummary newer, VerifyAuditFile(path));
  EXPECT_EQ(newer.before, older.head);
  EXPECT_EQ(newer.head.sequence, 3);
  // An empty log that is renamed is followed by one that begins anew.
  std::filesystem::remove(path);
  const auto log = Open();
  std::filesystem::rename(path, path + ".2");
  ASSERT_OK(log->Reopen());
  EXPECT_EQ(TextOf(path), "");
}

TEST_F(AuditFileTest, ARotationThatFindsNoRoomKeepsTheOldFile) {
  std::signal(SIGXFSZ, SIG_IGN);
  const auto log = Open();
  ASSERT_OK(log->Write(Call("first")));
  std::filesystem::rename(path, path + ".1");
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status refused = log->Reopen();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_OK(log->Write(Call("second")));
  EXPECT_EQ(TextOf(path), "");
  ASSERT_OK(log->Reopen());
  ASSERT_OK(log->Write(Call("third")));
  ASSERT_OK_AND_ASSIGN(const AuditSummary older, VerifyAuditFile(path + ".1"));
  ASSERT_OK_AND_ASSIGN(const AuditSummary newer, VerifyAuditFile(path));
  EXPECT_EQ(older.line_count, 2);
  EXPECT_EQ(newer.before, older.head);
  EXPECT_EQ(newer.line_count, 2);
}

// Files may grow to one byte more than the log has: a disk that is full in the middle of a line.
TEST_F(AuditFileTest, AFullDiskIsAnErrorOnlyIfTheLogIsRequired) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const bool is_required : {true, false}) {
    failures.clear();
    std::filesystem::remove(path);
    const auto log = Open(is_required);
    ASSERT_OK(log->Write(Call("first")));
    const std::string whole = TextOf(path);
    rlimit small = before;
    small.rlim_cur = whole.size() + 1;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const absl::Status refused = log->Write(Call("second"));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(refused.ok(), !is_required);
    if (is_required) {
      EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable));
    }
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_THAT(failures[0], HasSubstr(path));
    // Nothing of the line is left, and the log goes on.
    EXPECT_EQ(TextOf(path), whole);
    ASSERT_OK(log->Write(Call("third")));
    ASSERT_OK_AND_ASSIGN(const AuditSummary summary, VerifyAuditFile(path));
    EXPECT_EQ(summary.line_count, 2);
  }
}

TEST_F(AuditFileTest, NobodyFillsTheDiskByBeingRefused) {
  const auto log = Open();
  for (int i = 0; i < 1000; ++i) ASSERT_OK(log->Write(Refusal("cn:noisy")));
  ASSERT_OK(log->Write(Refusal("cn:quiet")));
  log->Flush();
  EXPECT_EQ(log->head().sequence, AuditFile::kMaxRefusalsPerSecond + 1);
  clock.now += absl::Seconds(1);
  ASSERT_OK(log->Write(Refusal("cn:noisy")));
  log->Flush();
  EXPECT_EQ(LinesOf(path).back()["omitted_refusals"], 1000 - AuditFile::kMaxRefusalsPerSecond);
  ASSERT_OK(log->Write(Refusal("cn:noisy")));
  log->Flush();
  EXPECT_FALSE(LinesOf(path).back().contains("omitted_refusals"));
  EXPECT_OK(VerifyAuditFile(path).status());
}

TEST_F(AuditFileTest, SeveralThreadsWriteOneChain) {
  const auto log = Open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log] {
      for (int i = 0; i < 25; ++i) EXPECT_OK(log->Write(Call("x")));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK_AND_ASSIGN(const AuditSummary summary, VerifyAuditFile(path));
  EXPECT_EQ(summary.line_count, 100);
}

// Nine callers, and a disk that works twice: for the first, and for all that came meanwhile.
TEST_F(AuditFileTest, LinesThatArriveDuringAFlushShareTheNextOne) {
  const auto log = Open();
  disk.Hold(true);
  std::vector<std::thread> threads;
  threads.emplace_back([&log] { EXPECT_OK(log->Write(Call("first"))); });
  disk.AwaitFlush(1);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&log] { EXPECT_OK(log->Write(Call("x"))); });
  }
  clock.AwaitAsked(9);
  // Takes the lock under which the last of them handed its record over, and does not wait itself.
  ASSERT_OK(log->Write(Refusal("cn:a")));
  EXPECT_EQ(TextOf(path).find("cn:a"), std::string::npos);
  disk.Hold(false);
  for (std::thread& thread : threads) thread.join();
  log->Flush();
  EXPECT_EQ(disk.flush_count(), 2);
  ASSERT_OK_AND_ASSIGN(const AuditSummary summary, VerifyAuditFile(path));
  EXPECT_EQ(summary.line_count, 10);
  EXPECT_EQ(LinesOf(path)[0]["resource"], "first");
}

TEST_F(AuditFileTest, WhateverWaitsIsWrittenAtTheEnd) {
  {
    const auto log = Open();
    for (int i = 0; i < 10; ++i) ASSERT_OK(log->Write(Refusal(absl::StrCat("cn:", i))));
  }
  ASSERT_OK_AND_ASSIGN(const AuditSummary summary, VerifyAuditFile(path));
  EXPECT_EQ(summary.line_count, 10);
  EXPECT_EQ(disk.flush_count(), 0);
}

// Many identities are refused while the disk hangs.
TEST_F(AuditFileTest, RefusalsThatWaitAreBoundedAndCounted) {
  const auto log = Open();
  disk.Hold(true);
  std::thread first([&log] { EXPECT_OK(log->Write(Call("first"))); });
  disk.AwaitFlush(1);
  constexpr int kCount = static_cast<int>(AuditFile::kMaxQueueLength) + 10;
  for (int i = 0; i < kCount; ++i) ASSERT_OK(log->Write(Refusal(absl::StrCat("cn:", i))));
  disk.Hold(false);
  first.join();
  log->Flush();
  EXPECT_EQ(log->head().sequence, 1 + static_cast<int64_t>(AuditFile::kMaxQueueLength));
  ASSERT_OK(log->Write(Refusal(absl::StrCat("cn:", kCount - 1))));
  log->Flush();
  EXPECT_EQ(LinesOf(path).back()["omitted_refusals"], 1);
}

// A batch fails as a whole: its callers all hear of it, and nothing of it is in the file.
TEST_F(AuditFileTest, ABatchThatFailsIsAnErrorForAllItsCallers) {
  const auto log = Open(/*is_required=*/true);
  ASSERT_OK(log->Write(Call("first")));
  disk.Hold(true);
  std::vector<std::thread> threads;
  threads.emplace_back([&log] { EXPECT_OK(log->Write(Call("second"))); });
  disk.AwaitFlush(2);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&log] {
      EXPECT_THAT(log->Write(Call("lost")), StatusIs(absl::StatusCode::kUnavailable));
    });
  }
  clock.AwaitAsked(5);
  ASSERT_OK(log->Write(Refusal("dns:a.example")));
  // The line in progress was appended before.
  disk.append_error = EIO;
  disk.Hold(false);
  for (std::thread& thread : threads) thread.join();
  log->Flush();
  disk.append_error = 0;
  EXPECT_EQ(failures.size(), 1u);
  EXPECT_EQ(failed_count, 4);
  ASSERT_OK(log->Write(Call("third")));
  EXPECT_EQ(LinesOf(path).back()["sequence"], 3);
  // The refusal that was lost is counted.
  EXPECT_EQ(LinesOf(path).back()["omitted_refusals"], 1);
  ASSERT_OK_AND_ASSIGN(const AuditSummary summary, VerifyAuditFile(path));
  EXPECT_EQ(summary.line_count, 3);
}

TEST_F(AuditFileTest, NothingFollowsHalfALineThatCannotBeCutOff) {
  const auto log = Open(/*is_required=*/true);
  ASSERT_OK(log->Write(Call("first")));
  const std::string whole = TextOf(path);
  disk.append_error = ENOSPC;
  disk.cut_error = EIO;
  EXPECT_THAT(log->Write(Call("torn")), StatusIs(absl::StatusCode::kUnavailable));
  const std::string torn = TextOf(path);
  EXPECT_GT(torn.size(), whole.size());
  disk.append_error = 0;
  // It still cannot be cut off, so nothing is written after it.
  EXPECT_THAT(log->Write(Call("refused")), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(TextOf(path), torn);
  disk.cut_error = 0;
  ASSERT_OK(log->Write(Call("second")));
  ASSERT_OK_AND_ASSIGN(const AuditSummary summary, VerifyAuditFile(path));
  EXPECT_EQ(summary.line_count, 2);
  EXPECT_EQ(LinesOf(path)[1]["resource"], "second");
}

}  // namespace
}  // namespace parplan
