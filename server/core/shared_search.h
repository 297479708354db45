// Queues the search that the callers of a flight wait for. `PlanCore` and `ShapeCore` call it.

#ifndef PARPLAN_SERVER_CORE_SHARED_SEARCH_H_
#define PARPLAN_SERVER_CORE_SHARED_SEARCH_H_

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/system/memory_account.h"
#include "server/core/search_pool.h"
#include "server/core/single_flight.h"

namespace parplan {

// Queues `run` on behalf of `place.holder`, who waits in the flight, and moves it to the place of
// another owner who waits for it too as `FairQueue::Share` says. If a quota or a full queue takes
// the place away, now or later, the callers of that holder alone are refused, and the search goes
// on on behalf of the others. Returns OK if a caller has an answer or will have one; else the error
// of `SearchPool::Submit`, which the flight is to end with. The flight ends with what `run`
// returns, given the pool's question whether to stop, and with INTERNAL if it throws. REQUIRES,
// unchecked: `pool` outlives the search.
template <typename Answer>
absl::Status QueueSharedSearch(
    SearchPool& pool, const std::shared_ptr<Flight<Answer>>& flight, SearchPlace place,
    const std::function<absl::StatusOr<Answer>(const std::function<bool()>&)>& run) {
  while (true) {
    SearchPool::Task task;
    task.run = [flight, run](const std::function<bool()>& stopping) {
      absl::StatusOr<Answer> answer = absl::InternalError("the search threw an exception");
      try {
        answer = run(stopping);
      } catch (const std::exception&) {
        // Searches that have no memory say so themselves (`ExecuteOrder`).
      }
      // Answers to callers are not part of the search, whose memory may be used up.
      const MemoryAccount::Scope uncounted(nullptr);
      flight->Finish(answer);
    };
    task.drop = [flight](const absl::Status& status) { flight->Finish(status); };
    task.place = place;
    task.displace = [&pool, flight, run, cluster = place.cluster](const absl::Status& status,
                                                                  const std::string& holder) {
      const std::optional<std::string> heir = flight->Refuse(holder, status);
      if (!heir.has_value()) return;
      const absl::Status queued = QueueSharedSearch(pool, flight, SearchPlace{*heir, cluster}, run);
      if (!queued.ok()) flight->Finish(queued);
    };
    const absl::StatusOr<SearchPool::TaskId> id = pool.Submit(std::move(task));
    if (id.ok()) {
      // It may have been displaced already, and be queued again with a higher id.
      flight->OnShared(*id, [&pool, id = *id](const std::string& owner) { pool.Share(id, owner); });
      return absl::OkStatus();
    }
    if (id.status().code() != absl::StatusCode::kResourceExhausted) return id.status();
    const std::optional<std::string> heir = flight->Refuse(place.holder, id.status());
    if (!heir.has_value()) return absl::OkStatus();
    place.holder = *heir;
  }
}

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_SHARED_SEARCH_H_
