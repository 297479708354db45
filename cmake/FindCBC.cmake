# CBC, the solver of integer programs, with its LP solver (Debian: coinor-libcbc-dev).
# Defines CBC::CBC. Its package has no CMake files of its own.
#
# With PARPLAN_STATIC_SOLVER its archives are linked, and the two functions of LAPACK they use,
# where all of them are there: programs are 12 MB smaller with their libraries, and do not
# depend on which LAPACK a machine has. Of Fortran's runtime LAPACK needs what tells of wrong
# arguments, and planner/planners/ilp does that instead.
find_path(CBC_INCLUDE_DIR coin/CbcModel.hpp)
set(parplan_cbc_names Cbc Cgl OsiClp Clp Osi CoinUtils)

# Finds libraries into CBC_LIBRARIES; those that are not there into `missing`.
macro(parplan_find_cbc suffix missing)
  set(CBC_LIBRARIES)
  set(${missing})
  foreach(name ${ARGN})
    if("${suffix}" STREQUAL "")
      set(variable CBC_${name}_LIBRARY)
      find_library(${variable} ${name})
    else()
      set(variable CBC_${name}_ARCHIVE)
      find_library(${variable} lib${name}.a PATHS ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES})
    endif()
    mark_as_advanced(${variable})
    list(APPEND CBC_LIBRARIES "${${variable}}")
    if(NOT ${variable})
      list(APPEND ${missing} ${variable})
    endif()
  endforeach()
endmacro()

set(parplan_cbc_missing none)
if(PARPLAN_STATIC_SOLVER)
  parplan_find_cbc(.a parplan_cbc_missing ${parplan_cbc_names} lapack blas)
  if(parplan_cbc_missing)
    message(STATUS "CBC is linked shared: no archive for ${parplan_cbc_missing}")
  else()
    list(APPEND CBC_LIBRARIES bz2 z m)
  endif()
endif()
if(parplan_cbc_missing)
  parplan_find_cbc("" parplan_cbc_missing ${parplan_cbc_names})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CBC REQUIRED_VARS CBC_INCLUDE_DIR ${parplan_cbc_missing})
if(CBC_FOUND AND NOT TARGET CBC::CBC)
  add_library(CBC::CBC INTERFACE IMPORTED)
  target_include_directories(CBC::CBC SYSTEM INTERFACE "${CBC_INCLUDE_DIR}")
  target_link_libraries(CBC::CBC INTERFACE ${CBC_LIBRARIES})
endif()
