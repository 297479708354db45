#include "clients/import/yaml_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns `a.b=value` a scalar.
absl::StatusOr<std::vector<std::string>> Scalars(const std::string& text) {
  auto scalars = ReadYamlScalars({"c.yaml", text});
  if (!scalars.ok()) return scalars.status();
  std::vector<std::string> lines;
  for (const YamlScalar& scalar : *scalars) {
    lines.push_back(absl::StrCat(absl::StrJoin(scalar.path, "."), "=", scalar.value));
  }
  return lines;
}

TEST(ReadYamlScalars, ReadsMapsAndLists) {
  EXPECT_THAT(Scalars(R"(---
# A comment.
ENV:
  A: 1   # of A
  "B C": 'x # y'
ARGS:
  --size: 12
  --pattern: ([0]*3+[1]*58)
  --flag: true
  --url: http://a:80/#b
empty:
list:
- a
- b: 1
  c: 2
-   - d
deeper:
    - x
    - "y"
flow: [1, 2]
last: {}
below:
  # A comment.
  true
nested:
  key:
    'a b'
  next: 1
)"),
              IsOkAndHolds(ElementsAre(
                  "ENV.A=1", "ENV.B C=x # y", "ARGS.--size=12", "ARGS.--pattern=([0]*3+[1]*58)",
                  "ARGS.--flag=true", "ARGS.--url=http://a:80/#b", "empty=", "list.[0]=a",
                  "list.[1].b=1", "list.[1].c=2", "list.[2].[0]=d", "deeper.[0]=x", "deeper.[1]=y",
                  "flow=[1, 2]", "last={}", "below=true", "nested.key=a b", "nested.next=1")));
  EXPECT_THAT(Scalars(""), IsOkAndHolds(ElementsAre()));
}

TEST(ReadYamlScalars, RefusesByLine) {
  const auto refuse = [](const std::string& text, const std::string& part) {
    EXPECT_THAT(Scalars(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)))
        << text.substr(0, 60);
  };
  refuse("a: 1\n\tb: 2", "c.yaml: line 2: is indented by tabs");
  refuse("a: 1\nfoo\n", "line 2: is neither");
  refuse("a:\n  one\n  two\n", "line 3: is neither");
  refuse("a:\n  &x\n", "line 2: is an anchor");
  refuse("a: 1\n  b: 2", "line 2: is indented unlike");
  refuse("a:\n  b: 1\n c: 2", "line 3: is indented unlike");
  refuse("a: 1\nb: 2\na: 3", "line 3: gives `a` twice");
  refuse("- a", "line 1: is a list");
  refuse("a: &x 1", "line 1: is an anchor");
  refuse("a: *x", "is an anchor");
  refuse("a: !!int 1", "is an anchor");
  refuse("a: |\n  text", "text of several lines");
  refuse("a: [1,\n  2]", "opens a bracket");
  refuse("a: 'b", "ends inside a quotation");
  refuse("a: 1\n---\nb: 2", "only one is read");
  refuse("a:\n  -\n", "is an empty item");
  refuse(": 1", "has an empty name");
  std::string deep;
  for (int i = 0; i < 50; ++i) deep += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  refuse(deep, "more than 32 levels");
}

TEST(ReadYamlScalars, TakesEveryTruncation) {
  const std::string text = "a:\n  - b: 'c'\n    d: [1]\n  - - e\n\"f\": 1 # g\n";
  for (size_t size = 0; size <= text.size(); ++size) (void)Scalars(text.substr(0, size));
  EXPECT_OK(Scalars(text));
}

}  // namespace
}  // namespace parplan
