#include "server/metrics/observer_series.h"

#include "server/metrics/families.h"

namespace parplan {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;

// Label value of unknown planners and methods.
constexpr char kOther[] = "other";

}  // namespace

PrometheusObserver::Handles::Handles(const std::vector<std::string>& planners,
                                     const std::vector<std::string>& methods)
    : registry(std::make_shared<prometheus::Registry>()),
      requests(Counters(*registry, "parplan_requests_total",
                        "Calls answered, by method and gRPC status code."),
               "method", static_cast<int>(methods.size()) + 1,
               [this](int row) {
                 return row < static_cast<int>(method_names.size()) ? method_names[row] : kOther;
               }),
      request_durations(Histograms(*registry, "parplan_request_duration_seconds",
                                   "Time from a call's arrival to its answer.")),
      requests_in_flight(
          Gauges(*registry, "parplan_requests_in_flight", "Calls that wait for their answer now.")),
      method_names(methods),
      store_calls(Counters(*registry, "parplan_store_calls_total",
                           "Calls of the store, by operation and status code."),
                  "operation", static_cast<int>(kStoreOperations.size()),
                  [](int row) { return std::string(kStoreOperations[row]); }),
      clusters(*registry) {
  MakeRequestHandles();
  MakeSearchHandles(planners);
  MakePlanHandles();
  MakeCountHandles();
  MakeLeaseHandles();
  MakeStoreHandles();
}

const PrometheusObserver::Handles::PlannerHandles& PrometheusObserver::Handles::Planner(
    const std::string& name) const {
  const auto found = planners.find(name);
  return found == planners.end() ? planners.at(kOther) : found->second;
}

const PrometheusObserver::Handles::MethodHandles& PrometheusObserver::Handles::Method(
    absl::string_view name) {
  const auto found = methods.find(std::string(name));
  if (found != methods.end()) return found->second;
  // Made when it is needed, since every service passes names of the contract.
  std::call_once(other_method_made, [this] {
    other_method = MakeMethodHandles(kOther, static_cast<int>(method_names.size()));
  });
  return other_method;
}

void PrometheusObserver::Handles::MakeRequestHandles() {
  for (size_t i = 0; i < method_names.size(); ++i) {
    methods[method_names[i]] = MakeMethodHandles(method_names[i], static_cast<int>(i));
  }
  auto& family = Counters(*registry, "parplan_rejects_total", "Calls refused, by reason.");
  for (int i = 1; i <= kReasonCount; ++i) {
    rejects[i] = &family.Add({{"reason", ReasonLabel(static_cast<Reason>(i))}});
  }
}

PrometheusObserver::Handles::MethodHandles PrometheusObserver::Handles::MakeMethodHandles(
    const std::string& name, int row) {
  const MetricLabels labels = {{"method", name}};
  return {.row = row,
          .in_flight = &requests_in_flight.Add(labels),
          .duration = &request_durations.Add(labels, DurationBuckets())};
}

void PrometheusObserver::Handles::MakeSearchHandles(const std::vector<std::string>& names) {
  searches_waiting = &OneGauge(*registry, "parplan_searches_waiting", "Searches in the queue now.");
  searches_running = &OneGauge(*registry, "parplan_searches_running", "Searches running now.");
  queue_limit = &OneGauge(*registry, "parplan_search_queue_limit", "Searches that may wait.");
  workers = &OneGauge(*registry, "parplan_search_workers", "Searches that may run at once.");
  searches_shared = &OneCounter(*registry, "parplan_searches_shared_total",
                                "Calls that found their question in flight.");
  queue_duration = &Histograms(*registry, "parplan_search_queue_duration_seconds",
                               "Time a search waited for its turn.")
                        .Add({}, DurationBuckets());
  Family<Counter>& searches =
      Counters(*registry, "parplan_searches_total", "Searches ended, by planner and outcome.");
  Family<Histogram>& durations =
      Histograms(*registry, "parplan_search_duration_seconds", "Wall time of a search.");
  Family<Counter>& cpu =
      Counters(*registry, "parplan_search_cpu_seconds_total", "Processor time of searches.");
  Family<Counter>& states =
      Counters(*registry, "parplan_search_states_total", "Partial plans expanded by searches.");
  Family<Counter>& plans =
      Counters(*registry, "parplan_plans_issued_total", "Plans signed and stored.");
  std::vector<std::string> all = names;
  all.push_back(kOther);
  for (const std::string& name : all) {
    PlannerHandles& handles = planners[name];
    const MetricLabels labels = {{"planner", name}};
    for (int i = 0; i < kSearchOutcomeCount; ++i) {
      handles.searches[i] = &searches.Add(
          {{"planner", name}, {"outcome", SearchOutcomeLabel(static_cast<SearchOutcome>(i))}});
    }
    handles.duration = &durations.Add(labels, DurationBuckets());
    handles.cpu_seconds = &cpu.Add(labels);
    handles.states = &states.Add(labels);
    handles.plans = &plans.Add(labels);
  }
}

