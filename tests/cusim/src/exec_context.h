/* Stacks to switch between: a hand-written switch for x86-64 (8 ns), ucontext elsewhere (160 ns). */
#ifndef CUSIM_EXEC_CONTEXT_H
#define CUSIM_EXEC_CONTEXT_H

#include <stddef.h>

#if defined(__x86_64__) && !defined(CUSIM_UCONTEXT)
typedef struct cusim_context {
    void *stack_pointer;
} cusim_context;
#else
#include <ucontext.h>
typedef struct cusim_context {
    ucontext_t context;
} cusim_context;
#endif

/* A context that begins with entry(), which must never return. */
void cusim_context_make(cusim_context *out, char *stack, size_t bytes, void (*entry)(void));
void cusim_context_switch(cusim_context *from, cusim_context *to);

#endif
