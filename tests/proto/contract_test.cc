// The contract as it is built, beside the one that was promised
// (golden/parplan.binpb) and the rules of STYLE.md.

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "base/error.h"
#include "parplan/v1/error_info.pb.h"
#include "proto/wire/version.h"
#include "tests/proto/contract_changes.h"
#include "tests/proto/contract_lints.h"
#include "tests/support/shared_data.h"

namespace parplan {
namespace {

using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using testing::IsEmpty;

FileDescriptorSet ReadSet(const std::string& path) {
  FileDescriptorSet set;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good() && set.ParseFromIstream(&file)) << path;
  return set;
}

FileDescriptorSet Built() { return ReadSet(PARPLAN_COMMENTED_CONTRACT); }

FileDescriptorSet Promised() { return ReadSet(SourceDir() + "/tests/proto/golden/parplan.binpb"); }

// Our files without comments, by name.
std::map<std::string, FileDescriptorProto> OurFiles(const FileDescriptorSet& set) {
  std::map<std::string, FileDescriptorProto> files;
  for (const FileDescriptorProto& file : set.file()) {
    if (file.package().rfind("parplan", 0) != 0) continue;
    files[file.name()] = file;
    files[file.name()].clear_source_code_info();
  }
  return files;
}

TEST(Contract, KeepsEveryPromise) {
  EXPECT_THAT(BreakingChanges(Promised(), Built()), IsEmpty())
      << "clients in the field would break; add a new field, value or method instead";
}

TEST(Contract, IsTheOneThatIsCommitted) {
  const auto promised = OurFiles(Promised());
  const auto built = OurFiles(Built());
  std::string report;
  for (const auto& [name, file] : built) {
    const auto found = promised.find(name);
    if (found == promised.end() ||
        !google::protobuf::util::MessageDifferencer::Equals(file, found->second)) {
      report += name + " ";
    }
  }
  EXPECT_EQ(report, "") << "changed since tests/proto/golden/parplan.binpb was written; run\n"
                           "  ./parplan-dev contract\n"
                           "and commit it together with the change";
  EXPECT_EQ(built.size(), promised.size());
}

TEST(Contract, SaysWhatEverythingIs) { EXPECT_THAT(MissingComments(Built()), IsEmpty()); }

TEST(Contract, NamesUnits) { EXPECT_THAT(MisnamedFields(Built()), IsEmpty()); }

TEST(Contract, ReasonsAreThoseOfThePlanner) {
  const google::protobuf::EnumDescriptor& reasons = *v1::ErrorReason_descriptor();
  for (int i = 1; i < reasons.value_count(); ++i) {
    const auto& value = *reasons.value(i);
    const absl::string_view name = ReasonName(static_cast<Reason>(value.number()));
    EXPECT_EQ("ERROR_REASON_" + std::string(name.data(), name.size()), value.name());
  }
}

TEST(Version, IsThatOfTheProject) { EXPECT_STREQ(kVersion, PARPLAN_PROJECT_VERSION); }

}  // namespace
}  // namespace parplan
