// The main loop of `exact`: bounds candidates and searches those whose bound allows a plan better
// than the best one found (the incumbent). Used by `SearchExact`, by its searches of smaller spaces
// (space_search.h) and by `FindLeastMemoryPlan`.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a meter
// counts states and says when a search must end (search_meter.h); a candidate is all plans of one
// batch size, pipeline degree, number of micro-batches and schedule; an option is a strategy of a
// layer definition with its costs (option_table.h); a partition is the number of layers of each
// stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_BEST_FIRST_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_BEST_FIRST_SEARCH_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/planners/exact/candidate_queue.h"
#include "planner/planners/exact/exact_candidates.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/planners/exact/visit_cache.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/base/search_numbers.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// Lower bounds of the time per sample of the plans of one space, by kind of plan. Infinite where
// the space has none or none fits; 0, the default, where nothing is known.
struct KindBounds {
  // Plans of one stage a device.
  Seconds plain;
  // Interleaved plans of listed partitions (interleaved_partitions.h), or of all if the others are
  // not searched apart.
  Seconds listed;
  // Interleaved plans of partitions that are not listed, if they are searched apart.
  Seconds uneven;
  // Interleaved plans with groups of more micro-batches than the pipeline degree.
  Seconds grouped;
};

// A best-first branch-and-bound search over the candidates of one problem. A memory front uses
// several, which differ in memory only.
//
//   BestFirstSearch search(problem, costs, control, tables, meter, /*wanted=*/1);
//   if (!search.List()) return;  // A limit ended it; `meter.limit()` says which.
//   search.Run();
//   const std::vector<PredictedPlan>& best = search.plans().plans();
//   const Seconds proved = search.BoundPerSample();
//
// Setters are called before `Run`, `RunUneven` or `Prove`, and candidates are listed or taken
// before, too. Each of these may end early because `meter` stopped; plans and bounds found until
// then hold. Keeps references to the arguments of the constructor, which must outlive it. The
// caller uses it on one thread, on which `control.on_progress` is called; it searches on those of
// `control.parallel_for`.
//
// Candidates are visited in rounds of fixed size, each with the incumbent of the rounds before, so
// the result is the same on any number of threads. docs/glossary.md draws the life of a candidate.
class BestFirstSearch {
 public:
  // Finds the best `wanted` plans, at least 1, within the limits of `control` and of `meter`, which
  // counts the states, and looks for none that is better by less than `control.wanted_gap_ratio`.
  // REQUIRES, unchecked: `costs` are those of `problem`; `meter` has been made with `control` or
  // with one of the same limits and effort, which may be raised between two calls of `Run`;
  // problems that share `tables` differ only in what `TableCache` allows.
  BestFirstSearch(const PlanningProblem& problem, const CostModel& costs,
                  const SearchControl& control, TableCache& tables, SearchMeter& meter, int wanted)
      : costs_(costs),
        control_(control),
        tables_(tables),
        meter_(meter),
        space_(problem, costs),
        wanted_(wanted),
        has_batch_range_(problem.GlobalBatchSizes().size() > 1),
        plans_(wanted) {}

  // Lists and bounds all candidates, regardless of memory. Returns false if a limit ended it: then
  // `meter` has stopped and there are no candidates. `memo` is that of `ListCandidates`.
  bool List(LeastTimesMemo& memo);
  // The same with a memo of its own.
  bool List();
  // Lists only candidates of interleaved plans with partitions that are not listed, whether the
  // space searches these apart or not, for `RunUneven` instead of `Run`. Returns what `List` does.
  bool ListUneven(LeastTimesMemo& memo);
  // Replaces `List`: takes the candidates as another search listed them, or those of a search with
  // more memory, whose bounds hold here too. Those of `KindBounds::uneven` that the other search
  // has searched are not searched again and keep their bounds; all others are. REQUIRES, unchecked:
  // `list.complete`.
  void Take(CandidateList list);
  // Searches until no candidate can be better than the incumbent, every candidate that can has been
  // searched as far as the limits of the method allow (`control.effort`), `meter` stops, or the
  // bound of `set_enough` is proved. Candidates that the method gave up keep their bounds, so
  // `BoundPerSample` then stays below the time of the best plan. Interleaved plans of partitions
  // that are not listed, and those of larger groups, come last, with limits for all of them
  // together.
  void Run();
  // Searches the candidates of `ListUneven` that may be better than the plans there are, the one of
  // the least bound first. It ends at the latest when plans of two of them have been simulated.
  void RunUneven();
  // Makes the next `Run` search again what the last one left open, for which `control` should allow
  // more effort. Without it `Run` searches all but partitions that are not listed again.
  void Reopen();

