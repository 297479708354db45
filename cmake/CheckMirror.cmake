# Fails when tests/ is no mirror of the tree: when a folder below tests/ has no counterpart, or a
# folder of sources has no test in the folder of the same path below tests/. Looks at the files on
# disk. Run by CTest:
#
#   cmake -DROOT=<repository> -P cmake/CheckMirror.cmake
cmake_minimum_required(VERSION 3.25)

# Folders below tests/ without a counterpart, and all below them.
set(cross_cutting
  support       # Problems, matchers and slow twins that tests of several folders use.
  integration   # Whole programs, several at a time, in Python.
  network       # The same on hosts of their own, in network namespaces, and faults between them.
  fuzz          # Fuzzers and their corpora: one for each input that strangers write.
  frameworks    # Readers of other programs, from PyPI, that take what planctl exports.
  benchmarks    # Measurements across the tree; docs/measurements has the results.
  gpu)          # What CI cannot run: the checks of one machine with GPUs.

# Folders of any test that hold what it reads.
set(data_folders data golden)

# The folders of the top level whose folders need tests.
set(tested base planner proto exports solve server clients executor profiler-agent studies)

# Folders that are tested together in another folder below tests/: a regex of the paths, the place.
# The packages of the contract are one descriptor set, whose promises and lints are checked whole.
set(tested_together "^proto/parplan/[a-z/]*v1$" proto)

# Puts the folders of `files` into the caller's variable `result`, each once.
function(folders_of files result)
  set(folders "")
  foreach(file IN LISTS files)
    cmake_path(GET file PARENT_PATH folder)
    list(APPEND folders "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  list(FILTER folders EXCLUDE REGEX "(^|/)__pycache__$")
  set("${result}" "${folders}" PARENT_SCOPE)
endfunction()

set(found "")

# Every folder below tests/ is the path of a folder of the tree.
file(GLOB_RECURSE files RELATIVE "${ROOT}/tests" "${ROOT}/tests/*")
folders_of("${files}" folders)
list(LENGTH folders test_folder_count)
list(JOIN cross_cutting "|" cross_cutting_regex)
list(JOIN data_folders "|" data_regex)
foreach(folder IN LISTS folders)
  string(REGEX REPLACE "/(${data_regex})$" "" subject "${folder}")
  if(NOT subject MATCHES "^(${cross_cutting_regex})(/|$)" AND NOT IS_DIRECTORY "${ROOT}/${subject}")
    string(APPEND found "\n  tests/${folder}: there is no folder ${subject}; move the tests to the "
      "path of what they test")
  endif()
endforeach()

# Every folder of sources has a test.
list(GET tested_together 0 together_regex)
list(GET tested_together 1 together_place)
set(source_folder_count 0)
foreach(top IN LISTS tested)
  set(patterns "")
  foreach(extension IN ITEMS h cc cu py proto)
    list(APPEND patterns "${ROOT}/${top}/*.${extension}")
  endforeach()
  file(GLOB_RECURSE files RELATIVE "${ROOT}" ${patterns})
  folders_of("${files}" folders)
  foreach(folder IN LISTS folders)
    math(EXPR source_folder_count "${source_folder_count} + 1")
    set(place "${folder}")
    if(folder MATCHES "${together_regex}")
      set(place "${together_place}")
    endif()
    file(GLOB tests "${ROOT}/tests/${place}/*_test.cc" "${ROOT}/tests/${place}/*_test.py")
    if(NOT tests)
      string(APPEND found "\n  ${folder}: has no test in tests/${place}; add a *_test.cc or "
        "*_test.py")
    endif()
  endforeach()
endforeach()

if(found)
  message(FATAL_ERROR "tests/ does not mirror the tree (see cmake/CheckMirror.cmake):${found}")
endif()
message(STATUS
  "${source_folder_count} folders of sources have tests, ${test_folder_count} folders of tests a "
  "counterpart")
