// The loss of the papers' dynamic program on one stage, against the proved optimum of the same
// space: its memory is rounded up layer by layer, and it looks for the least time within the memory
// kept from forward to backward before it checks the backward pass (docs/papers.md 2.2). The
// command `parplan-study papers` asks it for its section `forward-memory`.

#ifndef PARPLAN_STUDIES_PAPERS_FORWARD_MEMORY_H_
#define PARPLAN_STUDIES_PAPERS_FORWARD_MEMORY_H_

#include <string>
#include <vector>

#include "planner/model/planning_problem.h"
#include "studies/papers/paper_models.h"

namespace parplan::papers {

// All questions of a model on one stage of 8 devices: 8 to 20 GiB in steps of 2; batches of 8 to 64
// and 1 to 8 micro-batches, each doubling.
struct ForwardMemoryRow {
  // The name that `ModelName` (paper_models.h) gives.
  std::string model;
  // Questions for which the optimum has a plan.
  int question_count = 0;
  // Questions with a plan as fast as that within 1e-6.
  int equal_count = 0;
  // Slower than that, but as fast as the same program without decoupling: rounding is all it loses.
  int rounding_count = 0;
  // Slower than the same program without decoupling (`RateWithoutDecoupling`).
  int decoupling_count = 0;
  // No plan where the optimum has one. Not counted above.
  int no_plan_count = 0;
  // Mean and largest share of the optimum's rate lost, of the questions with both plans; six
  // digits.
  double mean_loss = 0.0;
  double worst_loss = 0.0;
  // `8 GB, batch 16 in 2` (micro-batches); empty if no plan is slower.
  std::string worst_question;
  // Largest share of the rate of the program without decoupling that decoupling loses; six digits.
  double worst_decoupling_loss = 0.0;
  std::string worst_decoupling_question;

  friend bool operator==(const ForwardMemoryRow&, const ForwardMemoryRow&) = default;
};

// Plans all questions of a model (paper_models.h), each with up to three methods.
ForwardMemoryRow ForwardMemoryRowOf(Family family, int layer_count);

// Returns the samples a second of the best plan of one stage that the dynamic program finds, with
// the same rounding of memory and the same check of the peak, if it is run once for every value
// that the transient memory of a layer can have, over the strategies that need no more: so it no
// longer keeps only the fastest plan of a budget, which may be one with a large transient. Never
// slower than the program with decoupling, which is the run of the largest value. Ends with the
// first plan that reaches `enough`; 0 if nothing fits.
//
// REQUIRES, unchecked: the rules of `problem` have one stage and a number of micro-batches, which
// divides its batch. Aborts if `CostModel::Create` refuses it.
double RateWithoutDecoupling(const PlanningProblem& problem, double enough);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_FORWARD_MEMORY_H_
