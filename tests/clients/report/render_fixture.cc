// Writes the pages that browser_test.py opens: `render_fixture FOLDER`. Prints
// the name of each.

#include <cstdio>
#include <fstream>
#include <string>

#include "clients/report/report.h"
#include "tests/clients/report/sample_reports.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  for (const parplan::NamedReport& report : parplan::ReportGallery()) {
    const std::string path = std::string(argv[1]) + "/" + report.name + ".html";
    std::ofstream file(path, std::ios::binary);
    file << parplan::RenderReport(report.input);
    file.close();
    if (!file) {
      std::fprintf(stderr, "cannot write %s\n", path.c_str());
      return 1;
    }
    std::printf("%s\n", path.c_str());
  }
  return 0;
}
