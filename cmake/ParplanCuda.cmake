# The CUDA toolkit, NCCL and the language CUDA, for the one target that needs them.

# nvcc is seldom in the PATH.
if(NOT CMAKE_CUDA_COMPILER)
  find_program(PARPLAN_NVCC nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin /opt/cuda/bin)
  if(NOT PARPLAN_NVCC)
    message(FATAL_ERROR "PARPLAN_WITH_CUDA needs nvcc of the CUDA toolkit; put it in the PATH or "
                        "set CMAKE_CUDA_COMPILER")
  endif()
  set(CMAKE_CUDA_COMPILER "${PARPLAN_NVCC}" CACHE FILEPATH "")
endif()
# Machine code for Hopper, and intermediate code that newer GPUs' drivers compile.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "90-real;90-virtual" CACHE STRING "")
endif()
# CMake 3.25 does not know how to ask a new nvcc for C++20.
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
enable_language(CUDA)
find_package(CUDAToolkit 12.0 REQUIRED)
find_package(NCCL REQUIRED)