  // Takes the place of `Run` where only plans that take less time per sample than `enough` matter.
  // Tries to prove that no plan of the kinds whose bound in `known` is below it does, except for
  // partitions that are not listed, which are searched as by `Run`. Gives up at the first candidate
  // that it cannot close, and at once if plans of larger groups are open, which only `Run`
  // searches. Adds the plans that it meets to `plans`. Returns whether `Run` would find none that
  // is faster than `enough` and than those; false if `meter` stopped. Either way, the bounds that
  // it leaves hold for the kinds it looked at; those of the others are infinite, so `IsEmpty` says
  // nothing about them. Sets the ceiling to `enough` and disables seeding.
  bool Prove(const KindBounds& known, Seconds enough);

  // Makes `Run` end once it is proved that no plan takes less time per sample than `bound`; never
  // if that is infinite, which is the default. Until then the search goes as it would without, and
  // so does what it finds.
  void set_enough(Seconds bound) { enough_ = bound; }
  // Makes the search look only for plans that take less time per sample than `bound`; infinite, the
  // default, for any.
  void set_ceiling(Seconds bound) { ceiling_ = bound; }
  // Takes visits from `visits`, which must outlive the search, and records new ones in it. Null,
  // which is the default, for none.
  void set_visits(VisitCache* visits);
  // Makes `Run` search partitions that are not listed for a first time after `count` states instead
  // of 20,000. For tests.
  void set_states_before_uneven(int64_t count) { states_before_uneven_ = count; }
  // Prevents the search from asking other methods (`SeedPlans`) for a first plan, which it does
  // otherwise, at most once, if it has searched long without one.
  void DisableSeeding() { was_seeded_ = true; }
  // Reports progress while another search works on a part of the question, of which it has expanded
  // `states_of_part` that the meter does not have yet. Does nothing without `control.on_progress`.
  void ReportDuringPart(int64_t states_of_part) { Report(states_of_part); }
  // Returns whether it is proved that no plan of the space fits; false before the candidates are
  // listed. Block recomputation (block_search.h) is not looked at.
  bool IsEmpty() const;

  // Returns whether there are no candidates at all.
  bool has_none() const { return candidates_.empty() && uneven_.empty() && grouped_.empty(); }
  // Returns a copy of the candidates with the bounds found so far.
  CandidateList list() const { return {candidates_, uneven_, grouped_, listed_all_}; }
  // Returns the lower bound of the time per sample of interleaved plans; infinite if there are
  // none, and also before the candidates are listed.
  Seconds InterleavedBoundPerSample() const;
  // Returns the lower bounds of the time per sample by kind of plan; 0 if candidates are missing.
  KindBounds BoundsPerSample() const;
  // Returns the number of candidates except those of `KindBounds::uneven` and `grouped`.
  int64_t candidate_count() const { return static_cast<int64_t>(candidates_.size()); }
  // Return the plans found so far, to which callers may offer others that fit and so lower the
  // cutoff, and the space; valid as long as this object.
  PlanList& plans() { return plans_; }
  const StrategySpace& space() const { return space_; }

