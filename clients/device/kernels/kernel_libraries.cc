#include "clients/device/kernels/kernel_libraries.h"

#include <dnnl.h>

#include "absl/strings/str_cat.h"

namespace parplan {

std::vector<std::pair<std::string, std::string>> CpuKernelLibraries() {
  const dnnl_version_t* const dnnl = ::dnnl_version();
  return {{"onednn", absl::StrCat(dnnl->major, ".", dnnl->minor, ".", dnnl->patch)}};
}

}  // namespace parplan
