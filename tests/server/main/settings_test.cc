#include "server/main/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::variant<Settings, int> Read(const std::vector<std::string>& words) {
  std::vector<const char*> arguments = {"parplan-server", "--data-dir", "data"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return ReadSettings(static_cast<int>(arguments.size()), arguments.data());
}

// Returns the error of a command line that is refused with exit code 2.
std::string RefusalOf(const std::vector<std::string>& words) {
  testing::internal::CaptureStderr();
  const std::variant<Settings, int> result = Read(words);
  std::string error = testing::internal::GetCapturedStderr();
  const int* const exit_code = std::get_if<int>(&result);
  EXPECT_TRUE(exit_code != nullptr && *exit_code == 2) << error;
  return error;
}

// An execution that fell silent may report again, and must not be gone by then.
TEST(ReadSettings, ExecutionsAreKeptForADayAfterTheyFellSilent) {
  EXPECT_THAT(RefusalOf({"--execution-retention", "1s"}),
              AllOf(HasSubstr("execution_retention: is 1s; must be at least 30h"),
                    HasSubstr("execution_silence (6h)")));
  EXPECT_THAT(RefusalOf({"--execution-retention", "30h", "--execution-silence", "7h"}),
              HasSubstr("must be at least 31h"));
  // The default of a year as well.
  EXPECT_THAT(RefusalOf({"--execution-silence", "8760h"}), HasSubstr("must be at least 8784h"));
  const std::variant<Settings, int> result = Read({"--execution-retention", "30h"});
  const Settings* const settings = std::get_if<Settings>(&result);
  ASSERT_NE(settings, nullptr);
  EXPECT_EQ(settings->limits.execution_retention, absl::Hours(30));
}

// Without authorities the server would ask no caller for a certificate.
TEST(ReadSettings, AnEmptyTextIsNotADefault) {
  for (const char* const flag : {"--tls-client-ca", "--audit-file", "--store", "--queue-length"}) {
    EXPECT_THAT(RefusalOf({flag, ""}), HasSubstr(absl::StrCat(flag, " must not be empty")));
  }
}

// A reload would wait for a writer of the pipe, and with it every signal.
TEST(ReadSettings, AConfigurationIsARegularFile) {
  const std::string folder = MakeTestFolder();
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(RefusalOf({"--config", pipe}), AllOf(HasSubstr(pipe), HasSubstr("no regular file")));
  EXPECT_THAT(RefusalOf({"--config", "/dev/zero"}), HasSubstr("no regular file"));
  EXPECT_THAT(RefusalOf({"--config", folder}), HasSubstr(folder));
}

// One uploader has at most half of the memory for uploads.
TEST(ReadSettings, TheLargestUploadHasRoom) {
  for (const auto& [upload, memory] :
       {std::pair("67108864", 256), std::pair("268435456", 512), std::pair("1073741824", 2048)}) {
    const std::variant<Settings, int> result = Read({"--max-upload-bytes", upload});
    const Settings* const settings = std::get_if<Settings>(&result);
    ASSERT_NE(settings, nullptr);
    EXPECT_EQ(settings->limits.max_upload_memory_bytes, int64_t{memory} << 20) << upload;
  }
  EXPECT_THAT(RefusalOf({"--max-upload-bytes", "9223372036854775807"}),
              HasSubstr("max_upload_bytes"));
}

TEST(ReadSettings, TheRetentionHasAnUpperLimit) {
  EXPECT_THAT(RefusalOf({"--execution-retention", "878401h"}),
              HasSubstr("must be above 0 and at most 878400h"));
}

}  // namespace
}  // namespace parplan
