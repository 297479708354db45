// Whether a larger space, a larger memory, a faster network and one more batch size ever give a
// slower plan: random questions of 8 to 2,048 layers on 8 to 65,536 devices.
//
//   search_laws FIRST_SEED SEED_COUNT [MOST_LAYERS [MOST_DEVICES]]
//
// Writes a line for each law that a question breaks, one for each question, and a summary. Exits
// with 1 if a law is broken that holds by construction.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/large_problem.h"
#include "tests/support/search_laws.h"

namespace parplan {
namespace {

constexpr double kEqual = 1.0 + 1e-9;

struct Count {
  int asked = 0;
  int broken = 0;
  double worst = 0.0;

  void Add(double whole, double lesser, uint64_t seed, const std::string& name) {
    ++asked;
    if (whole <= lesser * kEqual) return;
    ++broken;
    const double loss = whole / lesser - 1.0;
    worst = loss > worst ? loss : worst;
    std::printf("seed %llu, %s: faster by %.4f %%\n", static_cast<unsigned long long>(seed),
                name.c_str(), 100.0 * loss);
  }
  void Write(const char* name) const {
    std::printf("%s: %d of %d broken, at worst %.4f %%\n", name, broken, asked, 100.0 * worst);
  }
};

int Run(uint64_t first, uint64_t count, int most_layers, int most_devices) {
  Count nested;
  Count smaller;
  Count hardware;
  int proved = 0;
  double seconds = 0.0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    LargeOptions options = RandomLargeOptions(seed, most_layers, most_devices);
    if (seed % 4 == 0) {
      options.rules.smallest_global_batch_size = options.global_batch_size / 2;
      options.rules.global_batch_size_step = options.global_batch_size / 4;
    }
    const LawAnswer whole = AnswerOf(options);
    proved += whole.is_proved ? 1 : 0;
    seconds += whole.processor_seconds;
    std::printf("seed %llu: %d devices, %.6g s a sample, gap %.3f %%, %.3f s\n",
                static_cast<unsigned long long>(seed), options.device_count, whole.per_sample,
                100.0 * whole.gap_ratio, whole.processor_seconds);
    for (const LesserQuestion& each : NestedSpacesOf(options)) {
      nested.Add(whole.per_sample, AnswerOf(each.options).per_sample, seed, each.name);
    }
    for (const LesserQuestion& each : SmallerSpaces(options)) {
      smaller.Add(whole.per_sample, AnswerOf(each.options).per_sample, seed, each.name);
    }
    for (const LesserQuestion& each : LesserHardware(options)) {
      hardware.Add(whole.per_sample, AnswerOf(each.options).per_sample, seed, each.name);
    }
    std::fflush(stdout);
  }
  nested.Write("spaces of the family");
  smaller.Write("other smaller spaces");
  hardware.Write("memory, network, batches");
  std::printf("%d of %llu proved, %.2f s for the whole spaces\n", proved,
              static_cast<unsigned long long>(count), seconds);
  return nested.broken == 0 ? 0 : 1;
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: search_laws FIRST_SEED SEED_COUNT [MOST_LAYERS [MOST_DEVICES]]\n");
    return 2;
  }
  return parplan::Run(std::strtoull(argv[1], nullptr, 10), std::strtoull(argv[2], nullptr, 10),
                      argc > 3 ? std::atoi(argv[3]) : 2048, argc > 4 ? std::atoi(argv[4]) : 65536);
}
