// Checks that each fault of a plugin has its own error, with plugins that have one fault each.

#include "executor/device/backend/load_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string Fake(const std::string& name) {
  return absl::StrCat(PARPLAN_FAKE_PLUGINS, "/libfake_", name, ".so");
}

absl::Status LoadFake(const std::string& name) {
  return LoadBackend("cuda", {.plugin = Fake(name)}).status();
}

// Unavailable, with this fault, in one line with this in it.
void ExpectFault(const absl::Status& status, BackendFault fault,
                 const testing::Matcher<std::string>& text) {
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               AllOf(text, HasSubstr("no cuda back end: "), Not(HasSubstr("\n")))));
  EXPECT_EQ(GetBackendFault(status), fault) << status;
}

TEST(LoadBackend, KnowsTwoNames) {
  ASSERT_OK_AND_ASSIGN(const auto cpu, LoadBackend("cpu"));
  EXPECT_EQ(cpu->name(), "cpu");
  const absl::Status status = LoadBackend("rocm").status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("use cpu or cuda")));
  EXPECT_EQ(GetBackendFault(status), BackendFault::kUnknownName);
  EXPECT_EQ(GetBackendFault(absl::UnavailableError("of something else")), std::nullopt);
}

TEST(LoadBackend, OpensAPluginOfTheSameBuild) {
  ASSERT_OK_AND_ASSIGN(const auto backend, LoadBackend("cuda", {.plugin = Fake("ready")}));
  EXPECT_GE(backend->device_count(), 1);
}

TEST(LoadBackend, TheEnvironmentNamesAPlugin) {
  ASSERT_EQ(::setenv("PARPLAN_CUDA_PLUGIN", Fake("no_driver").c_str(), 1), 0);
  ExpectFault(LoadBackend("cuda").status(), BackendFault::kNoDriver, HasSubstr("no driver"));
  // An option says more.
  EXPECT_OK(LoadFake("ready"));
  ASSERT_EQ(::unsetenv("PARPLAN_CUDA_PLUGIN"), 0);
}

TEST(LoadBackend, NotBuilt) {
  ExpectFault(LoadFake("nowhere"), BackendFault::kNotBuilt,
              AllOf(HasSubstr("not built"), HasSubstr("libfake_nowhere.so")));
  // Beside this program there is none.
  ExpectFault(LoadBackend("cuda").status(), BackendFault::kNotBuilt,
              AllOf(HasSubstr("libparplan_cuda.so"), HasSubstr("PARPLAN_CUDA_PLUGIN")));
}

TEST(LoadBackend, ALibraryIsMissing) {
  ExpectFault(LoadFake("wants_library"), BackendFault::kNotLoadable,
              HasSubstr("libfake_library.so"));
}

TEST(LoadBackend, AnotherRelease) {
  ExpectFault(LoadFake("other_interface"), BackendFault::kOtherRelease,
              HasSubstr("interface 12345"));
  ExpectFault(LoadFake("other_release"), BackendFault::kOtherRelease,
              HasSubstr("0.0.1 of long ago"));
  ExpectFault(LoadFake("stranger"), BackendFault::kOtherRelease, HasSubstr("is no plugin"));
}

TEST(LoadBackend, NoDriver) {
  ExpectFault(LoadFake("no_driver"), BackendFault::kNoDriver, HasSubstr("no driver"));
}

TEST(LoadBackend, TheDriverIsTooOld) {
  ExpectFault(LoadFake("driver_too_old"), BackendFault::kDriverTooOld,
              AllOf(HasSubstr("serves CUDA 12.4"), HasSubstr("needs 13.0")));
}

TEST(LoadBackend, NoDevice) {
  ExpectFault(LoadFake("no_device"), BackendFault::kNoDevice, HasSubstr("no device"));
}

TEST(LoadBackend, AnythingElseInThePluginsOwnWords) {
  ExpectFault(LoadFake("failed"), BackendFault::kFailed, HasSubstr("the fake fails"));
  ExpectFault(
      LoadBackend("cuda", {.plugin = Fake("ready"), .groups = GroupTransport::kNative}).status(),
      BackendFault::kFailed, HasSubstr("the fake does not open"));
}

}  // namespace
}  // namespace parplan
