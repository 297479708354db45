// Common setup for tests of the journal and of its forwarder.

#ifndef PARPLAN_TESTS_CLIENTS_KUBERNETES_JOURNAL_CASES_H_
#define PARPLAN_TESTS_CLIENTS_KUBERNETES_JOURNAL_CASES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/kubernetes/window_journal.h"
#include "parplan/v1/execution.pb.h"
#include "parplan/v1/execution_service.pb.h"
#include "tests/support/status_matchers.h"

namespace parplan::sidecar {

inline constexpr char kPlan[] = "clusters/lab/plans/p1";

inline std::unique_ptr<WindowJournal> OpenIn(const std::string& folder,
                                             int64_t max_bytes = 1 << 20) {
  absl::StatusOr<std::unique_ptr<WindowJournal>> journal =
      WindowJournal::Open({.folder = folder, .max_byte_count = max_bytes});
  EXPECT_OK(journal);
  return *std::move(journal);
}

inline v1::CreateExecutionRequest Opening(const std::string& request_id = "id-1") {
  v1::CreateExecutionRequest request;
  request.set_parent(kPlan);
  request.set_request_id(request_id);
  return request;
}

// Windows of ten steps of rank 0.
inline std::vector<v1::MeasuredWindow> Windows(const std::vector<int64_t>& first_steps) {
  std::vector<v1::MeasuredWindow> windows;
  for (const int64_t step : first_steps) {
    v1::MeasuredWindow& window = windows.emplace_back();
    window.set_first_step(step);
    window.set_step_count(10);
    window.mutable_median_step_duration()->set_nanos(100'000'000);
  }
  return windows;
}

inline std::vector<int64_t> FirstSteps(const std::vector<v1::MeasuredWindow>& windows) {
  std::vector<int64_t> steps;
  for (const v1::MeasuredWindow& window : windows) steps.push_back(window.first_step());
  return steps;
}

}  // namespace parplan::sidecar

#endif  // PARPLAN_TESTS_CLIENTS_KUBERNETES_JOURNAL_CASES_H_
