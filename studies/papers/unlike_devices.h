// The check of BMW's summary that asks for devices of several kinds (docs/papers.md 2.7): what it
// costs to take them as alike, as the groups of the decision tree do. The command `parplan-study
// papers` asks it for its section `unlike-devices`.

#ifndef PARPLAN_STUDIES_PAPERS_UNLIKE_DEVICES_H_
#define PARPLAN_STUDIES_PAPERS_UNLIKE_DEVICES_H_

#include <string>
#include <vector>

#include "studies/papers/paper_models.h"

namespace parplan::papers {

// Two nodes of eight devices each.
struct UnlikeQuestion {
  Family family = Family::kBert;
  // The devices of the two nodes, of which `count` is not read. `weaker` has no more memory, speed
  // or bandwidth than `stronger`, which is not checked.
  Devices weaker;
  Devices stronger;
};

// The rates of one question.
struct UnlikeRow {
  // The name that `ModelName` (paper_models.h) gives.
  std::string model;
  // `rtx-titan, 8 GB`.
  std::string weaker;
  std::string stronger;
  // Predicted samples a second of `galvatron-bmw`, six digits, 0 if nothing fits: on all 16 devices
  // taken as alike, which is as the weaker ones; on the eight weaker ones alone; on the eight
  // stronger ones alone.
  double alike = 0.0;
  double weaker_alone = 0.0;
  double stronger_alone = 0.0;

  friend bool operator==(const UnlikeRow&, const UnlikeRow&) = default;

  // Returns the rate of the two halves together if each has a plan of its own and a share of the
  // batch, and if the exchange of their gradients took no time.
  double Apart() const { return weaker_alone + stronger_alone; }
};

// Plans a question three times, for the model with 32 layers.
UnlikeRow UnlikeRowOf(const UnlikeQuestion& question);

// Lists the questions: every family with 32 layers, on RTX Titans of which half have 8 and half
// have 20 GB, and on RTX Titans with 16 GB beside A100 with 80 GB.
std::vector<UnlikeQuestion> UnlikeQuestions();

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_UNLIKE_DEVICES_H_
