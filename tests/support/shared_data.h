// Finds files that are not shipped with the tests.

#ifndef PARPLAN_TESTS_SUPPORT_SHARED_DATA_H_
#define PARPLAN_TESTS_SUPPORT_SHARED_DATA_H_

#include <optional>
#include <string>

namespace parplan {

// The folder of measured data kept beside a working copy: the environment
// variable PARPLAN_SHARED_DATA, else `../shared/data` seen from the source
// folder. Nothing where neither is a folder; such a test skips with a reason:
//
//   const std::optional<std::string> data = SharedDataDir();
//   if (!data) GTEST_SKIP() << kNoSharedData;
std::optional<std::string> SharedDataDir();

inline constexpr char kNoSharedData[] =
    "no measured data: neither PARPLAN_SHARED_DATA nor ../shared/data is a folder";

// The root of the source tree, for the examples and golden files in it.
std::string SourceDir();

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_SHARED_DATA_H_
