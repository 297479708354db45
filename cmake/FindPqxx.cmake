# PostgreSQL's client library for C++, as the target Pqxx::Pqxx.
find_path(Pqxx_INCLUDE_DIR pqxx/pqxx)
find_library(Pqxx_LIBRARY pqxx)
mark_as_advanced(Pqxx_INCLUDE_DIR Pqxx_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Pqxx REQUIRED_VARS Pqxx_LIBRARY Pqxx_INCLUDE_DIR)

if(Pqxx_FOUND AND NOT TARGET Pqxx::Pqxx)
  add_library(Pqxx::Pqxx UNKNOWN IMPORTED)
  set_target_properties(Pqxx::Pqxx PROPERTIES
    IMPORTED_LOCATION "${Pqxx_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Pqxx_INCLUDE_DIR}")
endif()
