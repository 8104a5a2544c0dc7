# Takes: PROGRAM, STRIP. Fails if the stripped program has 2.18 MB or more, or does not run.
execute_process(COMMAND ${STRIP} -o ${PROGRAM}.stripped ${PROGRAM} COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${PROGRAM}.stripped bytes)
message(STATUS "the runtime part has ${bytes} bytes")
if(NOT bytes LESS 2180000)
  message(FATAL_ERROR "the runtime part has ${bytes} bytes; it must stay under 2.18 MB")
endif()
execute_process(COMMAND ${PROGRAM}.stripped info COMMAND_ERROR_IS_FATAL ANY)
