# Run at every build: writes the commit into a header, which changes only when the commit does.
execute_process(COMMAND git describe --always --dirty --abbrev=12 WORKING_DIRECTORY "${SOURCE}"
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
if(NOT result EQUAL 0)
    set(commit "unknown")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#define LOCKSTEP_GIT \"${commit}\"\n")
