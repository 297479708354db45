// Selects the runs of a file that are fitted by a reproducible rule, so that the other runs can
// test the fit. `planctl calibrate` reads `--time-slice` and `--memory-slice` with it.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RUN_SLICE_H_
#define PARPLAN_CLIENTS_CALIBRATE_RUN_SLICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan::planctl {

// The slices from which the calibration inside the programs is made (docs/calibration.md). The
// modulus of a source of the first collection is larger because all ids of that collection have
// even hashes. Rows of nanotron are in no slice: equal plans of it differ by ten times.
inline constexpr char kPublishedTimeSlice[] =
    "vtrain-single: sha256(id) % 5 == 0; automodel-*: sha256(id) % 3 == 0; "
    "megatron-bridge-*: sha256(id) % 3 == 0; mlperf-*: sha256(id) % 3 == 0; "
    "nemo-*: sha256(id) % 3 == 0; simumax-*: sha256(id) % 3 == 0; "
    "torchtitan-*: sha256(id) % 3 == 0";
inline constexpr char kPublishedMemorySlice[] = "megatron-ci-golden: sha256(id) % 4 == 0";

// A set of runs, written as rules with semicolons between them. `SOURCE: sha256(id) % MODULUS ==
// REMAINDER` has the runs of one source whose id, hashed and read as a number of 256 bits, leaves
// that remainder; `SOURCE: all` has every run of the source. A SOURCE that ends with `*` stands for
// all sources that begin so. `none` has no run.
class RunSlice {
 public:
  // MODULUS is 2 to 1000, REMAINDER below it. Returns INVALID_ARGUMENT (SPEC_INVALID) with `field`
  // and the forms above for other texts, and for two rules about one source.
  static absl::StatusOr<RunSlice> Parse(absl::string_view text, absl::string_view field);

  bool Holds(absl::string_view source, absl::string_view id) const;

  // Returns whether some rule is about the source.
  bool Names(absl::string_view source) const { return Find(source) != nullptr; }
  // Returns the rule of a source, for example `sha256(id) % 5 == 0`; empty if all of its runs are
  // in the slice, or none.
  std::string RuleOf(absl::string_view source) const;

 private:
  struct Rule {
    std::string source;
    // The source is only how names begin.
    bool is_prefix = false;
    int modulus = 1;
    int remainder = 0;
  };

  // Returns the first rule about the source; null if there is none.
  const Rule* Find(absl::string_view source) const;

  std::vector<Rule> rules_;
};

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_SLICE_H_
