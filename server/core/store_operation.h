// Names of the methods of `Store`, for metrics and logs. `MeteredStore` reports them.

#ifndef PARPLAN_SERVER_CORE_STORE_OPERATION_H_
#define PARPLAN_SERVER_CORE_STORE_OPERATION_H_

#include <array>
#include <compare>
#include <cstddef>
#include <string_view>

namespace parplan {

// Every method of `Store`, in lower case with words joined by `_`. These are label values: stable
// once released. A new method of `Store` needs a line here, which `MeteredStore` names.
inline constexpr auto kStoreOperations = std::to_array<const char*>({
    "try_write",
    "put_profile",
    "get_profile",
    "list_profiles",
    "delete_profile",
    "snapshot_profiles",
    "profiles_without_coverage",
    "set_coverages",
    "profile_revision",
    "profile_revisions",
    "put_calibration",
    "get_calibration",
    "list_calibrations",
    "activate_calibration",
    "active_calibration",
    "put_plan",
    "get_plan",
    "find_plan_by_key",
    "find_plan_by_request_id",
    "find_plan_of_job",
    "find_job",
    "find_plan_by_answer",
    "list_plans",
    "list_own_plans",
    "count_plans",
    "delete_expired_plans",
    "usage",
    "replaced_bytes",
    "has_spec",
    "create_execution",
    "get_execution",
    "list_executions",
    "set_execution_state",
    "fail_silent_executions",
    "delete_old_executions",
    "append_windows",
    "window_count",
    "list_windows",
});

// One of `kStoreOperations`. Made from a string constant; any other string does not compile:
//
//   observer.StoreCalled("put_plan", code, duration);
class StoreOperation {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a constant is meant to stand for it.
  consteval StoreOperation(const char* name) : index_(IndexOf(name)) {}

  // Place in `kStoreOperations`.
  constexpr int index() const { return index_; }
  constexpr const char* name() const { return kStoreOperations[index_]; }

  friend constexpr auto operator<=>(StoreOperation, StoreOperation) = default;

 private:
  static consteval int IndexOf(std::string_view name) {
    for (size_t i = 0; i < kStoreOperations.size(); ++i) {
      if (name == kStoreOperations[i]) return static_cast<int>(i);
    }
    throw "not one of kStoreOperations";
  }

  int index_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_STORE_OPERATION_H_
