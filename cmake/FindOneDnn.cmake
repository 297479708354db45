# oneDNN, as the target OneDnn::OneDnn. Debian's own package file asks for OpenCL, which
# the library there does not use.
find_path(OneDnn_INCLUDE_DIR dnnl.h)
find_library(OneDnn_LIBRARY dnnl)
mark_as_advanced(OneDnn_INCLUDE_DIR OneDnn_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDnn REQUIRED_VARS OneDnn_LIBRARY OneDnn_INCLUDE_DIR)

if(OneDnn_FOUND AND NOT TARGET OneDnn::OneDnn)
  add_library(OneDnn::OneDnn UNKNOWN IMPORTED)
  set_target_properties(OneDnn::OneDnn PROPERTIES
    IMPORTED_LOCATION "${OneDnn_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${OneDnn_INCLUDE_DIR}")
endif()