  // Returns the time per sample below which plans are looked for: that of the last of the wanted
  // plans, or the ceiling if that is less.
  Seconds WantedPerSample() const { return std::min(plans_.CutoffPerSample(), ceiling_); }
  // Returns the value of `set_ceiling`; infinite if it was not called.
  Seconds ceiling() const { return ceiling_; }
  // Returns the proved lower bound of the time per sample of any plan without block recomputation,
  // at most the time of the best of `plans`. 0 if candidates are missing, and also if no plan fits,
  // which `IsEmpty` says.
  Seconds BoundPerSample() const;

 private:
  // Least number of candidates in a group for which a steady bound is computed, since it costs more
  // than the bound of one candidate. Not measured for other values.
  static constexpr int kFewestInGroup = 3;

  // A search that ended without a proof.
  struct Unproved {
    int64_t micro_batch_count = 0;
    Seconds bound_per_sample;
  };
  // Facts about the candidates of a group to which `SteadyBound` applies, for one of the two kinds
  // of schedules.
  struct SteadyGroup {
    int candidate_count = 0;
    // `SteadyBound` per micro-batch, once computed.
    std::optional<Seconds> bound;
  };
  // Facts about all candidates that share a table of options, and so about many batch sizes.
  struct Group {
    SteadyGroup one_forward_one_backward;
    SteadyGroup interleaved;
    // The fewest micro-batches with which nothing fits under GPipe; more do not fit either.
    int64_t too_many_for_gpipe = std::numeric_limits<int64_t>::max();
    // [schedule] the unproved search with most micro-batches.
    Unproved unproved[kScheduleCount + 1];

    SteadyGroup& steady(bool interleaves) {
      return interleaves ? interleaved : one_forward_one_backward;
    }
    const SteadyGroup& steady(bool interleaves) const {
      return interleaves ? interleaved : one_forward_one_backward;
    }
  };
  // Identifies one steady bound.
  struct Question {
    TableCache::Key key;
    bool interleaves = false;
    friend auto operator<=>(const Question&, const Question&) = default;
  };

  void MakeGroups();
  // Returns the lower bound that follows from the facts about the candidate's group.
  Seconds GroupBound(const PipelineCandidate& candidate) const;
  // Returns whether searching the candidate cannot improve the answer: a candidate of its group
  // with more micro-batches and a bound no higher ended without a proof. The proved bound of the
  // answer cannot exceed that one's, whatever this search finds, and the plan it finds is hardly
  // faster per sample.
  bool IsDominated(const ExactCandidate& candidate) const;
  // Computes the steady bounds of the groups of a round that have enough candidates.
  void BoundGroups(const std::vector<size_t>& round);

