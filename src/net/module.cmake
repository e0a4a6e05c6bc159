# ThreadSanitizer does not know stand-alone fences, and g++ says so as a warning. Asio has some in its completion handlers (they can be left
# out) and in its reference counts.
if(QWELL_SANITIZE MATCHES "thread")
  target_compile_definitions(qwell_net PRIVATE BOOST_ASIO_DISABLE_FENCES)
  target_compile_options(qwell_net PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
endif()
