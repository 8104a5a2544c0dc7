# The files of the C and C++ libraries that emitted programs are linked with, copied to lib/link under fixed names: whoever runs
# `quern` needs no compiler. codegen/link/Link.cpp names them.
set(QUERN_LINK_FOLDER ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/link)

# Copies an archive of C without its tables for unwinding, which are 2% of a program: no exception passes through C, and what
# nobody catches ends the process as before.
function(quern_copy_without_unwinding from to)
  if(${from} IS_NEWER_THAN ${to}.stamp) # or there is none
    execute_process(COMMAND ${CMAKE_OBJCOPY} --remove-section=.eh_frame ${from} ${to} COMMAND_ERROR_IS_FATAL ANY)
    file(TOUCH ${to}.stamp)
  endif()
endfunction()

# Copies what the compiler finds under `name`, as `as`. A text is a linker script: its first file is the library itself.
function(quern_link_file name as)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT IS_ABSOLUTE "${path}")
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} does not find ${name}; install the development files of the C and C++ libraries")
  endif()
  file(READ ${path} start LIMIT 400 HEX)
  if(start MATCHES "^2f2a") # "/*"
    file(READ ${path} script)
    string(REGEX MATCH "GROUP *\\( *([^ ]+)" found "${script}")
    set(path ${CMAKE_MATCH_1})
  endif()
  file(REAL_PATH ${path} path)
  if(as MATCHES "^lib[cm]\\.a$")
    quern_copy_without_unwinding(${path} ${QUERN_LINK_FOLDER}/${as})
  else()
    configure_file(${path} ${QUERN_LINK_FOLDER}/${as} COPYONLY)
  endif()
endfunction()

foreach(name rcrt1.o Scrt1.o crti.o crtn.o crtbeginS.o crtendS.o
             libstdc++.a libgcc.a libgcc_eh.a libc.a libm.a libc_nonshared.a libc.so.6 libm.so.6 ld-linux-x86-64.so.2)
  quern_link_file(${name} ${name})
endforeach()
