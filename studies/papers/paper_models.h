// The models and devices of the papers' experiments, as far as the texts and the authors' public
// constants have their sizes (docs/papers.md 1.7 and 2.5). The other files of this folder make
// their questions with it.

#ifndef PARPLAN_STUDIES_PAPERS_PAPER_MODELS_H_
#define PARPLAN_STUDIES_PAPERS_PAPER_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model/model_spec.h"
#include "planner/model/planning_problem.h"

namespace parplan::papers {

// BERT-Huge, ViT-Huge, T5-Large, T5-Large with 4 tokens out (T5-512/4), Swin-Huge.
enum class Family { kBert, kVit, kT5, kT5Short, kSwin };
inline constexpr Family kFamilies[] = {Family::kBert, Family::kVit, Family::kT5, Family::kT5Short,
                                       Family::kSwin};

// Returns `BERT-Huge-32`, `T5-512/4-48` and so on.
std::string ModelName(Family family, int layer_count);

// Returns a model of so many Transformer layers, in fp32 with Adam. Half of T5's are decoders.
// Swin's have four sizes, one for each stage of that model: all but six of its layers have the
// third size, and two each of the others. The papers have 32 and 48 layers; other numbers have the
// same shapes. REQUIRES: layer_count >= 8, else this aborts; T5 has one layer less than an odd
// count, which is not checked.
ModelSpec ModelOf(Family family, int layer_count);

// One cell of the papers' tables of throughput (grid.h): a model on so many devices with so much
// memory.
struct GridQuestion {
  Family family = Family::kBert;
  int layer_count = 32;
  int device_count = 8;
  // Memory of a device, in GiB.
  int memory_gb = 16;
};

// Global batches of a question, in samples: `step`, twice `step` and so on up to `largest`. With
// gradient accumulation any batch fits into memory, so the range needs an end of our choice.
// Throughput still grows at that end, because more samples share one pass of the optimizer. The
// papers go up by 8 samples; ours go up by more, which keeps the whole study near two minutes of
// one core.
struct BatchRange {
  int64_t step = 0;
  int64_t largest = 0;
};
// Returns the batches of n devices: 8 n and 16 n samples for up to 16 devices, 16 n alone for more.
BatchRange BatchesOf(int device_count);

// Devices of one kind in nodes of eight.
struct Devices {
  // Id in the library of hardware.
  std::string kind = "rtx-titan";
  int count = 8;
  // GiB a device.
  int memory_gb = 16;
};
// Returns a problem with times from data sheets and the calibration inside the program; `largest`
// is the only batch if `step` is 0. REQUIRES: full nodes of eight, or fewer than eight devices, of
// a kind of the library, and a valid question; aborts otherwise.
PlanningProblem ProblemOf(ModelSpec model, const Devices& devices, const BatchRange& batches);

// Returns the problem of a question: RTX Titans, and `BatchesOf` these.
PlanningProblem ProblemOf(const GridQuestion& question);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_PAPER_MODELS_H_
