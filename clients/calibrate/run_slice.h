// Selects by a reproducible rule the runs of a file that are fitted, so that the other runs can
// test the fit. `planctl calibrate` reads `--time-slice` and `--memory-slice` with it, and
// `parplan-study accuracy` finds the other runs with it (`IsFitted`).

#ifndef PARPLAN_CLIENTS_CALIBRATE_RUN_SLICE_H_
#define PARPLAN_CLIENTS_CALIBRATE_RUN_SLICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan::planctl {

// The slices from which the calibration inside the programs is made (docs/calibration.md), which
// are the defaults of the two flags. All ids of the first collection, which has
// `megatron-ci-golden`, have even hashes: a modulus of 2 would take all of its rows, and 4 takes
// about half of them. Rows of nanotron are in no slice: step times of plans that are the same to
// the model differ by ten times there.
inline constexpr char kPublishedTimeSlice[] =
    "vtrain-single: sha256(id) % 5 == 0; automodel-*: sha256(id) % 3 == 0; "
    "megatron-bridge-*: sha256(id) % 3 == 0; mlperf-*: sha256(id) % 3 == 0; "
    "nemo-*: sha256(id) % 3 == 0; simumax-*: sha256(id) % 3 == 0; "
    "torchtitan-*: sha256(id) % 3 == 0";
inline constexpr char kPublishedMemorySlice[] = "megatron-ci-golden: sha256(id) % 4 == 0";

// A set of runs, written as rules with semicolons between them. `SOURCE: sha256(id) % MODULUS ==
// REMAINDER` has the runs of one source for which the SHA-256 of the id alone, read as a number of
// 256 bits (first byte highest), leaves that remainder; `SOURCE: all` has every run of the source.
// A SOURCE that ends with `*` stands for all sources that begin so. The text `none`, without any
// rule, has no run. A value; safe to read from any thread.
class RunSlice {
 public:
  // MODULUS is 2 to 1000, REMAINDER 0 or more and below it. Blanks around a SOURCE or a rule do not
  // count; those within `sha256(id) % 5 == 0` must be there. Returns INVALID_ARGUMENT
  // (SPEC_INVALID) that names `field`: with the forms above for other texts, an empty one and one
  // that ends with a semicolon too, and for two rules that could be about one source, such as
  // `wo*: all; world: all`. So at most one rule is about a source.
  static absl::StatusOr<RunSlice> Parse(absl::string_view text, absl::string_view field);

  // Returns whether the run is in the slice; false for a source without a rule.
  bool Holds(absl::string_view source, absl::string_view id) const;

  // Returns whether some rule is about the source.
  bool Names(absl::string_view source) const { return Find(source) != nullptr; }
  // Returns the rule of a source, for example `sha256(id) % 5 == 0`; empty for the rule `all` and
  // for a source without a rule, which `Names` distinguishes.
  std::string RuleOf(absl::string_view source) const;

 private:
  struct Rule {
    std::string source;
    // Whether `source` is the beginning of names of sources, instead of a whole name.
    bool is_prefix = false;
    int modulus = 1;
    int remainder = 0;
  };

  // Returns the rule about the source; null if there is none.
  const Rule* Find(absl::string_view source) const;

  std::vector<Rule> rules_;
};

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_SLICE_H_