void PrometheusObserver::Handles::MakePlanHandles() {
  predicted_step = &Histograms(*registry, "parplan_predicted_step_seconds",
                               "Predicted time of one optimizer step of issued plans.")
                        .Add({}, StepBuckets());
  predicted_throughput = &Histograms(*registry, "parplan_predicted_throughput_samples_per_second",
                                     "Predicted throughput of issued plans.")
                              .Add({}, Exponential(0.1, 4.0, 12));
  predicted_peak_memory = &Histograms(*registry, "parplan_predicted_peak_memory_bytes",
                                      "Predicted memory of the fullest device of issued plans.")
                               .Add({}, Exponential(1e9, 1.6, 12));
  predicted_headroom = &Histograms(*registry, "parplan_predicted_memory_headroom_ratio",
                                   "Share of usable device memory that issued plans leave free.")
                            .Add({}, Buckets{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75});
  profile_age = &Histograms(*registry, "parplan_profile_age_seconds",
                            "Age of the newest measurement an issued plan rests on.")
                     .Add({}, Buckets{3600.0, 86400.0, 604800.0, 2592000.0, 7776000.0, 31536000.0});
  baseline_gain =
      &Histograms(*registry, "parplan_baseline_gain_ratio",
                  "Predicted step time of the best baseline over that of the plan, where asked "
                  "for.")
           .Add({}, Buckets{0.9, 1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 5.0});
}

void PrometheusObserver::Handles::MakeCountHandles() {
  Family<Counter>& lookups = Counters(*registry, "parplan_cache_lookups_total",
                                      "Looks into answers kept in memory, by cache and result.");
  for (int i = 0; i < kCacheKindCount; ++i) {
    const std::string cache = CacheKindLabel(static_cast<CacheKind>(i));
    cache_lookups[i][0] = &lookups.Add({{"cache", cache}, {"result", "miss"}});
    cache_lookups[i][1] = &lookups.Add({{"cache", cache}, {"result", "hit"}});
  }
  Family<Counter>& uploads = Counters(*registry, "parplan_uploads_total",
                                      "Profile uploads, by result: stored, or why refused.");
  uploads_stored = &uploads.Add({{"result", "stored"}});
  for (int i = 1; i <= kReasonCount; ++i) {
    uploads_rejected[i] = &uploads.Add({{"result", ReasonLabel(static_cast<Reason>(i))}});
  }
  uploads_rejected[0] = &uploads.Add({{"result", "other"}});
  upload_size = &Histograms(*registry, "parplan_upload_size_bytes", "Size of uploads.")
                     .Add({}, Exponential(1024.0, 4.0, 10));
  Family<Counter>& verdicts =
      Counters(*registry, "parplan_plan_verifications_total", "Answers of VerifyPlan, by verdict.");
  for (int i = 0; i < kVerifyOutcomeCount; ++i) {
    verifications[i] =
        &verdicts.Add({{"verdict", VerifyOutcomeLabel(static_cast<VerifyOutcome>(i))}});
  }
  Family<Histogram>& phases =
      Histograms(*registry, "parplan_phase_duration_ratio",
                 "Measured over predicted time of a phase, by stage of closed executions.");
  for (int i = 1; i <= kPhaseCount; ++i) {
    phase_ratios[i] = &phases.Add({{"phase", PhaseLabel(i)}}, RatioBuckets());
  }
  Family<Histogram>& items =
      Histograms(*registry, "parplan_memory_item_ratio",
                 "Measured over predicted memory of an item, by stage of closed executions.");
  for (int i = 1; i <= kMemoryItemCount; ++i) {
    memory_item_ratios[i] = &items.Add({{"item", MemoryItemLabel(i)}}, RatioBuckets());
  }
  windows_stored = &OneCounter(*registry, "parplan_windows_stored_total",
                               "Measured windows stored, duplicates excluded.");
}

void PrometheusObserver::Handles::MakeLeaseHandles() {
  leases_active = &OneGauge(*registry, "parplan_leases_active", "Leases of nodes that go on now.");
  Family<Counter>& ended =
      Counters(*registry, "parplan_leases_ended_total", "Leases of nodes ended, by outcome.");
  for (int i = 0; i < kLeaseOutcomeCount; ++i) {
    leases_ended[i] = &ended.Add({{"outcome", LeaseOutcomeLabel(static_cast<LeaseOutcome>(i))}});
  }
  Family<Counter>& refusals =
      Counters(*registry, "parplan_lease_refusals_total", "Leases refused, by cause.");
  for (int i = 0; i < kLeaseRefusalKindCount; ++i) {
    lease_refusals[i] =
        &refusals.Add({{"cause", LeaseRefusalLabel(static_cast<LeaseRefusalKind>(i))}});
  }
  lease_duration = &Histograms(*registry, "parplan_lease_duration_seconds",
                               "Time from the grant of a lease to its end.")
                        .Add({}, Exponential(1.0, 2.0, 12));
}

void PrometheusObserver::Handles::MakeStoreHandles() {
  Family<Histogram>& durations =
      Histograms(*registry, "parplan_store_call_duration_seconds", "Time of a call of the store.");
  for (size_t i = 0; i < kStoreOperations.size(); ++i) {
    store_duration[i] = &durations.Add({{"operation", kStoreOperations[i]}}, StoreBuckets());
    // These exist from the start, so that `rate` sees the first failure as a change.
    store_calls.At(static_cast<int>(i), absl::StatusCode::kOk);
    store_calls.At(static_cast<int>(i), absl::StatusCode::kUnavailable);
  }
  store_writable = &OneGauge(*registry, "parplan_store_writable",
                             "Whether changes can be stored; with 0 the server only reads.");
  // Until it was tried.
  store_writable->Set(1);
  key_expiry = &OneGauge(*registry, "parplan_signing_key_expiry_timestamp_seconds",
                         "When the last key that signs plans, or will, ends.");
  signing_keys = &OneGauge(*registry, "parplan_signing_keys",
                           "Keys that sign plans now; without one no plan is made.");
  unread_answers = &OneCounter(*registry, "parplan_unread_answers_total",
                               "Calls that were broken off because their client did not read "
                               "the answer.");
  audit_failures = &OneCounter(*registry, "parplan_audit_failures_total",
                               "Lines that could not be written to the audit log.");
}

}  // namespace parplan
