#include "clients/planctl/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "tests/clients/planctl/commands/planctl_test_files.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Replaces `from` in an example, writes it as `name` and gives the path.
std::string Changed(const std::string& example, const std::string& name, const std::string& from,
                    const std::string& to) {
  std::string text = *ReadFile(ExamplePath(example));
  EXPECT_NE(text.find(from), std::string::npos) << from;
  const std::string path = MakeTestFolder() + "/" + name;
  std::ofstream(path) << absl::StrReplaceAll(text, {{from, to}});
  return path;
}

TEST(ReadFile, GivesTheBytesOfAFileAlsoOfAnEmptyOne) {
  const std::string folder = MakeTestFolder();
  const std::string bytes("a\0\xff\n", 4);
  std::ofstream(folder + "/bytes", std::ios::binary) << bytes;
  std::ofstream(folder + "/empty").close();
  EXPECT_THAT(ReadFile(folder + "/bytes"), IsOkAndHolds(bytes));
  EXPECT_THAT(ReadFile(folder + "/empty"), IsOkAndHolds(IsEmpty()));
}

TEST(ReadFile, NamesThePathThatCantBeRead) {
  const std::string folder = MakeTestFolder();
  EXPECT_THAT(ReadFile(folder + "/none"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(folder + "/none"), HasSubstr("No such file"))));
  EXPECT_THAT(ReadFile(folder), StatusIs(absl::StatusCode::kInvalidArgument,
                                         AllOf(HasSubstr(folder), HasSubstr("directory"))));
}

TEST(ReadModel, NamesFileLineAndFieldOfWhatIsUnknown) {
  const std::string path =
      Changed("llama2-7b.model.json", "m.json", "\"vocabulary_size\"", "\"vocabulary_sice\"");
  EXPECT_THAT(
      ReadModel(path),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(path + ":9: layer_definitions[0].vocabulary_sice: no such field"),
                     HasSubstr("did you mean `vocabulary_size`?"),
                     // All errors at once: the head has the same one.
                     HasSubstr("layer_definitions[2].vocabulary_sice"))));
}

TEST(ReadModel, SaysWhatAFileOfAnotherKindIs) {
  const std::string folder = MakeTestFolder();
  std::ofstream(folder + "/config.json") << R"({"model_type": "llama", "hidden_size": 8})";
  EXPECT_THAT(ReadModel(folder + "/config.json"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       folder +
                           "/config.json: is a configuration of Hugging Face and not a model "
                           "file; `planctl import hf " +
                           folder + "/config.json --out m.model.json` makes one of it"));
  EXPECT_THAT(ReadModel(ExamplePath("a100-40g-8.cluster.json")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is a cluster file and not a model file; give it where")));
  EXPECT_THAT(ReadCluster(ExamplePath("llama2-7b.model.json")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is a model file and not a cluster file")));
  // Members that no kind has leave the errors of the fields.
  std::ofstream(folder + "/x.json") << R"({"models": 1})";
  EXPECT_THAT(ReadModel(folder + "/x.json"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("models: no such field")));
}

TEST(ReadCluster, RefusesAWrongType) {
  const std::string path =
      Changed("a100-40g-8.cluster.json", "c.json", "\"node_count\": 1", "\"node_count\": \"one\"");
  EXPECT_THAT(ReadCluster(path),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(path + ":"), HasSubstr("node_groups[0].node_count"))));
}

TEST(ReadProfile, RefusesAWrongUnitAndANegativeTime) {
  const std::string example = "llama2-7b-a100.profile.json";
  const std::string text = *ReadFile(ExamplePath(example));
  const size_t start = text.find("\"forward_duration\": \"");
  ASSERT_NE(start, std::string::npos);
  const std::string member = text.substr(start, text.find_first_of(",\n", start) - start);

  const std::string unit = Changed(example, "unit.json", member, "\"forward_duration\": \"15ms\"");
  EXPECT_THAT(
      ReadProfile(unit),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(unit + ":"), HasSubstr("forward_duration"), HasSubstr("0.005s"))));
  const std::string negative =
      Changed(example, "negative.json", member, "\"forward_duration\": \"-0.015s\"");
  const absl::StatusOr<v1::Profile> refused = ReadProfile(negative);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr(negative), HasSubstr("forward_duration"))));
  EXPECT_EQ(GetErrorDetail(refused.status())->reason, Reason::kProfileInvalid);
}

TEST(ReadProfile, RefusesAReferenceToNothing) {
  const std::string path =
      Changed("llama2-7b-a100.profile.json", "p.json", "\"kind\": \"LAYER_KIND_DECODER\"",
              "\"kind\": \"LAYER_KIND_DECODERS\"");
  EXPECT_THAT(ReadProfile(path),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("LAYER_KIND_DECODERS"), HasSubstr("LAYER_KIND_ENCODER"))));
}

TEST(WriteFile, ReplacesTheWholeFileAndLeavesNothingBeside) {
  const std::string folder = MakeTestFolder();
  ASSERT_OK(WriteFile(folder + "/f", "a longer first content"));
  ASSERT_OK(WriteFile(folder + "/f", "second"));
  EXPECT_THAT(ReadFile(folder + "/f"), IsOkAndHolds("second"));
  EXPECT_THAT(FileNames(folder), ElementsAre("f"));
}

TEST(WriteFile, NamesAFolderThatIsNotThere) {
  const std::string path = MakeTestFolder() + "/none/f";
  EXPECT_THAT(WriteFile(path, "x"), StatusIs(absl::StatusCode::kInvalidArgument,
                                             AllOf(HasSubstr(path), HasSubstr("No such file"))));
}

TEST(WriteFile, ThatFailsLeavesNothing) {
  const std::string folder = MakeTestFolder();
  std::ofstream(folder + "/file") << "kept";
  EXPECT_THAT(WriteFile(folder + "/file/under", "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Not a directory")));
  std::filesystem::create_directory(folder + "/folder");
  EXPECT_THAT(WriteFile(folder + "/folder", "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("directory")));
  EXPECT_THAT(FileNames(folder), ElementsAre("file", "folder"));
  EXPECT_THAT(FileNames(folder + "/folder"), IsEmpty());
  EXPECT_THAT(ReadFile(folder + "/file"), IsOkAndHolds("kept"));
}

TEST(WriteFile, FollowsALinkAndKeepsIt) {
  const std::string folder = MakeTestFolder();
  std::ofstream(folder + "/target") << "old";
  std::filesystem::create_symlink("target", folder + "/link");
  ASSERT_OK(WriteFile(folder + "/link", "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link"));
  EXPECT_THAT(ReadFile(folder + "/target"), IsOkAndHolds("new"));
}

TEST(WriteFile, WritesIntoDevicesAndNeverReplacesThem) {
  ASSERT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_OK(WriteFile("/dev/null", "x"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_THAT(WriteFile("/dev/full", "x"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("No space left")));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(WriteFileDeathTest, FailsIfStandardOutputIsFullWhateverTheSize) {
  // The longer one does not fit the buffer of standard output.
  for (const int size : {1, 20'000}) {
    const auto write = [size] {
      if (std::freopen("/dev/full", "w", stdout) == nullptr) std::_Exit(99);
      const absl::Status status = WriteFile("-", std::string(size, 'x'));
      std::fprintf(stderr, "%s", status.ToString().c_str());
      std::_Exit(static_cast<int>(status.code()));
    };
    EXPECT_EXIT(write(), testing::ExitedWithCode(static_cast<int>(absl::StatusCode::kInternal)),
                "standard output.*No space left")
        << size;
  }
}

}  // namespace
}  // namespace parplan::planctl
