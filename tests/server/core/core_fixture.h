// A core on a store in memory, a clock that stands, and a measured cluster.

#ifndef PARPLAN_TESTS_SERVER_CORE_CORE_FIXTURE_H_
#define PARPLAN_TESTS_SERVER_CORE_CORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "parplan/v1/profile.pb.h"
#include "server/core/server_core.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/server/core/fakes.h"
#include "tests/support/memory_store.h"
#include "tests/support/synthetic_problem.h"
#include "tests/support/test_folder.h"

namespace parplan {

// The measurements of `options` as a profile an agent would send.
v1::Profile SyntheticProfile(const SyntheticOptions& options);

// The question of `options`.
v1::PlanSpec SyntheticSpec(const SyntheticOptions& options);

// A fact of an error's metadata; empty when it is not there.
std::string FactOf(const absl::Status& status, const std::string& key);

class CoreTest : public testing::Test {
 protected:
  CoreTest();
  ~CoreTest() override;

  // Starts a core over `store`, or over a new one; the last one, if any, ends.
  void Start(std::unique_ptr<MemoryStore> store = std::make_unique<MemoryStore>());

  // Another server with the keys, clock, observer and planner of `core()`.
  std::unique_ptr<ServerCore> MakeCore(std::unique_ptr<MemoryStore> store,
                                       std::unique_ptr<Turns> turns);

  // Uploads `profile` as one header and one piece.
  absl::StatusOr<v1::Profile> Upload(const v1::Profile& profile, const std::string& request_id,
                                     const std::string& node = "node-0");

  // Starts the core and uploads the measurements of `options`.
  void StartMeasured(const SyntheticOptions& options = {});

  v1::CreatePlanRequest Question(const SyntheticOptions& options = {}) const;

  // A call without a deadline, or with one.
  std::shared_ptr<CallContext> Call(absl::Duration time_left = absl::InfiniteDuration()) const {
    return CallContext::Create("call", time_left, clock);
  }

  // Asks and waits, or asks and lets wait.
  absl::StatusOr<SharedPlan> Ask(const v1::CreatePlanRequest& request);
  std::future<absl::StatusOr<SharedPlan>> AskLater(const v1::CreatePlanRequest& request,
                                                   const std::shared_ptr<CallContext>& context);
  static std::future<absl::StatusOr<SharedPlan>> AskLater(
      ServerCore& core, const v1::CreatePlanRequest& request,
      const std::shared_ptr<CallContext>& context);
  absl::StatusOr<SharedShape> AskShape(const v1::ShapePlanRequest& request);

  // Revokes every key of the server, as another program does; the server sees it a second later.
  void RevokeKeys();
  // Gives the next server keys of its own.
  void UseOtherKeys() { key_folder_ = MakeTestFolder(); }
  // Lets no file be written in the folder of the keys, or be read.
  void BlockKeys();

  ServerCore& core() { return *core_; }
  MemoryStore& store() { return *store_; }

  FakeClock clock;
  RecordingObserver observer;
  GatedPlanner planner;
  Limits limits;

 private:
  std::string key_folder_;
  MemoryStore* store_ = nullptr;
  std::unique_ptr<ServerCore> core_;
};

// Returns the payload in the signed bytes.
v1::PlanPayload PayloadOf(const v1::Plan& plan);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SERVER_CORE_CORE_FIXTURE_H_
