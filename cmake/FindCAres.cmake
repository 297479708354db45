# The library that asks name servers, which gRPC resolves names with too, as the target CAres::CAres.
find_path(CAres_INCLUDE_DIR ares.h)
find_library(CAres_LIBRARY cares)
mark_as_advanced(CAres_INCLUDE_DIR CAres_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAres REQUIRED_VARS CAres_LIBRARY CAres_INCLUDE_DIR)

if(CAres_FOUND AND NOT TARGET CAres::CAres)
  add_library(CAres::CAres UNKNOWN IMPORTED)
  set_target_properties(CAres::CAres PROPERTIES
    IMPORTED_LOCATION "${CAres_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CAres_INCLUDE_DIR}")
endif()
