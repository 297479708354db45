#include "server/rpc/alarm_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/synchronization/notification.h"

namespace parplan {
namespace {

TEST(AlarmThread, RingsInTheOrderOfTimes) {
  AlarmThread alarms;
  std::vector<int> rung;
  absl::Notification done;
  alarms.Set(absl::Milliseconds(60), [&] {
    rung.push_back(3);
    done.Notify();
  });
  alarms.Set(absl::Milliseconds(20), [&] { rung.push_back(1); });
  alarms.Set(absl::Milliseconds(40), [&] { rung.push_back(2); });
  done.WaitForNotification();
  EXPECT_THAT(rung, testing::ElementsAre(1, 2, 3));
}

TEST(AlarmThread, RemovedOnesDoNotRing) {
  AlarmThread alarms;
  std::vector<int> rung;
  absl::Notification done;
  const AlarmThread::Alarm removed = alarms.Set(absl::Milliseconds(20), [&] { rung.push_back(1); });
  alarms.Set(absl::Milliseconds(40), [&] { done.Notify(); });
  alarms.Remove(removed);
  done.WaitForNotification();
  EXPECT_THAT(rung, testing::IsEmpty());
}

TEST(AlarmThread, DropsAlarmsAtItsEnd) {
  const auto owned = std::make_shared<int>(0);
  {
    AlarmThread alarms;
    alarms.Set(absl::Hours(1), [owned] { ++*owned; });
  }
  EXPECT_EQ(*owned, 0);
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace parplan
