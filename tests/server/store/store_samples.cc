#include "tests/server/store/store_samples.h"

#include "absl/strings/str_cat.h"

namespace parplan {

absl::Time SampleTime(int64_t seconds) { return absl::FromUnixSeconds(1767225600 + seconds); }

// A linear congruential generator seeded by FNV-1a of the name and the size.
std::string SampleBytes(absl::string_view name, size_t size) {
  uint64_t state = 14695981039346656037u + size;
  for (const char c : name) state = (state ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::string bytes(size, '\0');
  for (char& c : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
  return bytes;
}

bool AreSampleBytes(absl::string_view name, absl::string_view bytes) {
  return !bytes.empty() && bytes == SampleBytes(name, bytes.size());
}

ProfileRecord SampleProfile(const std::string& cluster, const std::string& node,
                            const std::string& id, size_t size) {
  ProfileRecord profile;
  profile.name = absl::StrCat("clusters/", cluster, "/nodes/", node, "/profiles/", id);
  profile.cluster = cluster;
  profile.node = node;
  profile.profile_id = id;
  profile.device_kind = "a100-40gb";
  profile.request_id = absl::StrCat("request-", id);
  profile.content_digest = absl::StrCat("digest-", id);
  profile.bytes = SampleBytes(profile.name, size);
  profile.create_time = SampleTime(1) + absl::Nanoseconds(7);
  return profile;
}

CalibrationRecord SampleCalibration(const std::string& cluster, const std::string& id,
                                    size_t size) {
  CalibrationRecord calibration;
  calibration.name = absl::StrCat("clusters/", cluster, "/calibrations/", id);
  calibration.cluster = cluster;
  calibration.calibration_id = id;
  calibration.request_id = absl::StrCat("request-", id);
  calibration.content_digest = absl::StrCat("digest-", id);
  calibration.bytes = SampleBytes(calibration.name, size);
  calibration.create_time = SampleTime(2) + absl::Nanoseconds(3);
  return calibration;
}

PlanRecord SamplePlan(const std::string& cluster, const std::string& id, size_t size) {
  PlanRecord plan;
  plan.name = absl::StrCat("clusters/", cluster, "/plans/", id);
  plan.cluster = cluster;
  plan.plan_id = id;
  plan.plan_key = absl::StrCat("key-", id);
  plan.request_id = absl::StrCat("request-", id);
  plan.job_id = "job";
  plan.topology_digest = "topology";
  plan.profile_digest = "profiles";
  plan.bytes = SampleBytes(plan.name, size);
  plan.create_time = SampleTime(0);
  plan.expire_time = SampleTime(3600);
  return plan;
}

std::string InsertPlanStatement(const PlanRecord& plan, bool has_owner, absl::string_view bytes) {
  std::string values;
  for (const std::string& text :
       {plan.name, plan.cluster, plan.plan_id, plan.plan_key, plan.answer_key, plan.request_id,
        plan.job_id, plan.topology_digest, plan.profile_digest}) {
    absl::StrAppend(&values, "'", text, "', ");
  }
  if (has_owner) absl::StrAppend(&values, "'", plan.owner, "', ");
  return absl::StrCat("INSERT INTO plans (name, cluster, plan_id, plan_key, answer_key, ",
                      "request_id, job_id, topology_digest, profile_digest, ",
                      has_owner ? "owner, " : "", "create_time, expire_time, bytes) VALUES (",
                      values, absl::ToUnixNanos(plan.create_time), ", ",
                      absl::ToUnixNanos(plan.expire_time), ", ", bytes, ");\n");
}

ExecutionRecord SampleExecution(const std::string& plan, const std::string& id) {
  ExecutionRecord execution;
  execution.name = absl::StrCat(plan, "/executions/", id);
  execution.plan = plan;
  execution.execution_id = id;
  execution.request_id = absl::StrCat("request-", id);
  execution.start_time = SampleTime(10);
  execution.report_time = execution.start_time;
  execution.bytes = SampleBytes(execution.name, 200);
  return execution;
}

std::string SampleWindowName(int32_t rank, int64_t first_step) {
  return absl::StrCat(rank, "/", first_step);
}

WindowRecord SampleWindow(int32_t rank, int64_t first_step, size_t size) {
  WindowRecord window;
  window.rank = rank;
  window.first_step = first_step;
  window.step_count = 10;
  window.median_step_duration = absl::Microseconds(1500 + rank);
  window.peak_memory_bytes = int64_t{30} << 30;
  window.bytes = SampleBytes(SampleWindowName(rank, first_step), size);
  return window;
}

}  // namespace parplan
