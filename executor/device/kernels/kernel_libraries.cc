#include "executor/device/kernels/kernel_libraries.h"

#include <dlfcn.h>
#include <dnnl.h>

#include "absl/strings/str_cat.h"

namespace parplan {

std::vector<std::pair<std::string, std::string>> CpuKernelLibraries() {
  const dnnl_version_t* const dnnl = ::dnnl_version();
  return {{"onednn", absl::StrCat(dnnl->major, ".", dnnl->minor, ".", dnnl->patch)}};
}

std::string CpuKernelLibraryPath() {
  Dl_info library = {};
  Dl_info own = {};
  if (::dladdr(reinterpret_cast<void*>(&::dnnl_version), &library) == 0 ||
      ::dladdr(reinterpret_cast<void*>(&CpuKernelLibraryPath), &own) == 0 ||
      library.dli_fbase == own.dli_fbase || library.dli_fname == nullptr) {
    return "";
  }
  return library.dli_fname;
}

}  // namespace parplan
