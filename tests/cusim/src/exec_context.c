#include "exec_context.h"

#include <stdint.h>

#if defined(__x86_64__) && !defined(CUSIM_UCONTEXT)

/* Saves what the calling convention wants kept; everything else is dead across a call. */
void cusim_context_swap(void **save, void *load);
__asm__(".text\n"
        ".globl cusim_context_swap\n"
        ".type cusim_context_swap,@function\n"
        "cusim_context_swap:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp,(%rdi)\n"
        "    mov %rsi,%rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
        "    ret\n"
        ".size cusim_context_swap,.-cusim_context_swap\n");

void cusim_context_make(cusim_context *out, char *stack, size_t bytes, void (*entry)(void))
{
    void **top = (void **)(((uintptr_t)stack + bytes) & ~(uintptr_t)15);
    *--top = NULL; /* alignment, and a null return address that ends back traces */
    *--top = (void *)(uintptr_t)entry;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    out->stack_pointer = (void *)top;
}

void cusim_context_switch(cusim_context *from, cusim_context *to)
{
    cusim_context_swap(&from->stack_pointer, to->stack_pointer);
}

#else

void cusim_context_make(cusim_context *out, char *stack, size_t bytes, void (*entry)(void))
{
    getcontext(&out->context);
    out->context.uc_stack.ss_sp = stack;
    out->context.uc_stack.ss_size = bytes;
    out->context.uc_link = NULL;
    makecontext(&out->context, entry, 0);
}

void cusim_context_switch(cusim_context *from, cusim_context *to)
{
    swapcontext(&from->context, &to->context);
}

#endif
