# GCC's OpenMP library, on which Debian's oneDNN runs, as the target Gomp::Gomp. CMake's own package
# would give Clang's library to Clang: a number of threads set in one of them says nothing to the
# other.
find_library(Gomp_LIBRARY NAMES gomp libgomp.so.1)
mark_as_advanced(Gomp_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Gomp REQUIRED_VARS Gomp_LIBRARY)

if(Gomp_FOUND AND NOT TARGET Gomp::Gomp)
  add_library(Gomp::Gomp UNKNOWN IMPORTED)
  set_target_properties(Gomp::Gomp PROPERTIES IMPORTED_LOCATION "${Gomp_LIBRARY}")
endif()
