#include "studies/papers/unlike_devices.h"

#include "absl/strings/str_cat.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {
namespace {

constexpr int kLayerCount = 32;
constexpr int kHalf = 8;

double RateOn(Family family, Devices devices, int count) {
  devices.count = count;
  const Answer answer =
      Ask(ProblemOf(ModelOf(family, kLayerCount), devices, BatchesOf(count)), kPaperPlanners[2]);
  return SixDigits(answer.rate);
}

std::string NameOf(const Devices& devices) {
  return absl::StrCat(devices.kind, ", ", devices.memory_gb, " GB");
}

}  // namespace

UnlikeRow UnlikeRowOf(const UnlikeQuestion& question) {
  const Family family = question.family;
  return {.model = ModelName(family, kLayerCount),
          .weaker = NameOf(question.weaker),
          .stronger = NameOf(question.stronger),
          .alike = RateOn(family, question.weaker, 2 * kHalf),
          .weaker_alone = RateOn(family, question.weaker, kHalf),
          .stronger_alone = RateOn(family, question.stronger, kHalf)};
}

std::vector<UnlikeQuestion> UnlikeQuestions() {
  std::vector<UnlikeQuestion> questions;
  for (const Family family : kFamilies) {
    questions.push_back({family, {.memory_gb = 8}, {.memory_gb = 20}});
  }
  for (const Family family : kFamilies) {
    questions.push_back({family, {.memory_gb = 16}, {.kind = "a100-sxm-80gb", .memory_gb = 80}});
  }
  return questions;
}

}  // namespace parplan::papers
