#include "base/thread.h"

#include <fenv.h>
#include <signal.h>
#include <string.h>

#include "base/memory.h"

/* Of libgomp, which the maths library runs on; its header comes only with the compiler. */
void omp_set_num_threads(int n);

/* Kernels keep more than 1 MiB of tiles there; what the shell's limit says must not decide whether they fit. */
enum { STACK_BYTES = 8 << 20 };

typedef struct start {
    char name[16];              /* the system keeps 15 characters */
    void *(*main)(void *);
    void *argument;
} start;

static void *run(void *argument)
{
    start s = *(start *)argument;

    lsi_memory_free(argument);
    pthread_setname_np(pthread_self(), s.name);
    lsi_thread_set_float_mode();
    omp_set_num_threads(1);
    return s.main(s.argument);
}

ls_status lsi_thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *argument)
{
    /* A fault must still kill the process where it happens. */
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t blocked, before;
    pthread_attr_t attributes;
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(start), "the start of a thread", &memory));
    start *s = memory;
    strncpy(s->name, name, sizeof s->name - 1);
    s->main = main;
    s->argument = argument;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof synchronous / sizeof synchronous[0]; i++) {
        sigdelset(&blocked, synchronous[i]);
    }
    /* Blocked here, because the new thread inherits the mask: it never has a moment without it. */
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int error = pthread_attr_init(&attributes);
    if (error == 0) {
        error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
        error = error == 0 ? pthread_create(thread, &attributes, run, s) : error;
        pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        lsi_memory_free(s);
        return LS_FAIL(LS_ERR_MEMORY, "cannot start thread '%s': %s", name, strerror(error));
    }
    return LS_OK;
}

void lsi_thread_set_float_mode(void)
{
    /* Round to nearest, nothing trapped, and what ISO C does not name: denormal numbers are not flushed to zero. */
    fesetenv(FE_DFL_ENV);
}
