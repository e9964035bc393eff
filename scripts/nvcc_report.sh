#!/bin/sh
# nvcc_report.sh REPORT NVCC ARGUMENT...
# Runs the compiler; what ptxas tells of every kernel (-Xptxas -v: registers, spills, stack) goes to REPORT, which
# tests/structure/test_kernel_resources.py reads, and everything else, warnings first of all, to where it always goes.
report=$1
shift
said=$("$@" 2>&1)
status=$?
# "ptxas info" lines, and the indented one that follows "Function properties".
of_kernels='^ptxas info|^ +[0-9]+ bytes stack frame'
printf '%s\n' "$said" | grep -E "$of_kernels" >"$report"
printf '%s\n' "$said" | grep -Ev "$of_kernels|^$" >&2
exit $status
