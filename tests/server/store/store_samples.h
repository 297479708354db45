// Records for tests of the store. The bytes of a record follow from its name, so a test can
// distinguish a whole record from half of one by looking at it alone.

#ifndef PARPLAN_TESTS_SERVER_STORE_STORE_SAMPLES_H_
#define PARPLAN_TESTS_SERVER_STORE_STORE_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/store/records.h"
#include "tests/support/test_folder.h"

namespace parplan {

// 2026-01-01 and `seconds`.
absl::Time SampleTime(int64_t seconds);

// `size` bytes that only this name and size give, every value among them.
std::string SampleBytes(absl::string_view name, size_t size);

// Whether `bytes` are `SampleBytes(name, bytes.size())` and not empty.
bool AreSampleBytes(absl::string_view name, absl::string_view bytes);

// Profile `id` of a node, with request id `request-{id}`.
ProfileRecord SampleProfile(const std::string& cluster, const std::string& node,
                            const std::string& id, size_t size = 300);

// Calibration `id` of a cluster, with request id `request-{id}` and content digest
// `digest-{id}`.
CalibrationRecord SampleCalibration(const std::string& cluster, const std::string& id,
                                    size_t size = 300);

// Plan `id` of a cluster, with request id `request-{id}`; expires an hour after
// `SampleTime(0)`.
PlanRecord SamplePlan(const std::string& cluster, const std::string& id, size_t size = 300);

// Returns a statement that inserts a plan into a table of a schema before that of this release;
// `has_owner`: whether it has the column. `bytes` is a literal of the plan's bytes.
std::string InsertPlanStatement(const PlanRecord& plan, bool has_owner, absl::string_view bytes);

// Execution `id` of a plan, with request id `request-{id}`.
ExecutionRecord SampleExecution(const std::string& plan, const std::string& id);

// The bytes are those of the text `{rank}/{first_step}`.
WindowRecord SampleWindow(int32_t rank, int64_t first_step, size_t size = 60);

// The text `SampleWindow` takes its bytes from.
std::string SampleWindowName(int32_t rank, int64_t first_step);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SERVER_STORE_STORE_SAMPLES_H_
