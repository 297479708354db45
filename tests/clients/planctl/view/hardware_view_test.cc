// Checks the output of `planctl hardware` for every entry.

#include "clients/planctl/view/hardware_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "tests/clients/planctl/view/expect_tidy.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::HasSubstr;

const HardwareLibrary& Library() { return HardwareLibrary::BuiltIn(); }

// Text is broken into lines.
std::string Unwrapped(const std::string& text) {
  return absl::StrJoin(absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty()), " ");
}

TEST(HardwareView, ListHasEveryEntry) {
  const std::string text = HardwareListText(Library());
  ExpectTidy(text);
  const nlohmann::ordered_json json = HardwareListJson(Library());
  EXPECT_EQ(json["devices"].size(), Library().message().devices_size());
  EXPECT_EQ(json["fabrics"].size(), Library().message().fabrics_size());
  for (const auto& device : json["devices"]) {
    EXPECT_THAT(text, HasSubstr("\n" + device["device_id"].get<std::string>() + " "));
  }
  for (const auto& fabric : json["fabrics"]) {
    EXPECT_THAT(text, HasSubstr("\n" + fabric["fabric_id"].get<std::string>() + " "));
  }
  for (const char* links : {"intra_node_links", "inter_node_links"}) {
    for (const auto& link : json[links]) {
      EXPECT_THAT(Unwrapped(text), HasSubstr(" " + link.get<std::string>()));
    }
  }
}

TEST(HardwareView, EveryEntryShowsItsSources) {
  const nlohmann::ordered_json list = HardwareListJson(Library());
  for (const char* kind : {"devices", "fabrics"}) {
    for (const auto& entry : list[kind]) {
      const std::string name = entry.begin().value().get<std::string>();
      SCOPED_TRACE(name);
      ASSERT_OK_AND_ASSIGN(const std::string text, HardwareEntryText(Library(), name));
      ExpectTidy(text);
      ASSERT_OK_AND_ASSIGN(const nlohmann::ordered_json json, HardwareEntryJson(Library(), name));
      EXPECT_EQ(json, entry);
      for (const auto& source : entry["sources"]) {
        EXPECT_THAT(Unwrapped(text), HasSubstr(source.get<std::string>()));
      }
    }
  }
}

TEST(HardwareView, ValuesHaveTheirUnits) {
  ASSERT_OK_AND_ASSIGN(const nlohmann::ordered_json device,
                       HardwareEntryJson(Library(), "NVIDIA A100-SXM4-80GB"));
  EXPECT_EQ(device["device_id"], "a100-sxm-80gb");
  EXPECT_EQ(device["matrix_flops_16_bit"], 312e12);
  EXPECT_EQ(device["memory_bytes_per_second"], 2.039e12);
  ASSERT_OK_AND_ASSIGN(const std::string text, HardwareEntryText(Library(), "a100"));
  EXPECT_THAT(text, HasSubstr("312 TFLOP/s"));
  EXPECT_THAT(text, HasSubstr("2039 GB/s"));
  ASSERT_OK_AND_ASSIGN(const nlohmann::ordered_json fabric, HardwareEntryJson(Library(), "Selene"));
  EXPECT_EQ(fabric["inter_node"]["bytes_per_second_per_node"], 200e9);
  EXPECT_EQ(fabric["intra_node"]["latency_seconds"], 1.9e-6);
}

TEST(HardwareView, CombinationsOfLinksNeedNoName) {
  ASSERT_OK_AND_ASSIGN(const nlohmann::ordered_json fabric,
                       HardwareEntryJson(Library(), "nvlink-4+ethernet-1x25"));
  EXPECT_TRUE(fabric["aliases"].empty());
  EXPECT_EQ(fabric["inter_node"]["bytes_per_second_per_device"], 3.125e9);
  EXPECT_FALSE(fabric["inter_node"]["sources"].empty());
}

TEST(HardwareView, UnknownNamesAreNotFound) {
  const absl::Status status = HardwareEntryText(Library(), "a1000").status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("`a1000`")));
  EXPECT_EQ(GetErrorDetail(status)->reason, Reason::kResourceNotFound);
  EXPECT_THAT(HardwareEntryJson(Library(), ""), StatusIs(absl::StatusCode::kNotFound));
}

TEST(HardwareView, RatesThatADeviceLacksAreLeftOut) {
  ASSERT_OK_AND_ASSIGN(const std::string a100, HardwareEntryText(Library(), "a100"));
  EXPECT_THAT(a100, ::testing::Not(HasSubstr("8-bit")));
  ASSERT_OK_AND_ASSIGN(const std::string b200, HardwareEntryText(Library(), "b200"));
  EXPECT_THAT(b200, HasSubstr("4500 TFLOP/s"));
  EXPECT_THAT(b200, HasSubstr("9000 TFLOP/s"));
  EXPECT_THAT(b200, HasSubstr("1000 W"));
}

}  // namespace
}  // namespace parplan::planctl
