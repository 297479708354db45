// Finds the rank that keeps a job from going on. `RendezvousServer` asks all ranks when an
// operation of one took too long, and this judges their answers.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_STALL_INQUIRY_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_STALL_INQUIRY_H_

#include <string>
#include <vector>

namespace parplan {

// The rank that the others wait for, as far as their answers show it.
struct StallVerdict {
  // The finding.
  enum class Cause {
    // `ranks` did not answer: their processes are frozen, or their hosts are cut off.
    kSilent,
    // The chain of waits ends at the one rank of `ranks`: it answers and waits for none, or it has
    // left the job.
    kBusy,
    kLeft,
    // The chain comes back to the one rank of `ranks`: ranks wait for each other.
    kCircle,
    // All answered, and the asker did not know whom it waits for.
    kUnknown,
  };
  Cause cause = Cause::kUnknown;
  std::vector<int> ranks;
};

// Returns "rank 2", or "rank 2 on host h2" if the host is known and is not 127.0.0.1.
std::string RankOnHost(int rank, const std::string& host);

// Returns that a rank is lost and `why`, as a sentence: "rank 2 is lost on host h2: ...".
std::string DescribeLoss(int rank, const std::string& host, const std::string& why);

// Returns the verdict as a sentence. `hosts`: [rank of the job] its host, or empty if unknown.
// `what` says which operation took too long.
std::string DescribeVerdict(const StallVerdict& verdict, const std::vector<std::string>& hosts,
                            const std::string& what);

// The answers of the ranks of a job. A later answer of a rank replaces its earlier one. REQUIRES,
// unchecked: ranks, but `awaited_rank` and `lost_rank`, are from 0 to `world_size` - 1.
class StallInquiry {
 public:
  // Begins the inquiry of rank `asker`, whose operation took too long.
  StallInquiry(int world_size, int asker) : witnesses_(world_size), asker_(asker) {}

  // Records whom a rank waits for: -1 for none, for example because it computes. A number that is
  // no rank of the job counts as none.
  void Answer(int rank, int awaited_rank);
  // Records that a rank has left the job, so that it cannot answer.
  void HasLeft(int rank);

  // Returns whether all ranks have answered or left, apart from `lost_rank`, which cannot.
  bool IsComplete(int lost_rank = -1) const;
  // Judges by the answers so far. A rank that has not answered is the cause, since whoever runs
  // answers, also while it computes; else the cause is at the end of the chain of waits that begins
  // at the asker.
  StallVerdict Judge() const;

 private:
  enum class State { kSilent, kAnswers, kLeft };
  struct Witness {
    State state = State::kSilent;
    int awaited_rank = -1;
  };
  // [rank]
  std::vector<Witness> witnesses_;
  int asker_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_STALL_INQUIRY_H_
