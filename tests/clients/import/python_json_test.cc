#include "clients/import/python_json.h"

#include <gtest/gtest.h>

#include <string>

namespace parplan {
namespace {

TEST(QuotePythonNumbers, QuotesWhatJsonLacksOutsideStringsAndKeepsTheLength) {
  const struct {
    const char* text;
    const char* quoted;
  } cases[] = {
      {R"({"a": Infinity})", R"({"a": "inf"   })"},
      {R"([-Infinity, NaN, 1])", R"(["-inf"   , "" , 1])"},
      {R"({"Infinity": "NaN \" -Infinity", "b": 2})",
       R"({"Infinity": "NaN \" -Infinity", "b": 2})"},
      {R"(["\\", NaN])", R"(["\\", "" ])"},
      {R"("NaN)", R"("NaN)"},
      {R"("a\)", R"("a\)"},
      {"Na", "Na"},
      {"", ""},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(QuotePythonNumbers(test.text), test.quoted);
    EXPECT_EQ(QuotePythonNumbers(test.text).size(), std::string(test.text).size());
  }
}

}  // namespace
}  // namespace parplan
