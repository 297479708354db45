// Measures the cost of the SQLite store: a durable PutPlan and the same without its flush,
// the look-ups of a cached plan, and what the flush costs a crowd.
//
//   build/bench/benchmarks/store_benchmark
//
// The directory of PARPLAN_BENCHMARK_DIR, else TMPDIR, else /tmp, holds the
// database; the figures of PutPlan are those of its disk.

#include <benchmark/benchmark.h>
#include <stdlib.h>  // mkdtemp

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/store/sqlite_store.h"

namespace parplan {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1767225600);

std::string ParentFolder() {
  for (const char* name : {"PARPLAN_BENCHMARK_DIR", "TMPDIR"}) {
    if (const char* value = std::getenv(name)) return value;
  }
  return "/tmp";
}

// A store in a folder of its own, removed at the end.
class TemporaryStore {
 public:
  explicit TemporaryStore(bool flush_every_commit) {
    folder_ = absl::StrCat(ParentFolder(), "/parplan_benchmark_XXXXXX");
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
    auto store =
        SqliteStore::Open({.directory = folder_, .flush_every_commit = flush_every_commit});
    if (!store.ok()) std::abort();
    store_ = *std::move(store);
  }
  ~TemporaryStore() {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  Store& operator*() const { return *store_; }
  Store* operator->() const { return store_.get(); }

 private:
  std::string folder_;
  std::unique_ptr<Store> store_;
};

// A plan of 4 KB, about that of eight devices and a few layer runs.
PlanRecord MakePlan(int64_t number) {
  PlanRecord plan;
  plan.plan_id = absl::StrCat(number);
  plan.name = absl::StrCat("clusters/c/plans/", number);
  plan.cluster = "c";
  plan.plan_key = absl::StrCat("0123456789abcdef0123456789abcdef0123456789abcdef-", number);
  plan.request_id = absl::StrCat("request-", number);
  plan.job_id = "job";
  plan.bytes = std::string(4096, 'p');
  plan.create_time = kNow;
  plan.expire_time = kNow + absl::Hours(24);
  return plan;
}

std::unique_ptr<TemporaryStore> shared_store;
std::atomic<int64_t> next_number;

// Every thread puts plans into one store.
void PutPlan(benchmark::State& state, bool flush_every_commit) {
  if (state.thread_index() == 0) {
    next_number = 0;
    shared_store = std::make_unique<TemporaryStore>(flush_every_commit);
  }
  for (auto _ : state) {
    if (!(*shared_store)->PutPlan(MakePlan(next_number++)).ok()) state.SkipWithError("refused");
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) shared_store.reset();
}
BENCHMARK_CAPTURE(PutPlan, flushed, true)->ThreadRange(1, 8)->UseRealTime();
BENCHMARK_CAPTURE(PutPlan, not_flushed, false)->ThreadRange(1, 8)->UseRealTime();

constexpr int64_t kStoredPlans = 10000;

void FillShared(const benchmark::State& state) {
  if (state.thread_index() != 0) return;
  shared_store = std::make_unique<TemporaryStore>(false);
  for (int64_t i = 0; i < kStoredPlans; ++i) {
    if (!(*shared_store)->PutPlan(MakePlan(i)).ok()) std::abort();
  }
}

// One of 10,000 plans by its key.
void FindPlanByKey(benchmark::State& state) {
  FillShared(state);
  int64_t number = state.thread_index();
  for (auto _ : state) {
    number = (number * 48271 + 11) % kStoredPlans;
    const std::string key =
        absl::StrCat("0123456789abcdef0123456789abcdef0123456789abcdef-", number);
    const auto plan = (*shared_store)->FindPlanByKey("c", key, "job", kNow);
    if (!plan.ok() || !plan->has_value()) state.SkipWithError("not found");
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) shared_store.reset();
}
BENCHMARK(FindPlanByKey)->ThreadRange(1, 4)->UseRealTime();

// Asked before every cached answer.
void ProfileRevision(benchmark::State& state) {
  const TemporaryStore store(false);
  ProfileRecord profile;
  profile.name = "clusters/c/nodes/n/profiles/p";
  profile.cluster = "c";
  profile.node = "n";
  if (!store->PutProfile(profile).ok()) state.SkipWithError("refused");
  for (auto _ : state) benchmark::DoNotOptimize(store->ProfileRevision("c"));
}
BENCHMARK(ProfileRevision);

}  // namespace
}  // namespace parplan

BENCHMARK_MAIN();
