#include "base/service/shell/state_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <map>
#include <string>

namespace parplan {
namespace {

// Changes the environment, and changes it back.
class StateFolder : public testing::Test {
 protected:
  StateFolder() {
    for (const char* const name : {"XDG_STATE_HOME", "HOME"}) {
      if (const char* const value = std::getenv(name); value != nullptr) before_[name] = value;
      ::unsetenv(name);
    }
  }
  ~StateFolder() override {
    for (const char* const name : {"XDG_STATE_HOME", "HOME"}) ::unsetenv(name);
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::map<std::string, std::string> before_;
};

TEST_F(StateFolder, IsBelowThatOfTheUser) {
  ::setenv("HOME", "/people/u", 1);
  EXPECT_EQ(DefaultStateFolder("parplan"), "/people/u/.local/state/parplan");
  ::setenv("XDG_STATE_HOME", "state", 1);
  EXPECT_EQ(DefaultStateFolder("parplan"), "/people/u/.local/state/parplan");
  ::setenv("XDG_STATE_HOME", "/state", 1);
  EXPECT_EQ(DefaultStateFolder("parplan"), "/state/parplan");
}

TEST_F(StateFolder, IsEmptyIfNoVariableIsSet) {
  EXPECT_EQ(DefaultStateFolder("parplan"), "");
  ::setenv("HOME", "", 1);
  EXPECT_EQ(DefaultStateFolder("parplan"), "");
}

}  // namespace
}  // namespace parplan
