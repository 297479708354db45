// Folders of tests, which leave nothing behind.

#ifndef PARPLAN_TESTS_SUPPORT_TEST_FOLDER_H_
#define PARPLAN_TESTS_SUPPORT_TEST_FOLDER_H_

#include <string>

namespace parplan {

// A new, empty folder under that of the test run, with nothing else's name. It goes with
// all it holds when the process ends; not where it is killed or leaves by _exit.
std::string MakeTestFolder();

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_TEST_FOLDER_H_