  // Returns the cutoff: candidates whose bound per sample is not below it are closed,
  // because none of their plans is faster than the incumbent by more than the wanted gap.
  Seconds CutoffPerSample() const {
    const double gap = std::max(control_.wanted_gap_ratio.value_or(0.0), kProofTolerance);
    return WantedPerSample() * (1.0 - gap);
  }
  // Returns whether it is proved that no plan takes less than `enough_`.
  bool IsEnough() const { return enough_.is_finite() && BoundPerSample() >= enough_; }
  // Removes from the queue and returns its first candidates, all in one state.
  std::vector<size_t> NextRound(CandidateQueue& queue);
  // Asks other methods for an incumbent, once, if the search is hard.
  void Seed();
  // The work that `SearchUneven` may do. None of it depends on what was found before, and a lower
  // cutoff only leaves more of it, for candidates that `CapacityBound` does not close. So with a
  // lower cutoff `SearchUneven` finds every plan below it that it finds with a higher one.
  struct UnevenLimits {
    // Tables of options used.
    int64_t max_tables = 0;
    // Candidates of which plans are simulated, and plans simulated of one.
    int max_looked = 0;
    int64_t max_looks_of_candidate = 0;
    // Whether to end when the candidate of the least bound has been searched: no bound of the whole
    // question can be found then.
    bool ends_with_bound = false;
    // Whether to end when plans of `max_looked` candidates have been simulated: only bounds are
    // left to find then.
    bool ends_with_plans = false;
  };
  // Bounds and searches interleaved plans with partitions that are not listed, the candidate of the
  // least bound first, until a limit is reached.
  void SearchUneven(const UnevenLimits& limits);
  // Returns `UnevenSteadyBound` of a usable table of `uneven_`, computed once for all candidates in
  // `steady`. 0 if fewer than `kFewestInGroup` candidates share the table.
  Seconds UnevenBoundOfTable(const TableCache::Key& key,
                             std::map<TableCache::Key, Seconds>& steady) const;
  // Returns the limits of `Run`.
  UnevenLimits LimitsOfRun() const;
  // Searches such plans before the rest, for a plan that closes other candidates. It looks at the
  // candidates that the search at the end would look at, in the same order, with a cutoff that is
  // not lower, and leaves them as they were.
  void LookEarly();
  // Searches interleaved plans with groups of more micro-batches than the pipeline degree, the
  // candidate of the least bound first, until none can be better than the incumbent or the work
  // that is allowed for all of them is done.
  void SearchGroups();
  // Returns whether candidates are bounded by `CapacityBound` before their tables are made: with a
  // range of batch sizes, where most tables serve one candidate or two, once there is a cutoff.
  // Questions of one batch need most of their tables anyway: for Llama-70B on 64 devices,
  // Llama-405B on 262,144 and GPT-3 on 4,096 the bound changed the executed instructions by -3, +2
  // and +3 %.
  bool AsksCapacity() const { return has_batch_range_ && WantedPerSample().is_finite(); }
  // Bounds the candidates of a round by `CapacityBound`, which needs no tables, and removes those
  // that it closes. Does nothing unless `AsksCapacity`. Returns false if a limit ended it.
  bool CloseByCapacity(std::vector<size_t>& round);
  // Bounds a candidate whose least costs are prepared. Returns whether that closes it.
  bool IsClosedByCapacity(ExactCandidate& candidate) const;
  // Prepares the tables of a round. Returns false if a limit ended it.
  bool PrepareTables(const std::vector<size_t>& round);
  // Bounds or searches the candidates of a round, and settles what was found.
  void Visit(std::vector<size_t> round);
  // Returns what identifies the next visit of a candidate.
  VisitCache::Key VisitKey(const ExactCandidate& candidate) const;
  CandidateVisit VisitOne(const ExactCandidate& candidate, SearchMeter& meter) const;
  // Records the outcome of a visit: bound, state and plans of the candidate, facts about its group,
  // and counts of states.
  void Settle(CandidateVisit visited, ExactCandidate& candidate);
  // Returns the state of a candidate after a visit that no limit ended.
  static ExactCandidate::State StateAfter(ExactCandidate::State state,
                                          const CandidateVisit& visited);
  // `states_of_round` is about the number of states expanded in a round or part in progress, which
  // the meter does not have yet.
  void Report(int64_t states_of_round);

  const CostModel& costs_;
  const SearchControl& control_;
  TableCache& tables_;
  SearchMeter& meter_;
  const StrategySpace space_;
  const int wanted_;
  const bool has_batch_range_;
  std::vector<ExactCandidate> candidates_;
  // Those of partitions that are not listed, if they are searched apart.
  std::vector<ExactCandidate> uneven_;
  // Those of groups of more micro-batches than the pipeline degree, which are searched apart.
  std::vector<ExactCandidate> grouped_;
  absl::flat_hash_map<TableCache::Key, Group> groups_;
  bool listed_all_ = false;
  bool was_seeded_ = false;
  // States expanded after which partitions that are not listed are searched for a first time,
  // before all others are proved. Their plans are rarely the fastest, but where they are, they
  // close most candidates of one stage a device, which may take a hundred times as long. Dense
  // models are mostly proved with fewer states.
  int64_t states_before_uneven_ = 20'000;
  Seconds enough_ = Seconds::Infinite();
  Seconds ceiling_ = Seconds::Infinite();
  VisitCache* visits_ = nullptr;
  // `VisitCache::StrategiesId` of the space.
  int strategies_of_visits_ = 0;
  int64_t reported_states_ = 0;
  PlanList plans_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_BEST_FIRST_SEARCH_H_
