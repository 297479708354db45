// Writes the pages that browser_test.py opens: `accuracy_page_fixture FOLDER`.
// Prints the name of each.

#include <cstdio>
#include <fstream>
#include <string>

#include "studies/accuracy/accuracy_report.h"
#include "tests/clients/calibrate/accuracy_samples.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  for (const int row_count : {40, 1300, 0}) {
    const std::string path =
        std::string(argv[1]) + "/accuracy-" + std::to_string(row_count) + ".html";
    std::ofstream file(path, std::ios::binary);
    file << parplan::accuracy::AccuracyHtml(parplan::accuracy::SampleSummary(row_count));
    file.close();
    if (!file) {
      std::fprintf(stderr, "cannot write %s\n", path.c_str());
      return 1;
    }
    std::printf("%s\n", path.c_str());
  }
  return 0;
}
