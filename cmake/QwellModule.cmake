# Compiler flags of everything that is ours.
add_library(qwell_flags INTERFACE)
target_include_directories(qwell_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(qwell_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers -Wnon-virtual-dtor -Woverloaded-virtual -Werror
  # Results may not depend on what the compiler fuses: a fused multiply-add is written where it is meant.
  -ffp-contract=off -fno-math-errno)
target_compile_definitions(qwell_flags INTERFACE QWELL_VERSION="${PROJECT_VERSION}" SPDLOG_FMT_EXTERNAL)
if(QWELL_SANITIZE)
  target_compile_options(qwell_flags INTERFACE -fsanitize=${QWELL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(qwell_flags INTERFACE -fsanitize=${QWELL_SANITIZE})
endif()

# qwell_module(NAME [DEPENDS modules...] [PACKAGES targets...]): the library qwell_NAME from src/NAME/**.cpp.
function(qwell_module name)
  cmake_parse_arguments(arg "" "" "DEPENDS;PACKAGES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  list(TRANSFORM arg_DEPENDS PREPEND qwell_)
  if(sources)
    add_library(qwell_${name} STATIC ${sources})
    target_link_libraries(qwell_${name} PUBLIC qwell_flags ${arg_DEPENDS} ${arg_PACKAGES})
  else()
    add_library(qwell_${name} INTERFACE)
    target_link_libraries(qwell_${name} INTERFACE qwell_flags ${arg_DEPENDS} ${arg_PACKAGES})
  endif()
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/${name}/module.cmake)
    include(${CMAKE_SOURCE_DIR}/src/${name}/module.cmake)
  endif()
endfunction()

# qwell_test(NAME [DEPENDS modules...]): the test program test_NAME from tests/NAME/**.cpp, run by ctest as NAME.
# Test data is found through QWELL_TEST_DATA (tests/data), scratch files belong under testing::TempDir().
function(qwell_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*.cpp)
  if(NOT sources)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  list(TRANSFORM arg_DEPENDS PREPEND qwell_)
  add_executable(test_${name} ${sources})
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(test_${name} PRIVATE ${arg_DEPENDS} qwell_flags GTest::gtest GTest::gtest_main GTest::gmock)
  target_compile_definitions(test_${name} PRIVATE
    QWELL_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" QWELL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT})
endfunction()
