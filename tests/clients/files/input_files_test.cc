#include "clients/files/input_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/envelope/envelope_json.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class InputFiles : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string path = absl::StrCat(folder_, "/", name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  const std::string folder_ = MakeTestFolder();
};

TEST_F(InputFiles, GivesAllBytesHoweverManyTheyAre) {
  EXPECT_THAT(ReadInputFile(Write("empty", "")), IsOkAndHolds(IsEmpty()));
  for (const size_t size : {size_t{1}, size_t{64} << 10, (size_t{64} << 10) + 1, size_t{200000}}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7);
    // Compared first: a failure does not print them.
    EXPECT_TRUE(*ReadInputFile(Write("bytes", bytes)) == bytes) << size;
  }
}

TEST_F(InputFiles, NamesAFileThatIsTooLarge) {
  const std::string path = Write("large", "");
  std::filesystem::resize_file(path, kMaxInputFileBytes + 1);
  EXPECT_THAT(ReadInputFile(path),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(path), HasSubstr("more than 67108864 bytes"))));
}

TEST_F(InputFiles, NamesWhatCannotBeRead) {
  const std::string none = absl::StrCat(folder_, "/none");
  EXPECT_THAT(ReadInputFile(none), StatusIs(absl::StatusCode::kInvalidArgument,
                                            AllOf(HasSubstr(absl::StrCat("cannot open ", none)),
                                                  HasSubstr("No such file"))));
  EXPECT_THAT(ReadInputFile(folder_), StatusIs(absl::StatusCode::kInvalidArgument,
                                               AllOf(HasSubstr(folder_), HasSubstr("directory"))));
  EXPECT_EQ(ReasonOf(ReadTrustFile(none)), Reason::kSpecInvalid);
  EXPECT_EQ(ReasonOf(ReadEnvelopeFile(none)), Reason::kSpecInvalid);
  EXPECT_EQ(ReasonOf(ReadModelFile(none)), Reason::kSpecInvalid);
  EXPECT_EQ(ReasonOf(ReadTopologyFile(none)), Reason::kSpecInvalid);
}

TEST_F(InputFiles, GivesWhatWasWritten) {
  const PrivateKey key = FirstKey();
  const TrustBundle trust = Trusting({&key});
  ASSERT_OK_AND_ASSIGN(const TrustBundle read_trust, ReadTrustFile(Write("trust", trust.ToJson())));
  EXPECT_EQ(read_trust.ToJson(), trust.ToJson());

  const v1::SignedPlan plan = Sign(MakePayload(), {&key});
  ASSERT_OK_AND_ASSIGN(const v1::SignedPlan read_plan,
                       ReadEnvelopeFile(Write("plan", EnvelopeToJson(plan))));
  EXPECT_EQ(read_plan.payload(), plan.payload());
}

TEST_F(InputFiles, NamesTheFileAndTheLineOfAnError) {
  const std::string model = Write("model.json", "{\n  \"layer_run\": []\n}\n");
  EXPECT_THAT(ReadModelFile(model), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr(absl::StrCat(model, ":2: layer_run"))));
  const std::string cluster = Write("cluster.json", "{\n  \"node_group\": []\n}\n");
  EXPECT_THAT(ReadTopologyFile(cluster), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  HasSubstr(absl::StrCat(cluster, ":2: node_gr"))));
}

// A bundle with a number, signed by `key`.
std::string BundleText(int64_t sequence, const PrivateKey& key) {
  const TrustBundle bundle = *TrustBundle::Create(
      Trusting({&key}).keys(), {sequence, IssueTime(), IssueTime() + absl::Hours(24)});
  return bundle.WithSignatures({{key.public_key().key_id(), key.Sign(bundle.SignedBytes())}})
      .ToJson();
}

TEST_F(InputFiles, ATrustBundleOlderThanTheAcceptedOneIsRefused) {
  const std::string memory = absl::StrCat(folder_, "/accepted");
  const std::string first = BundleText(1, FirstKey());
  const std::string second = BundleText(2, FirstKey());
  EXPECT_OK(AcceptTrustBundle(first, memory));
  EXPECT_OK(AcceptTrustBundle(second, memory));
  const absl::StatusOr<TrustBundle> back = AcceptTrustBundle(first, memory);
  EXPECT_THAT(back, StatusIs(absl::StatusCode::kPermissionDenied,
                             HasSubstr("has number 1, and number 2 was accepted here before")));
  EXPECT_EQ(ReasonOf(back), Reason::kSignatureInvalid);
  EXPECT_EQ(ReasonOf(AcceptTrustBundle(BundleText(3, SecondKey()), memory)),
            Reason::kSignatureInvalid)
      << "no key that is known here signed it";
  EXPECT_OK(AcceptTrustBundle(second, memory)) << "the memory is as it was";
  EXPECT_OK(AcceptTrustBundle(first)) << "without a memory";
}

TEST_F(InputFiles, TheNewestBundleThatWasAcceptedIsRememberedWhoeverWritesLast) {
  constexpr int64_t kBundles = 40;
  const std::string memory = absl::StrCat(folder_, "/accepted");
  std::vector<std::string> texts;
  for (int64_t i = 1; i <= kBundles; ++i) texts.push_back(BundleText(i, FirstKey()));
  std::atomic<int64_t> newest = 0;
  std::vector<std::thread> threads;
  for (int64_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (int64_t i = first; i < kBundles; i += 4) {
        const absl::StatusOr<TrustBundle> accepted = AcceptTrustBundle(texts[i], memory);
        if (!accepted.ok()) {
          EXPECT_EQ(ReasonOf(accepted), Reason::kSignatureInvalid) << accepted.status();
          continue;
        }
        int64_t before = newest;
        while (before < i + 1 && !newest.compare_exchange_weak(before, i + 1)) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(newest, kBundles) << "nothing is newer than the last one";
  EXPECT_EQ(*ReadInputFile(memory), texts.back());
}

TEST_F(InputFiles, ReadTrustFileRemembersWhereTheEnvironmentSays) {
  const std::string memory = absl::StrCat(folder_, "/accepted");
  ASSERT_EQ(setenv("PARPLAN_TRUST_MEMORY", memory.c_str(), 1), 0);
  EXPECT_OK(ReadTrustFile(Write("new", BundleText(2, FirstKey()))));
  EXPECT_EQ(ReasonOf(ReadTrustFile(Write("old", BundleText(1, FirstKey())))),
            Reason::kSignatureInvalid);
  unsetenv("PARPLAN_TRUST_MEMORY");
}

TEST_F(InputFiles, AMemoryThatCannotBeUsedIsNamed) {
  const std::string text = BundleText(1, FirstKey());
  for (const std::string& memory :
       {folder_, absl::StrCat(folder_, "/none/accepted"), Write("damaged", "{\"keys\": []}")}) {
    const absl::StatusOr<TrustBundle> bundle = AcceptTrustBundle(text, memory);
    EXPECT_THAT(bundle, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(memory)));
    EXPECT_EQ(ReasonOf(bundle), Reason::kSpecInvalid);
  }
}

}  // namespace
}  // namespace parplan
